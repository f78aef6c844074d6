"""Per-record risk: planted records are found, by id, with a p-value that means what it says."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.measure.exposure import merged, most_exposed
from dpeval.measure.membership import MembershipRun
from dpeval.measure.roc import mean_roc, tpr_at_fpr


def run(rng: np.random.Generator, n: int = 400, planted: int = 0) -> MembershipRun:
    """A fair coin each; the first ``planted`` records score far higher when they are members."""
    member = rng.random(n) < 0.5
    scores = rng.normal(size=n)
    scores[:planted] += 6.0 * member[:planted]
    return MembershipRun(tuple(f"r{i}" for i in range(n)), scores, member)


def test_planted_outliers_are_the_most_exposed() -> None:
    """V4: five records that only few would miss in the average, found by name over three seeds."""
    rng = np.random.default_rng(0)
    runs = [run(rng, planted=5) for _ in range(3)]
    inside = {f"r{i}" for i in range(5) if any(r.is_member[i] for r in runs)}
    found = most_exposed(runs, len(inside))
    assert {one["id"] for one in found} == inside
    assert all(one["p"] < 0.02 for one in found)
    assert all(1 <= one["models_as_member"] <= 3 for one in found)


def test_a_text_that_scores_high_everywhere_is_not_exposed() -> None:
    """What it scores as a non-member of another model is taken off."""
    rng = np.random.default_rng(1)
    runs = [run(rng) for _ in range(4)]
    runs = [MembershipRun(r.ids, r.scores + 8.0 * (np.arange(400) == 7), r.is_member) for r in runs]
    assert {True, False} == {bool(r.is_member[7]) for r in runs}
    assert "r7" not in {one["id"] for one in most_exposed(runs, 10)}


@pytest.mark.parametrize("models", [1, 3])
def test_p_of_one_record_named_beforehand_holds_its_level(models: int) -> None:
    """Under the null at most 5 % of records have p <= 0.05, whatever the models share."""
    rng, hits, tried = np.random.default_rng(2), 0, 0
    for _ in range(40):
        shared = rng.normal(size=400)
        runs = [MembershipRun(r.ids, r.scores + shared, r.is_member) for r in (run(rng) for _ in range(models))]
        p = [float(one["p"]) for one in most_exposed(runs, 400)]
        hits, tried = hits + sum(x <= 0.05 for x in p), tried + len(p)
    assert hits / tried <= 0.055


def test_merged_p_values_are_never_above_one() -> None:
    assert merged([0.9, 0.8]) == 1.0
    assert merged([0.5]) == 0.5


def test_the_curve_is_that_of_the_operating_points() -> None:
    """At each FPR of the curve, the mean of what each run reaches there."""
    rng = np.random.default_rng(3)
    runs = [run(rng, n=500, planted=200) for _ in range(2)]
    curve = mean_roc(runs)
    assert curve[-1] == (1.0, 1.0)
    assert len(curve) == 41
    for fpr, tpr in curve[::5]:
        expected = np.mean([tpr_at_fpr(r.scores, r.is_member, fpr).tpr for r in runs])
        assert tpr == pytest.approx(expected)
