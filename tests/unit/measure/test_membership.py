"""Membership measures: thresholds frozen elsewhere, gates on sample sizes, polarity, and the most exposed records."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.measure.halves import calibration_half
from dpeval.measure.membership import MembershipRun, measure_gain, measure_membership
from dpeval.measure.predictive import ppv
from dpeval.measure.roc import balanced_accuracy, best_threshold
from dpeval.types import Estimate, Undefined


def run_of(seed: int, n: int = 400, shift: float = 1.0) -> MembershipRun:
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    return MembershipRun(tuple(f"r{i}" for i in range(n)), rng.normal(size=n) + shift * member, member)


def test_every_measure_is_there_with_an_interval() -> None:
    """On a real effect all but TPR at 0.1 % are estimates, and TPR at 0.1 % names the number needed."""
    found = measure_membership([run_of(s, n=800) for s in range(3)], resamples=50).estimates
    assert list(found) == ["auc", "tpr@1%fpr", "tpr@0.1%fpr", "balanced_accuracy", "advantage", "ppv@10%"]
    assert isinstance(found["tpr@0.1%fpr"], Undefined)
    assert "2995 needed" in found["tpr@0.1%fpr"].reason
    for name in ("auc", "tpr@1%fpr", "balanced_accuracy", "advantage", "ppv@10%"):
        assert isinstance(found[name], Estimate)
        assert found[name].models == 3


def test_tpr_at_one_percent_needs_299_non_members() -> None:
    """One fewer and it is undefined."""
    member = np.arange(598) < 299
    scores = np.random.default_rng(0).normal(size=598)
    ids = tuple(f"r{i}" for i in range(598))
    assert isinstance(
        measure_membership([MembershipRun(ids, scores, member)], resamples=20).estimates["tpr@1%fpr"], Estimate
    )
    member = np.arange(598) < 300
    assert isinstance(measure_membership([MembershipRun(ids, scores, member)]).estimates["tpr@1%fpr"], Undefined)


def test_the_threshold_comes_from_the_calibration_half_only() -> None:
    """Changing labels or scores of the measured half moves neither the threshold nor which half is which."""
    run = run_of(0)
    half = calibration_half(run.units)
    assert 0.4 < half.mean() < 0.6
    first = measure_membership([run])
    (threshold,) = first.details["thresholds"]
    assert threshold == best_threshold(run.scores[half], run.is_member[half])
    expected = balanced_accuracy(run.scores[~half], run.is_member[~half], threshold)
    assert first.estimates["balanced_accuracy"].value == pytest.approx(expected, abs=1e-12)
    changed = np.where(half, run.is_member, ~run.is_member)
    assert measure_membership([MembershipRun(run.ids, run.scores, changed)]).details["thresholds"] == (threshold,)


def test_advantage_is_twice_the_balanced_accuracy_less_one() -> None:
    """Value and interval."""
    found = measure_membership([run_of(1)]).estimates
    a, b = found["advantage"], found["balanced_accuracy"]
    assert (a.value, a.low, a.high) == pytest.approx((2 * b.value - 1, 2 * b.low - 1, 2 * b.high - 1))


def test_groups_stay_on_one_side_of_the_calibration_split() -> None:
    """Near-duplicates must not calibrate a threshold that their twins are measured with."""
    half = calibration_half(("a", "b", "a", "c", "b"))
    assert half[0] == half[2]
    assert half[1] == half[4]


def test_inverted_scores_are_warned_of() -> None:
    """V17: an AUC significantly below 0.5 is a sign error, and the interval contains its own estimate."""
    run = run_of(2)
    flipped = measure_membership([MembershipRun(run.ids, -run.scores, run.is_member)])
    assert flipped.warnings
    assert "inverted?" in flipped.warnings[0]
    assert measure_membership([run]).warnings == ()
    assert measure_membership([run_of(2, shift=0.0)]).warnings == ()


def test_one_class_leaves_every_measure_undefined() -> None:
    """D01: 'undefined (one class)', whatever the scores."""
    run = MembershipRun(("a", "b"), np.array([0.1, 0.9]), np.array([True, True]))
    found = measure_membership([run]).estimates
    assert len(found) == 6
    assert all(isinstance(v, Undefined) and "undefined (one class)" in v.reason for v in found.values())


def test_order_of_records_does_not_matter() -> None:
    """V16: measures are joined by id, never by position."""
    run, order = run_of(3), np.random.default_rng(0).permutation(400)
    moved = MembershipRun(tuple(run.ids[i] for i in order), run.scores[order], run.is_member[order])
    one, other = (measure_membership([r], resamples=20) for r in (run, moved))
    assert one.details == other.details
    for name in ("auc", "balanced_accuracy", "ppv@10%"):
        assert one.estimates[name].low == pytest.approx(other.estimates[name].low, abs=1e-12)


def test_planted_outliers_are_the_most_exposed() -> None:
    """V4: five members with far higher scores head the list; a record that always scores high does not."""
    runs, planted = [run_of(s) for s in range(3)], {f"r{i}" for i in range(5)}
    loud = []
    for run in runs:
        scores, member = run.scores.copy(), run.is_member.copy()
        member[:5] = True
        scores[:5] = 8.0
        scores[10] = 20.0
        loud.append(MembershipRun(run.ids, scores, member))
    member = loud[0].is_member.copy()
    member[10] = True
    loud[0] = MembershipRun(loud[0].ids, loud[0].scores, member)
    for i in (1, 2):
        member = loud[i].is_member.copy()
        member[10] = False
        loud[i] = MembershipRun(loud[i].ids, loud[i].scores, member)
    listed = measure_membership(loud, exposed=5).details["exposed"]
    assert {one["id"] for one in listed} == planted


def test_ppv_is_the_closed_form() -> None:
    """V22: TPR 50 % and FPR 5 % at a prevalence of 1 % make one in eleven alarms right."""
    assert ppv(0.5, 0.05, 0.01) == pytest.approx(0.5 * 0.01 / (0.5 * 0.01 + 0.05 * 0.99))
    assert np.isnan(ppv(0.0, 0.0, 0.1))


def test_ppv_without_a_false_positive_is_not_certain() -> None:
    """No false positive among about a hundred allows a rate of 3 %: at 1 % prevalence the interval is wide."""
    member = np.arange(400) % 2 == 0
    scores = np.where(member & (np.arange(400) % 8 == 0), 5.0, 0.0)
    run = MembershipRun(tuple(f"r{i}" for i in range(400)), scores, member)
    found = measure_membership([run], prevalence=0.01).estimates["ppv@1%"]
    assert found.value == found.high == 1.0
    assert found.low < 0.6


def test_gain_over_another_attack_is_paired() -> None:
    """Against itself the gain is 0; order of the other run's records does not matter; other records are refused."""
    run = run_of(4)
    order = np.random.default_rng(0).permutation(400)
    moved = MembershipRun(tuple(run.ids[i] for i in order), run.scores[order], run.is_member[order])
    found = measure_gain([run], [moved])
    assert isinstance(found, Estimate)
    assert found.value == 0
    assert found.high < 0.03
    with pytest.raises(ValueError, match="same records"):
        measure_gain([run], [run_of(4, n=399)])
    with pytest.raises(ValueError, match="same members"):
        measure_gain([run], [MembershipRun(run.ids, run.scores, ~run.is_member)])
    with pytest.raises(ValueError, match="same models"):
        measure_gain([run], [])


def test_malformed_runs_are_refused() -> None:
    """Lengths must agree and ids be unique."""
    with pytest.raises(ValueError, match="MembershipRun"):
        MembershipRun(("a", "b"), np.zeros(3), np.array([True, False, True]))
    with pytest.raises(ValueError, match="not unique"):
        MembershipRun(("a", "a"), np.zeros(2), np.array([True, False]))
