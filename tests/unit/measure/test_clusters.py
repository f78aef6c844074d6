"""Records of one group: the variance of a cluster sample where groups are equal, and fewer degrees where not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpeval.measure.clusters import effective_units, record_covariance
from dpeval.measure.influence import auc_part, combination, ratio_part
from dpeval.measure.intervals import Scale, estimate


def grouped(values: np.ndarray, sizes: np.ndarray):
    units = tuple(f"g{g}" for g in np.repeat(np.arange(len(sizes)), sizes))
    return ratio_part(values, np.ones(len(values)), units)


def test_equal_groups_are_a_sample_of_group_means() -> None:
    """Mean of 40 groups of 5: variance of the group means over their number, and Student with 39 degrees."""
    rng = np.random.default_rng(0)
    values = (rng.random(40)[:, None] > rng.random((40, 5))).ravel().astype(float)
    part = grouped(values, np.full(40, 5))
    means = values.reshape(40, 5).mean(axis=1)
    found = record_covariance([part])
    assert found.matrix[0, 0] == pytest.approx(means.var(ddof=1) / 40)
    assert found.freedom == pytest.approx(39)
    low, high = stats.t.interval(0.95, 39, loc=means.mean(), scale=math.sqrt(means.var(ddof=1) / 40))
    free = estimate([part], scale=Scale.FREE)
    assert (free.low, free.high) == pytest.approx((low, high))


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_one_large_group_leaves_few_degrees(correlation: float) -> None:
    """Satterthwaite, with the variance of each sum under equally correlated records, written out pair by pair."""
    sizes = [12, 3, 1, 1, 1]
    sums = [sum(1.0 if i == j else correlation for i in range(s) for j in range(s)) for s in sizes]
    expected = sum(sums) ** 2 / sum(v**2 for v in sums)
    assert effective_units(sizes, correlation) == pytest.approx(expected)
    assert effective_units([4] * 9, correlation) == pytest.approx(9)


def test_the_variance_of_unequal_groups_is_right_on_average() -> None:
    """Without the weights it is 4 % too small here; the truth is that of many repetitions."""
    rng = np.random.default_rng(1)
    sizes = np.array([8, 3, 2, 1, 1, 1] * 12)
    of = np.repeat(np.arange(len(sizes)), sizes)
    parts = [grouped((rng.normal(size=len(sizes))[of] > 0).astype(float), sizes) for _ in range(4000)]
    truth = float(np.var([p.value for p in parts]))
    assert np.mean([record_covariance([p]).matrix[0, 0] for p in parts]) == pytest.approx(truth, rel=0.05)


def test_groups_of_the_other_class_do_not_count() -> None:
    """A true positive rate rests on the groups of members alone."""
    units = ("a", "a", "b", "b", "c", "c", "x", "x", "x", "x", "y", "y")
    member = np.arange(12) < 6
    part = ratio_part(np.array([1, 0, 1, 1, 0, 0] + [0] * 6), member, units)
    assert record_covariance([part]).freedom == pytest.approx(2)


def test_texts_of_many_tokens_are_estimated_and_yes_no_answers_are_not() -> None:
    """The tokens of a text stand together, so that even without groups Student's quantile is needed."""
    names = tuple("abcdefgh")
    texts = ratio_part(np.arange(8), np.full(8, 9.0), names)
    answers = ratio_part(np.arange(8) % 2, np.ones(8), names)
    assert record_covariance([texts]).freedom == pytest.approx(7)
    assert record_covariance([answers]).freedom == math.inf
    assert combination((texts, answers), (0.5, 0.5)).several
    assert record_covariance([auc_part(np.arange(8), np.arange(8) % 2, names)]).freedom == math.inf
