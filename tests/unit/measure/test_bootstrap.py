"""The vectorised bootstrap equals scikit-learn's weighted metrics, resample by resample."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from dpeval.measure.bootstrap import Ranked, replicates, tpr_replicates, weighted_auc, weighted_tpr


@pytest.fixture
def tied() -> tuple[np.ndarray, np.ndarray, np.ndarray, Ranked]:
    """Tied scores, the truth, integer weights of five resamples, and the ranked form of the scores."""
    rng = np.random.default_rng(0)
    truth = rng.random(120) < 0.5
    scores = np.round(rng.normal(size=120) + truth, 1)
    weights = rng.multinomial(120, np.full(120, 1 / 120), size=5).astype(float)
    return scores, truth, weights, Ranked.of(scores, truth, np.arange(120))


def test_weighted_auc_is_scikit_learns(tied) -> None:
    """With sample weights and ties."""
    scores, truth, weights, ranked = tied
    expected = [roc_auc_score(truth, scores, sample_weight=w) for w in weights]
    assert weighted_auc(ranked, weights[:, ranked.unit]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("fpr", [0.0, 0.05, 0.3])
def test_weighted_tpr_is_the_last_point_at_or_below(tied, fpr: float) -> None:
    """Read from scikit-learn's weighted curve."""
    scores, truth, weights, ranked = tied
    found = weighted_tpr(fpr)(ranked, weights[:, ranked.unit])
    for value, w in zip(found, weights, strict=True):
        false, true, _ = roc_curve(truth, scores, sample_weight=w, drop_intermediate=False)
        assert value == pytest.approx(max(t for f, t in zip(false, true, strict=True) if f <= fpr + 1e-9), abs=1e-9)


def test_all_runs_are_resampled_together(tied) -> None:
    """The same records in another run give the same replicates; chunking does not change what is drawn for whom."""
    ranked = tied[3]
    both = replicates([ranked, ranked], weighted_auc, units=120, resamples=30, rng=np.random.default_rng(1))
    assert np.array_equal(both[0], both[1])
    assert both.shape == (2, 30)


def test_the_same_seed_gives_the_same_replicates(tied) -> None:
    """Randomness comes from the generator handed in."""
    one, other = (
        tpr_replicates([tied[3]], 0.1, units=120, resamples=10, rng=np.random.default_rng(7)) for _ in range(2)
    )
    assert np.array_equal(one, other)
