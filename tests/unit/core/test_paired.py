"""Pairs of defenses: compared on the same seeds and records or not at all, and adjusted for their number."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.collect.paired import adjusted, paired_parts
from dpeval.measure.influence import ratio_part
from dpeval.measure.intervals import Scale, estimate, significance
from dpeval.results import PairedResult
from dpeval.types import Estimate


def part(right, names):
    return ratio_part(np.asarray(right, dtype=float), np.ones(len(names)), tuple(names))


def pair(p):
    return PairedResult(
        data="d", model="m", attack=None, tap=None, measure="accuracy", first="a", second="b",
        difference=Estimate(0.1, 0.0, 0.2, n=9), p_value=p,
    )  # fmt: skip


def test_the_difference_is_taken_record_by_record_in_each_seed():
    """What both defenses share cancels: the paired interval is far narrower than the single ones."""
    rng = np.random.default_rng(0)
    names = [f"r{i}" for i in range(400)]
    hard = [rng.random(400) < 0.5 for _ in range(3)]
    better = [h | (np.arange(400) % 20 == 0) for h in hard]
    one = {seed: part(b, names) for seed, b in enumerate(better)}
    other = {seed: part(h, names) for seed, h in enumerate(hard)}
    found = estimate(paired_parts(one, other), scale=Scale.DIFFERENCE)
    assert found.value == pytest.approx(np.mean([b.mean() - h.mean() for b, h in zip(better, hard, strict=True)]))
    single = estimate(list(one.values()))
    assert found.high - found.low < (single.high - single.low) / 2
    assert significance(paired_parts(one, other), 0.0, scale=Scale.DIFFERENCE) < 0.01


@pytest.mark.parametrize(
    "other",
    [
        {0: part([1, 0, 1], "abd"), 1: part([1, 1, 1], "abc")},
        {0: part([1, 0, 1], "acb"), 1: part([1, 1, 1], "abc")},
        {0: part([1, 0, 1], "abc")},
        {0: part([1, 0, 1], "abc"), 2: part([1, 1, 1], "abc")},
    ],
    ids=["another record", "another order", "a seed less", "another seed"],
)
def test_what_was_not_measured_on_the_same_seeds_and_records_is_not_paired(other):
    one = {0: part([1, 0, 1], "abc"), 1: part([0, 1, 1], "abc")}
    assert len(paired_parts(one, one)) == 2
    assert paired_parts(one, other) == []


def test_p_values_are_adjusted_for_all_that_have_one():
    """Holm 1979 by hand: 3 × .01, 2 × .02, .03, none below the one before; a missing one does not count."""
    found = adjusted([pair(0.03), pair(None), pair(0.01), pair(0.02)], alpha=0.035)
    assert [one.p_holm for one in found] == [pytest.approx(0.04), None, pytest.approx(0.03), pytest.approx(0.04)]
    assert [one.differs for one in found] == [False, False, True, False]
