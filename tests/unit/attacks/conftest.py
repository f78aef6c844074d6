"""A tiny world for attacks: a random BERT of two layers, generated reviews, and views on real releases of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from dpeval.context import RunContext
from dpeval.models.release import TextRelease
from dpeval.models.transform import Transform, normal_like
from dpeval.plugin import Knowledge, Release
from dpeval.tiny import tiny_checkpoint
from dpeval.types import Embeddings, NoClaim, Records
from dpeval_defenses.none import Undefended

VALUES = 4


@dataclass(frozen=True)
class Scaled(Transform):
    """Scales the matrix to Frobenius norm one, or leaves it, and adds normal noise."""

    sigma: float
    normalised: bool = True

    def apply(self, x: torch.Tensor, generators: Sequence[torch.Generator]) -> torch.Tensor:
        if self.normalised:
            x = x / x.norm(dim=(1, 2), keepdim=True)
        return x + self.sigma * normal_like(x, generators)


class View:
    """Embedding access to a release; ``spoil`` edits what is intercepted; counts what is asked."""

    def __init__(self, release: Release, tap: str, targets: Records, spoil: Callable[[Embeddings], Embeddings]) -> None:
        self.tap, self.asked = tap, []
        self._release, self._targets, self._spoil = release, targets, spoil

    def intercepted(self, *, draw: int = 0) -> Embeddings:
        self.asked.append(("targets", draw))
        return self._spoil(self._release.embed(self._targets, self.tap, draw=draw))

    def embed(self, records: Records, *, draw: int = 0) -> Embeddings:
        self.asked.append(("own", draw))
        return self._release.embed(records, self.tap, draw=draw)


@dataclass(frozen=True, eq=False)
class World:
    """Checkpoint, data and the makers of releases and views."""

    checkpoint: Any
    auxiliary: Records
    targets: Records
    values: int
    ctx: RunContext

    @property
    def knowledge(self) -> Knowledge:
        return self.knowing(self.auxiliary)

    def knowing(self, auxiliary: Records) -> Knowledge:
        return Knowledge(self.checkpoint, Undefended(), auxiliary, num_labels=2, num_attribute_values=self.values)

    def view(
        self, tap: str, sigma: float | None = None, *, normalised: bool = True, spoil=lambda e: e, stir=0.0
    ) -> View:
        """Clear rows at ``tap``, or the padded release with noise; ``stir`` moves all weights as training does."""
        classifier = self.checkpoint.build(2, 0)
        with torch.no_grad():
            for i, weight in enumerate(classifier.parameters()):
                noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(i))
                weight.add_(stir * weight.std(correction=0) * noise)
        closed = {} if sigma is None else {"tap": tap, "transform": Scaled(sigma, normalised)}
        release = TextRelease.of(classifier, self.checkpoint, claim=NoClaim(), **closed)
        return View(release, tap, self.targets, spoil)

    def truth(self) -> list[list[int]]:
        return self.checkpoint.tokens(self.targets)

    def recall(self, answers: Sequence[Sequence[int]]) -> float:
        """The share of ordinary tokens found at their place."""
        pairs = [
            (true, guess)
            for tokens, given in zip(self.truth(), answers, strict=True)
            for true, guess in zip(tokens, given, strict=False)
            if true not in self.checkpoint.special_ids
        ]
        return float(np.mean([true == guess for true, guess in pairs]))


def reviews(words: Sequence[str], n: int, prefix: str, seed: int) -> Records:
    """Texts of 8 to 14 words, mostly from the dozen that belong to the text's attribute value."""
    rng = np.random.default_rng(seed)
    values = tuple(int(v) for v in rng.integers(0, VALUES, n))
    own = [words[12 * v : 12 * v + 12] for v in values]
    texts = [[*rng.choice(mine, rng.integers(6, 9)), *rng.choice(words[48:], rng.integers(2, 6))] for mine in own]
    ordered = tuple(" ".join(rng.permutation(text)) for text in texts)
    return Records(tuple(f"{prefix}{i}" for i in range(n)), ordered, (0,) * n, attributes=values)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A hundred auxiliary texts and thirty targets; the attribute shows in the words."""
    checkpoint = tiny_checkpoint(tmp_path_factory.mktemp("tiny"))
    vocabulary = checkpoint.tokenizer.get_vocab()
    words = [word for word in sorted(vocabulary) if word.isalpha() and vocabulary[word] not in checkpoint.special_ids][
        :96
    ]
    return World(
        checkpoint=checkpoint,
        auxiliary=reviews(words, 100, "a", seed=0),
        targets=reviews(words, 30, "t", seed=1),
        values=VALUES,
        ctx=RunContext(seed=7),
    )
