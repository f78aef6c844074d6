"""Overwhelming noise in the contract suite: quiet for a sound release, loud for every way round the noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from dpeval.models.release import TextRelease
from dpeval.models.transform import Transform, normal_like
from dpeval.testing import noise
from dpeval.testing.bench import ContractError, Tiny
from dpeval.testing.noise import dependence, leaves_nothing_under_overwhelming_noise, strongest_column
from dpeval.types import Embeddings, NoClaim, Predictions, Records
from dpeval_defenses.none import Undefended


@dataclass(frozen=True)
class Noise(Transform):
    """Adds normal noise, to all rows or to all but the second."""

    sigma: float
    spares: bool = False

    def apply(self, x: torch.Tensor, generators: Sequence[torch.Generator]) -> torch.Tensor:
        noise = self.sigma * normal_like(x, generators)
        if self.spares:
            noise[:, 1] = 0
        return x + noise


@dataclass(frozen=True, eq=False)
class GoesRound(TextRelease):
    """Answers with the classes of the clear text, as a residual connection past the noise would."""

    def predict(self, records: Records, *, draw: int = 0) -> Predictions:
        clear = TextRelease.of(self.classifier, self.checkpoint, claim=NoClaim())
        return clear.predict(records)


@dataclass(frozen=True, eq=False)
class TellsLength(TextRelease):
    """Releases as many rows as the text has tokens."""

    def embed(self, records: Records, tap: str, *, draw: int = 0) -> Embeddings:
        whole = super().embed(records, tap, draw=draw)
        kept = [whole.rows(i)[: len(t)] for i, t in enumerate(self.checkpoint.tokens(records))]
        offsets = np.cumsum([0, *map(len, kept)])
        return Embeddings(whole.ids, np.concatenate(kept), offsets)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny.make(Path(tmp_path_factory.mktemp("tiny")))


def judged(tiny: Tiny, kind: type[TextRelease], tap: str = "embedding", *, spares: bool = False) -> None:
    built = TextRelease.of(
        tiny.checkpoint.build(2, 0), tiny.checkpoint, claim=NoClaim(), tap=tap, transform=Noise(0.1, spares)
    )
    release = kind(built.classifier, built.checkpoint, built.stated, built.tap, built.transform, built.seed)
    leaves_nothing_under_overwhelming_noise(Undefended(), release, tap, tiny)


@pytest.mark.parametrize("tap", ["embedding", "output"])
def test_a_sound_release_passes(tiny: Tiny, tap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its tensor and its predictions were looked at, and every installed attack on embeddings tried."""
    looked: list[str] = []
    for name in ("_shows_nothing", "_gains_nothing"):
        own = getattr(noise, name)
        monkeypatch.setattr(noise, name, lambda what, *rest, own=own: (looked.append(what), own(what, *rest)))
    judged(tiny, TextRelease, tap)
    assert {"the released tensor", "the predictions", "invert-nearest", "attribute-probe"} <= set(looked)


def test_predictions_that_go_round_the_noise_are_found(tiny: Tiny) -> None:
    with pytest.raises(ContractError, match="the predictions still tells texts apart"):
        judged(tiny, GoesRound)


def test_a_length_that_is_told_is_found(tiny: Tiny) -> None:
    with pytest.raises(ContractError, match="the released tensor still tells texts apart"):
        judged(tiny, TellsLength)


def test_a_row_that_the_noise_spares_is_found(tiny: Tiny) -> None:
    with pytest.raises(ContractError, match="the released tensor still tells texts apart"):
        judged(tiny, TextRelease, spares=True)


def test_a_release_without_noise_has_no_such_test(tiny: Tiny) -> None:
    clear = TextRelease.of(tiny.checkpoint.build(2, 0), tiny.checkpoint, claim=NoClaim())
    assert clear.noisier(10.0) is None
    leaves_nothing_under_overwhelming_noise(Undefended(), clear, "output", tiny)


def test_louder_noise_is_the_same_noise_multiplied(tiny: Tiny) -> None:
    release = TextRelease.of(
        tiny.checkpoint.build(2, 0), tiny.checkpoint, claim=NoClaim(), tap="output", transform=Noise(0.1)
    )
    louder = release.noisier(3.0)
    assert louder is not None
    few = tiny.parts.test.take(range(3))
    clear = TextRelease.of(release.classifier, tiny.checkpoint, claim=NoClaim()).embed(few, "output").values
    once, thrice = (r.embed(few, "output").values - clear for r in (release, louder))
    assert np.allclose(thrice, 3 * once, atol=1e-5)


def test_the_statistic_is_standard_normal_for_independent_answers() -> None:
    rng = np.random.default_rng(0)
    found = [dependence(*rng.standard_normal((2, 40, 6))) for _ in range(400)]
    assert abs(np.mean(found)) < 0.15
    assert 0.85 < np.std(found) < 1.15


def test_no_column_of_noise_passes_for_text_and_a_single_one_of_text_does() -> None:
    rng = np.random.default_rng(2)
    assert max(strongest_column(*rng.standard_normal((2, 40, 50))) for _ in range(300)) < 1
    one, other = rng.standard_normal((2, 40, 50))
    other[:, 7] = one[:, 7]
    assert strongest_column(one, other) > 1


def test_the_statistic_agrees_with_matching_at_random() -> None:
    """The oracle: the same sum under five thousand random matchings."""
    rng = np.random.default_rng(1)
    shared = rng.standard_normal((30, 4))
    one, other = (shared + 2 * rng.standard_normal((30, 4)) for _ in range(2))
    scaled = [(x - x.mean(axis=0)) / x.std(axis=0) for x in (one, other)]
    sums = [float(np.sum(scaled[0] * scaled[1][rng.permutation(30)])) for _ in range(5000)]
    by_hand = (float(np.sum(scaled[0] * scaled[1])) - np.mean(sums)) / np.std(sums)
    assert dependence(one, other) == pytest.approx(by_hand, abs=0.15)
