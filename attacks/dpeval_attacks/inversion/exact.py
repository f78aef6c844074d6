"""The public rows of every token at every position, where a row depends on nothing else.

At the input embeddings, and wherever the public layers up to the tap do not mix tokens, the clear row of token v at
position p is a known vector. Reading a noised row is then no guess-work: the likelihood of each (v, p) is exact, with
no linear picture between.

With a public checkpoint and released texts at hand::

    rows = TokenRows.of(checkpoint, "embedding", texts, tokens, device)
    reader = ExactReader.of(rows, sample, allowed=allowed, log_prior=None, noise=0.1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.taps import capture
from dpeval.types import Floats, Ints, Records, Rows
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.public import public_sample
from dpeval_attacks.inversion.search import NO_ANSWER

_TRIED_TEXTS = 12
_SAME = 1e-3
"""Relative difference from the rows of real texts up to which a token's row is taken to depend on nothing else."""
_BLOCK_BYTES = 1 << 22
"""What a processor's cache holds; larger blocks take several times as long."""


@dataclass(frozen=True, eq=False)
class TokenRows:
    """The public model up to the tap, asked for one token at a time."""

    classifier: TextClassifier
    tap: str
    positions: int
    width: int

    @classmethod
    def of(
        cls,
        checkpoint: Checkpoint,
        tap: str,
        texts: Records,
        tokens: Sequence[Sequence[int]],
        *,
        width: int,
        device: torch.device,
    ) -> TokenRows | None:
        """``None`` where rows depend on the rest of the text too, or are of another width than those released."""
        few = range(min(_TRIED_TEXTS, len(texts)))
        clear = public_sample(checkpoint, texts.take(few), [tokens[i] for i in few], tap, width=width, device=device)
        if clear is None:
            return None
        return cls.through(checkpoint.build(2, seed=0).to(device), tap, clear, positions=checkpoint.max_length)

    @classmethod
    def through(cls, classifier: TextClassifier, tap: str, clear: Sample, *, positions: int) -> TokenRows | None:
        """``None`` where the ``clear`` rows of whole texts are not those of their tokens alone."""
        found = cls(classifier, tap, positions, clear.rows.shape[1])
        alone = found.at(clear.tokens, clear.positions)
        scale = float(np.abs(clear.rows).max()) or 1.0
        return found if float(np.abs(alone - clear.rows).max()) <= _SAME * scale else None

    def at(self, tokens: Ints, positions: Ints) -> Rows:
        """The row of each token at its position, shape ``(n, d)``."""
        out = np.empty((len(tokens), self.width), dtype=np.float32)
        kinds, where = np.unique(tokens, return_inverse=True)
        last = int(positions.max()) + 1 if len(positions) else 1
        for block, at in self._blocks(kinds, last):
            inside = np.flatnonzero((where >= at) & (where < at + len(block)))
            out[inside] = block[where[inside] - at, positions[inside]]
        return out

    def blocks(self, allowed: Ints, last: int) -> Iterator[tuple[Ints, Rows]]:
        """Parts of ``allowed`` with their rows at the first ``last`` positions, shape ``(part, last, d)``."""
        for rows, at in self._blocks(allowed, last):
            yield allowed[at : at + len(rows)], rows

    def _blocks(self, tokens: Ints, last: int) -> Iterator[tuple[Rows, int]]:
        length = max(2, last)
        size = max(16, _BLOCK_BYTES // (4 * length * self.width))
        for at in range(0, len(tokens), size):
            ids = torch.from_numpy(tokens[at : at + size]).to(self.classifier.device)
            batch = {"input_ids": ids[:, None].expand(-1, length).contiguous()}
            batch["attention_mask"] = torch.ones_like(batch["input_ids"])
            with torch.inference_mode():
                yield capture(self.classifier, batch, self.tap).float().cpu().numpy(), at


@dataclass(frozen=True, eq=False)
class ExactReader:
    """Answers for each row the token of the highest posterior: N(gain · factor · row(v, p), noise²) times the prior."""

    rows: TokenRows
    allowed: Ints
    log_prior: Floats | None
    factor: float
    noise: float
    unexplained: float
    """Root mean square of what these rows leave unexplained of the released own texts, per entry."""

    @classmethod
    def of(
        cls, rows: TokenRows, sample: Sample, *, allowed: Ints, log_prior: Floats | None, noise: float
    ) -> ExactReader:
        """A reader with the one factor that fits the released ``sample``, and at least the stated ``noise``."""
        expected = sample.gains[:, None] * rows.at(sample.tokens, sample.positions).astype(np.float64)
        power = float(np.sum(expected * expected))
        factor = float(np.sum(expected * sample.rows)) / power if power > 0 else 1.0
        left = float(np.sqrt(np.mean(np.square(sample.rows - factor * expected))))
        least = 1e-4 * factor * np.sqrt(power / max(expected.size, 1))
        return cls(rows, allowed, log_prior, factor, max(noise, left, least, 1e-20), left)

    def read(self, sample: Sample) -> Ints:
        """One token id per row of ``sample``; -1 for a zero or broken row."""
        return self.best(sample, 1)[:, 0]

    def best(self, sample: Sample, k: int) -> Ints:
        """The ``k`` most probable tokens of each row, best first, shape ``(n, k)``."""
        fine = np.isfinite(sample.rows).all(axis=1) & np.any(sample.rows, axis=1)
        fine &= sample.positions < self.rows.positions
        asked = sample.where(np.asarray(fine))
        found = np.full((len(sample), k), NO_ANSWER, dtype=np.int64)
        if len(asked):
            found[fine] = self._best(asked, k)
        return found

    def accuracy(self, sample: Sample) -> float:
        """The share of rows read right."""
        return float(np.mean(self.read(sample) == sample.tokens)) if len(sample) else 0.0

    def _best(self, sample: Sample, k: int) -> Ints:
        scores = np.full((len(sample), k), -np.inf, dtype=np.float32)
        ids = np.full((len(sample), k), NO_ANSWER, dtype=np.int64)
        scale = (sample.gains * self.factor).astype(np.float32)
        queries = np.ascontiguousarray(sample.rows, dtype=np.float32) * scale[:, None]
        groups = [(int(p), np.flatnonzero(sample.positions == p)) for p in np.unique(sample.positions)]
        for tokens, block in self.rows.blocks(self.allowed, int(sample.positions.max()) + 1):
            for position, members in groups:
                fresh = self._scores(queries[members], np.square(scale[members]), block[:, position], tokens)
                _keep_best(scores, ids, members, fresh, tokens, k)
        return ids

    def _scores(self, queries: Rows, weights: NDArray[np.float32], rows: Rows, tokens: Ints) -> NDArray[np.float32]:
        lengths = np.einsum("vd,vd->v", rows, rows)
        scores = (queries @ rows.T - 0.5 * weights[:, None] * lengths) / np.float32(self.noise**2)
        if self.log_prior is not None:
            scores = scores + self.log_prior[tokens].astype(np.float32)
        found: NDArray[np.float32] = scores
        return found


def _keep_best(
    scores: NDArray[np.float32], ids: Ints, members: Ints, fresh: NDArray[np.float32], tokens: Ints, k: int
) -> None:
    """Merge ``fresh`` scores of ``tokens`` into the best ``k`` of the rows ``members``, in place."""
    few = min(k, fresh.shape[1])
    top = np.argpartition(-fresh, few - 1, axis=1)[:, :few]
    both = np.hstack([scores[members], np.take_along_axis(fresh, top, axis=1)])
    named = np.hstack([ids[members], tokens[top]])
    order = np.argsort(-both, axis=1, kind="stable")[:, :k]
    scores[members] = np.take_along_axis(both, order, axis=1)
    ids[members] = np.take_along_axis(named, order, axis=1)
