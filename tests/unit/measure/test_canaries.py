"""Exposure against an oracle that ranks one canary at a time; its interval and its null by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeval.measure.canaries import _medians, exposures, measure_canaries
from dpeval.measure.intervals import wilson
from dpeval.measure.membership import MembershipRun
from dpeval.types import Estimate, Undefined


def slow(planted, withheld):
    found = []
    for score in planted:
        rank = 1 + sum(w > score for w in withheld) + 0.5 * sum(w == score for w in withheld)
        found.append(math.log2(len(withheld) + 1) - math.log2(rank))
    return found


def run(seed=0, n=200, shift=0.0, digits=None):
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    scores = rng.normal(size=n) + shift * member
    return MembershipRun(
        tuple(f"c{i}" for i in range(n)), np.round(scores, digits) if digits is not None else scores, member
    )


@pytest.mark.parametrize("digits", [None, 1, 0])
def test_exposure_is_log_of_the_rank_among_those_held_out(digits):
    one = run(n=60, digits=digits)
    planted, withheld = one.scores[one.is_member], one.scores[~one.is_member]
    np.testing.assert_allclose(exposures(planted, withheld), slow(planted, withheld))


def test_the_first_of_a_hundred_has_its_full_exposure_and_the_last_none():
    assert exposures(np.array([101.0, -1.0]), np.arange(100.0)).tolist() == [math.log2(101), 0.0]


def test_remembered_canaries_stand_at_the_top_and_the_bound_on_epsilon_follows():
    found = measure_canaries([run(shift=8.0)])
    assert found["ranked_first"].value > 0.95
    assert 6 < found["exposure_median"].value == found["exposure_max"].value
    assert found["exposure_max"].low > 2
    assert found["exposure_max"].high == math.inf
    assert found["epsilon_one_run"].value > 2


def test_forgotten_canaries_have_a_median_exposure_of_one_bit():
    """The interval covers 1 bit in about 95 %: fewer than 34 of 40 has a chance below one in a thousand."""
    found = [measure_canaries([run(seed)], resamples=200) for seed in range(40)]
    covered = sum(one["exposure_median"].low <= 1.0 <= one["exposure_median"].high for one in found)
    assert covered >= 34
    assert sum(one["epsilon_one_run"].value > 0 for one in found) <= 6
    assert abs(np.mean([one["exposure_median"].value for one in found]) - 1.0) < 0.08


def test_resampled_medians_are_those_of_canaries_repeated_as_often_as_drawn():
    one, other = run(1, n=31, shift=1.0, digits=1), run(2, n=31, shift=1.0)
    drawn = np.random.default_rng(7).integers(31, size=(50, 31))
    names = np.unique(np.asarray(one.ids))
    got = _medians([one, other], 50, np.random.default_rng(7))
    for each, values in zip((one, other), got, strict=True):
        for row, value in zip(drawn, values, strict=True):
            at = np.concatenate([np.flatnonzero(np.asarray(each.ids) == names[k]) for k in row])
            scores, member = each.scores[at], each.is_member[at]
            bits = slow(scores[member], scores[~member])
            assert np.sort(bits)[(len(bits) - 1) // 2] == pytest.approx(value)


def test_models_that_remember_unequally_widen_the_interval_of_the_median():
    """Canaries alone would say that three very different models agree."""
    found = measure_canaries([run(1, shift=0.0), run(2, shift=1.5), run(3, shift=4.0)])["exposure_median"]
    each = [measure_canaries([run(k + 1, shift=s)])["exposure_median"].value for k, s in enumerate((0.0, 1.5, 4.0))]
    assert found.value == pytest.approx(np.mean(each))
    # At least the score interval of a rate whose variance is the spread of the three, at Student's 97.5 % quantile with
    # two degrees of freedom; one that forgot the spread, or took the normal quantile, is narrower.
    most = np.log2(max((~run(k).is_member).sum() for k in (1, 2, 3)) + 1)
    rate = found.value / most
    alone = wilson(rate, rate * (1 - rate) / (np.var(each, ddof=1) / most**2 / 3), 4.302653)
    assert found.low <= alone.low * most * 1.02
    assert found.high >= alone.high * most * 0.98
    assert found.high <= np.log2(201)
    assert found.high - found.low > 3


def test_seeds_are_pooled_and_counted():
    found = measure_canaries([run(1, shift=2.0), run(2, shift=2.0), run(3, shift=2.0)])
    assert all(isinstance(one, Estimate) and one.models == 3 for one in found.values())


def test_one_class_is_undefined_and_never_a_number():
    one = run(n=10)
    for coin in (True, False):
        found = measure_canaries([MembershipRun(one.ids, one.scores, np.full(10, coin))])
        assert all(isinstance(value, Undefined) for value in found.values())
