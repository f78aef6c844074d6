"""Metrics of membership scores agree with scikit-learn and with counting, and refuse what is undefined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from dpeval.measure.roc import (
    OneClassError,
    auc,
    balanced_accuracy,
    best_threshold,
    enough_nonmembers,
    needed_nonmembers,
    operating_points,
    tpr_at_fpr,
)


def tied(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random scores with many ties, both classes present."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 300))
    truth = rng.random(n) < rng.uniform(0.1, 0.9)
    truth[:2] = True, False
    return np.round(rng.normal(size=n) + truth, int(rng.integers(0, 4))), truth


@pytest.mark.parametrize("seed", range(40))
def test_auc_is_scikit_learns_to_twelve_digits(seed: int) -> None:
    """Also under ties, and on any scale."""
    scores, truth = tied(seed)
    assert auc(scores, truth) == pytest.approx(metrics.roc_auc_score(truth, scores), abs=1e-12)
    assert auc(1e-9 * scores - 5, truth) == pytest.approx(auc(np.exp(1e-9 * scores - 5), truth), abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_auc_is_the_share_of_pairs_won(seed: int) -> None:
    """Counted pair by pair, a tie being half a win; swapping the classes gives the complement."""
    scores, truth = tied(seed)
    gap = scores[truth][:, None] - scores[~truth][None, :]
    assert auc(scores, truth) == pytest.approx(float(((gap > 0) + (gap == 0) / 2).mean()), abs=1e-12)
    assert auc(scores, ~truth) == pytest.approx(1 - auc(scores, truth), abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_balanced_accuracy_is_scikit_learns(seed: int) -> None:
    """A score equal to the threshold is called a member."""
    scores, truth = tied(seed)
    threshold = float(np.median(scores))
    expected = metrics.balanced_accuracy_score(truth, scores >= threshold)
    assert balanced_accuracy(scores, truth, threshold) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_tpr_at_fpr_is_the_best_threshold_allowed(seed: int) -> None:
    """Tried out for every threshold: none with FPR at or below the limit has a higher TPR."""
    scores, truth = tied(seed)
    for limit in (0.0, 0.01, 0.1, 0.29, 1.0):
        rates = [(np.mean(scores[truth] >= t), np.mean(scores[~truth] >= t)) for t in [np.inf, *scores]]
        expected = max(tpr for tpr, fpr in rates if fpr <= limit + 1e-12)
        found = tpr_at_fpr(scores, truth, limit)
        assert found.tpr == pytest.approx(expected, abs=1e-12)
        assert found.fpr <= limit + 1e-12
        assert np.mean(scores[~truth] >= found.threshold) == pytest.approx(found.fpr, abs=1e-12)


def test_tpr_at_fpr_does_not_take_the_first_point_beyond() -> None:
    """With the ROC (0, 0.1), (0.02, 0.6), TPR at 0.1 % FPR is 0.1; peers report 0.6."""
    scores = np.concatenate([[9.0], np.full(5, 5.0), np.zeros(4), [5.0], np.zeros(49)])
    truth = np.arange(60) < 10
    assert tpr_at_fpr(scores, truth, 0.001).tpr == 0.1
    assert tpr_at_fpr(scores, truth, 0.02).tpr == 0.6


def test_the_limit_is_compared_in_counts() -> None:
    """29 % of 100 non-members are 29, though 0.29 * 100 is 28.999999999999996."""
    scores = np.concatenate([[100.0], np.arange(100)[::-1].astype(float)])
    truth = np.arange(101) < 1
    assert tpr_at_fpr(scores, truth, 0.29).fpr == pytest.approx(0.29)


def test_operating_points_run_from_nobody_to_everybody() -> None:
    """Every achievable point, in order, without interpolation."""
    points = operating_points(np.array([2.0, 1.0, 1.0, 0.0]), np.array([1, 1, 0, 0]))
    assert [(p.tpr, p.fpr) for p in points] == [(0, 0), (0.5, 0), (1, 0.5), (1, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_best_threshold_beats_every_other(seed: int) -> None:
    """No score is a better threshold on the calibration part, and among equals it is the largest."""
    scores, truth = tied(seed)
    chosen = best_threshold(scores, truth)
    values = {t: balanced_accuracy(scores, truth, t) for t in np.unique(scores).tolist()}
    best = max(values.values())
    assert chosen == max(t for t, value in values.items() if value >= best - 1e-12)


@pytest.mark.parametrize(("fpr", "needed"), [(0.01, 299), (0.001, 2995), (0.0001, 29956)])
def test_non_members_needed(fpr: float, needed: int) -> None:
    """The smallest n for which no false positive certifies the rate at 95 %: about 3 / fpr."""
    assert needed_nonmembers(fpr) == needed
    assert (1 - fpr) ** needed <= 0.05 < (1 - fpr) ** (needed - 1)
    assert enough_nonmembers(fpr, needed)
    assert not enough_nonmembers(fpr, needed - 1)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_scores_that_are_not_finite_are_refused(bad: float) -> None:
    """By every metric, with their number."""
    scores, truth = np.array([0.0, 1.0, bad]), np.array([0, 1, 1])
    for metric in (auc, best_threshold, operating_points, lambda s, t: balanced_accuracy(s, t, 0.5)):
        with pytest.raises(ValueError, match="1 of 3 scores are infinite or NaN"):
            metric(scores, truth)


@pytest.mark.parametrize("truth", [[1, 1, 1], [0, 0, 0]])
def test_one_class_is_undefined(truth: list[int]) -> None:
    """Never 0, 0.5 or 1."""
    with pytest.raises(OneClassError, match=r"undefined \(one class\)"):
        auc([0.1, 0.2, 0.3], truth)


def test_wrong_shapes_and_labels_are_refused() -> None:
    """Lengths must agree, and labels be 0 and 1."""
    with pytest.raises(ValueError, match="one length"):
        auc([0.1, 0.2], [0, 1, 1])
    with pytest.raises(ValueError, match="labels 0 and 1"):
        auc([0.1, 0.2], [1, 2])
    with pytest.raises(ValueError, match="false positive rate"):
        tpr_at_fpr([0.1, 0.2], [0, 1], 1.5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2), st.randoms(use_true_random=False))
def test_order_of_records_does_not_matter(rows: list[tuple[int, bool]], random) -> None:
    """Metrics are functions of the set of (score, truth) pairs."""
    rows = [*rows, (0, True), (0, False)]
    shuffled = random.sample(rows, len(rows))
    one, other = ((np.array([r[0] for r in x], float), np.array([r[1] for r in x])) for x in (rows, shuffled))
    assert auc(*one) == pytest.approx(auc(*other), abs=1e-12)
    assert tpr_at_fpr(*one, 0.2) == tpr_at_fpr(*other, 0.2)
    assert best_threshold(*one) == best_threshold(*other)
