"""DeLong's variance and test against brute force, the bootstrap and the published example of their formula."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dpeval.measure.delong import delong, delong_difference
from dpeval.measure.influence import auc_part
from dpeval.measure.intervals import estimate


def brute_force(scores: np.ndarray, member: np.ndarray) -> tuple[float, float]:
    """The paper's structural components, pair by pair."""
    x, y = scores[member], scores[~member]
    wins = (x[:, None] > y[None, :]) + 0.5 * (x[:, None] == y[None, :])
    value = wins.mean()
    s10, s01 = wins.mean(axis=1).var(ddof=1), wins.mean(axis=0).var(ddof=1)
    return float(value), float(s10 / len(x) + s01 / len(y))


@pytest.mark.parametrize("seed", range(5))
def test_the_variance_is_that_of_the_paper(seed: int) -> None:
    """With ties, and with sides of different sizes."""
    rng = np.random.default_rng(seed)
    member = rng.random(90) < 0.3
    scores = np.round(rng.normal(size=90) + member, 1)
    found = delong(scores, member)
    assert (found.auc, found.variance) == pytest.approx(brute_force(scores, member), abs=1e-12)
    assert found.auc == pytest.approx(roc_auc_score(member, scores))


def test_the_variance_agrees_with_the_bootstrap() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(400) < 200
    scores = rng.normal(size=400) + 0.8 * member
    drawn = []
    for _ in range(800):
        at = np.r_[rng.integers(0, 200, 200), rng.integers(200, 400, 200)]
        drawn.append(roc_auc_score(member[at], scores[at]))
    assert np.std(drawn) == pytest.approx(np.sqrt(delong(scores, member).variance), rel=0.08)


def test_the_shaped_interval_is_near_the_symmetric_one_and_stays_inside() -> None:
    """Close to DeLong's own where both make sense; at an AUC of 1, where his has no width, it has one."""
    rng = np.random.default_rng(1)
    member = np.arange(600) < 300
    scores = rng.normal(size=600) + 0.7 * member
    found = estimate([auc_part(scores, member, [str(i) for i in range(600)])])
    assert (found.low, found.high) == pytest.approx(delong(scores, member).interval(), abs=0.004)
    perfect = estimate([auc_part(member.astype(float), member, [str(i) for i in range(600)])])
    assert delong(member.astype(float), member).variance == 0
    assert perfect.value == perfect.high == 1.0
    assert 0.97 < perfect.low < 1.0


def test_the_difference_of_two_attacks_is_paired() -> None:
    """Against brute force on the components; what both attacks share cancels."""
    rng = np.random.default_rng(2)
    member = np.arange(300) < 150
    shared = rng.normal(size=300) + member
    first, second = shared + 0.2 * rng.normal(size=300), shared + 0.2 * rng.normal(size=300)
    found = delong_difference(first, second, member)
    assert found.auc == pytest.approx(delong(first, member).auc - delong(second, member).auc)
    parts = [[(s[member][:, None] > s[~member][None, :]).mean(axis=k) for k in (1, 0)] for s in (first, second)]
    expected = sum((a - b).var(ddof=1) / 150 for a, b in zip(*parts, strict=True))
    assert found.variance == pytest.approx(expected, rel=1e-9)
    assert found.variance < 0.2 * (delong(first, member).variance + delong(second, member).variance)


def test_p_values_under_the_null_are_uniform() -> None:
    """Five per cent of differences of equally good attacks are called significant; two standard errors allowed."""
    rng, hits = np.random.default_rng(3), 0
    member = np.arange(120) < 60
    for _ in range(600):
        shared = rng.normal(size=120) + member
        found = delong_difference(shared + rng.normal(size=120), shared + rng.normal(size=120), member)
        hits += found.p_value(0.0) <= 0.05
    assert abs(hits / 600 - 0.05) < 0.02


def test_nothing_varies() -> None:
    assert delong_difference([1.0, 0.0], [1.0, 0.0], [1, 0]).p_value(0.0) == 1.0
    assert delong([1.0, 0.0], [1, 0]).p_value(0.5) == 0.0
