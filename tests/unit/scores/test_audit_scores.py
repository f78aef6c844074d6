"""``dpeval.audit_scores``: the measures of a run for scores made elsewhere, against scikit-learn and hand counts."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

import dpeval
from dpeval.measure.epsilon import rate_bound
from dpeval.measure.halves import calibration_half
from dpeval.measure.membership import MembershipRun, measure_membership
from dpeval.scores.results import GAUSSIAN, ONE_RUN, RATES
from dpeval.types import Undefined
from dpeval.verdict import Consistent, Refuted, Untestable


def gaussian(seed: int, n: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1.0, n), rng.normal(size=n)


def coins(seed: int, n: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    scores = rng.normal(size=n) + shift * member
    return scores[member], scores[~member]


def test_the_auc_is_that_of_scikit_learn() -> None:
    inside, outside = gaussian(0, 300, 0.8)
    found = dpeval.audit_scores(inside, outside)
    expected = roc_auc_score(np.r_[np.ones(300), np.zeros(300)], np.r_[inside, outside])
    assert found.auc.value == pytest.approx(expected, abs=1e-12)
    assert found.auc.low < expected < found.auc.high


def test_the_measures_are_those_of_the_matrix() -> None:
    """One code: what a run would say of the same scores."""
    inside, outside = gaussian(1, 400, 1.0)
    found = dpeval.audit_scores(inside, outside, prevalence=0.02, level=0.9)
    ids = tuple(f"m{i}" for i in range(400)) + tuple(f"n{i}" for i in range(400))
    run = MembershipRun(ids, np.r_[inside, outside], np.arange(800) < 400)
    assert dict(found.estimates) == dict(measure_membership([run], prevalence=0.02, level=0.9).estimates)
    assert found.ppv == found.estimates["ppv@2%"]


def test_the_threshold_is_frozen_before_it_is_measured() -> None:
    """By hand: chosen on one half, counted on the other, and the bound follows from the counts."""
    inside, outside = gaussian(2, 500, 1.5)
    found = dpeval.audit_scores(inside, outside, delta=1e-5)
    ids = tuple(f"m{i}" for i in range(500)) + tuple(f"n{i}" for i in range(500))
    held = ~calibration_half(ids)
    scores, member = np.r_[inside, outside][held], (np.arange(1000) < 500)[held]
    called = scores >= found.thresholds[0]
    expected = (called[member].mean() + (~called)[~member].mean()) / 2
    assert found.balanced_accuracy.value == pytest.approx(expected)
    bound = found.bounds[RATES]
    best = max(
        rate_bound(
            tp=int((scores[member] >= t).sum()), members=int(member.sum()), fp=int((scores[~member] >= t).sum()),
            nonmembers=int((~member).sum()), delta=1e-5,
        ).epsilon
        for t in scores
    )  # fmt: skip
    assert 0 < bound.epsilon <= best
    assert bound.members + bound.nonmembers == held.sum()


def test_a_low_false_positive_rate_needs_records() -> None:
    """V3: 2,995 non-members for 0.1 %, and the reader is told so."""
    small = dpeval.audit_scores(*gaussian(3, 400, 1.0))
    assert isinstance(small.tpr_at(0.001), Undefined)
    assert "2995 needed" in small.tpr_at(0.001).reason
    large = dpeval.audit_scores(*gaussian(3, 3000, 1.0), resamples=50)
    truth = stats.norm.sf(stats.norm.isf(0.001) - 1.0)
    assert large.tpr_at(0.001).low <= truth <= large.tpr_at(0.001).high
    with pytest.raises(KeyError, match="was not measured"):
        small.tpr_at(0.02)


@pytest.mark.parametrize("inclusion", ["unstated", "independent-trials", "independent-coins"])
def test_a_false_claim_is_refuted_and_a_true_one_is_not(inclusion: str) -> None:
    """Scores of a mechanism of about ε = 4 against claims of 0.5 and 8."""
    inside, outside = coins(4, 3000, 3.0)
    low = dpeval.audit_scores(inside, outside, claim_epsilon=0.5, inclusion=inclusion, resamples=2)
    high = dpeval.audit_scores(inside, outside, claim_epsilon=8.0, inclusion=inclusion, resamples=2)
    assert isinstance(low.verdict, Refuted)
    assert low.refuted
    assert not high.refuted
    assert low.epsilon is low.bounds[ONE_RUN if inclusion == "independent-coins" else RATES]


def test_the_one_run_bound_needs_the_design_to_be_stated() -> None:
    """V15: otherwise there is a reason in its place, and nothing is computed."""
    inside, outside = coins(5, 800, 3.0)
    assert "independent-coins" in dpeval.audit_scores(inside, outside).bounds[ONE_RUN].reason
    stated = dpeval.audit_scores(inside, outside, inclusion="independent-coins")
    assert stated.bounds[ONE_RUN].epsilon > 1
    assert "heuristic" in stated.bounds[RATES].method


def test_verdicts_say_what_could_have_been_refuted() -> None:
    """Ceiling and detection limit, by name."""
    inside, outside = gaussian(6, 300, 0.0)
    beyond = dpeval.audit_scores(inside, outside, claim_epsilon=50.0)
    assert isinstance(beyond.verdict, Untestable)
    near = dpeval.audit_scores(inside, outside, claim_epsilon=1.0)
    assert isinstance(near.verdict, Consistent)
    body = near.json()["verdict"]
    assert body["ruling"] == "consistent"
    assert body["claimed"] < body["smallest_refutable"] < body["ceiling"]


def test_inverted_scores_are_warned_of() -> None:
    """V17."""
    inside, outside = gaussian(7, 300, 1.0)
    assert any("inverted?" in w for w in dpeval.audit_scores(outside, inside).warnings)
    assert not any("inverted?" in w for w in dpeval.audit_scores(inside, outside).warnings)


def test_one_class_is_undefined_and_never_a_number() -> None:
    found = dpeval.audit_scores([0.1, 0.5], [])
    assert all(isinstance(value, Undefined) for value in found.estimates.values())
    assert found.json()["estimates"]["auc"] == {"value": None, "undefined": found.auc.reason}
    assert "undefined (one class)" in found.markdown()
    assert found.detectable_auc is None


def test_seeds_and_groups_widen_the_interval() -> None:
    """Records of one group stand or fall together; models that differ add their own spread."""
    rng = np.random.default_rng(8)
    effect = np.repeat(rng.normal(size=(2, 40)), 10, axis=1)
    inside, outside = effect[0] + 0.8, effect[1]
    groups = [f"u{i // 10}" for i in range(400)]
    plain = dpeval.audit_scores(inside, outside)
    grouped = dpeval.audit_scores(inside, outside, member_groups=groups, nonmember_groups=[f"v{g}" for g in groups])
    assert grouped.groups == 80
    assert grouped.auc.value == plain.auc.value
    assert grouped.auc.high - grouped.auc.low > 2 * (plain.auc.high - plain.auc.low)
    assert grouped.detectable_auc > plain.detectable_auc
    seeds = np.arange(400) % 3
    several = dpeval.audit_scores(inside, outside, member_seeds=seeds, nonmember_seeds=seeds)
    assert several.models == 3
    assert any("without ids" in w for w in several.warnings)


def test_one_record_of_each_group_enters_the_bound() -> None:
    """Two hundred copies of one record are one trial."""
    groups = [f"u{i // 200}" for i in range(400)]
    found = dpeval.audit_scores(
        np.ones(400), np.zeros(400), member_groups=groups, nonmember_groups=[f"v{g}" for g in groups]
    )
    assert isinstance(found.bounds[RATES], Undefined) or found.bounds[RATES].trials <= 4


def test_scale_and_order_do_not_matter() -> None:
    """A monotone change of the scores, and shuffled rows with their ids, change nothing but the threshold."""
    inside, outside = gaussian(9, 200, 1.0)
    plain = dpeval.audit_scores(inside, outside)
    scaled = dpeval.audit_scores(np.exp(inside / 2), np.exp(outside / 2))
    assert dict(scaled.estimates) == dict(plain.estimates)
    order = np.random.default_rng(0).permutation(200)
    moved = dpeval.audit_scores(inside[order], outside, member_ids=[f"m{i}" for i in order],
                                nonmember_ids=[f"n{i}" for i in range(200)])  # fmt: skip
    assert {k: getattr(v, "value", None) for k, v in moved.estimates.items()} == pytest.approx(
        {k: getattr(v, "value", None) for k, v in plain.estimates.items()}
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": [0.1, np.nan]}, "infinite or NaN, the first at 1"),
        ({"members": [[0.1], [0.2]]}, r"shape \(n,\)"),
        ({"member_ids": ["a"], "nonmember_ids": ["b", "c"]}, "one for each of the 2 scores, got 1"),
        ({"member_ids": ["a", "b"], "nonmember_ids": ["b", "c"]}, "'b' stands twice"),
        ({"member_groups": ["a", "b"]}, "groups: give them for members and for non-members"),
        ({"delta": 1.0}, "delta: expected"),
        ({"level": 95}, "level: expected"),
        ({"prevalence": 0.0}, "prevalence: expected"),
        ({"fprs": (1.0,)}, "fprs: expected"),
        ({"claim_epsilon": -1.0}, "claim_epsilon: expected"),
        ({"inclusion": "coins"}, "not a valid Inclusion"),
        ({"members": [], "nonmembers": []}, "got none of either"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict, message: str) -> None:
    given = {"members": [0.1, 0.4], "nonmembers": [0.2, 0.3]} | change
    with pytest.raises(ValueError, match=message):
        dpeval.audit_scores(given.pop("members"), given.pop("nonmembers"), **given)


def test_the_result_is_frozen_and_its_json_is_plain() -> None:
    found = dpeval.audit_scores(*gaussian(10, 100, 1.0), claim_epsilon=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.delta = 0.0
    body = json.loads(json.dumps(found.json(), allow_nan=False))
    assert body["schema"] == "dpeval/audit/1"
    assert body["estimates"]["auc"]["value"] == found.auc.value
    assert body["bounds"][GAUSSIAN]["epsilon"] == found.bounds[GAUSSIAN].epsilon


def test_the_report_shows_each_number_with_its_condition(read_tables) -> None:
    """PPV with its prevalence, the bound with δ and level, TPR with the rate reached, random guess beside."""
    text = dpeval.audit_scores(*gaussian(11, 3000, 1.0), prevalence=0.01, resamples=20).markdown()
    assert "ppv@1%" in text
    assert "δ = 1e-05" in text
    assert "tpr@0.1%fpr stands at 3 false positives among 3,000" in text
    measures = read_tables(text)[0]
    assert measures[0] == ["measure", "value", "random guess", "records"]
    assert {row[0]: row[2] for row in measures[1:]}["ppv@1%"] == "0.010"


def test_texts_that_tell_the_sides_apart_make_the_audit_invalid() -> None:
    """V1: perfect scores refute nothing where a reader of the texts does as well."""
    words = np.random.default_rng(0).integers(0, 50, size=(200, 6))
    texts = [" ".join(f"w{k}" for k in row) for row in words]
    inside, outside = np.ones(100) + np.arange(100) / 1e6, np.arange(100) / 1e6
    fair = dpeval.audit_scores(
        inside, outside, member_texts=texts[:100], nonmember_texts=texts[100:], claim_epsilon=1.0
    )
    assert not fair.invalid
    assert fair.refuted
    assert fair.estimates["auc_minus_blind"].low > 0.2
    marked = [f"{t} old" for t in texts[:100]], [f"{t} new" for t in texts[100:]]
    unfair = dpeval.audit_scores(inside, outside, member_texts=marked[0], nonmember_texts=marked[1], claim_epsilon=1.0)
    assert unfair.invalid
    assert isinstance(unfair.verdict, Untestable)
    assert "> **INVALID.**" in unfair.markdown()
    assert "picks the right one" not in unfair.markdown()


@pytest.mark.parametrize(
    ("inclusion", "words"),
    [("unstated", "was not stated"), ("independent-trials", "independent trial"), ("independent-coins", "fair coin")],
)
def test_a_verdict_says_what_it_rests_on(inclusion: str, words: str) -> None:
    """In words and in the JSON; where nothing was stated a refutation is conditional, and the kind of ε is said."""
    inside, outside = coins(4, 1500, 3.0)
    found = dpeval.audit_scores(inside, outside, claim_epsilon=0.5, inclusion=inclusion, resamples=2)
    body, text = found.json()["verdict"], found.markdown()
    assert words in body["assumption"]
    assert f"This holds if {body['assumption']}." in text
    assert ("**CLAIM REFUTED, under an assumption.**" in text) == (inclusion == "unstated")
    assert (body["unit"], body["trust"], body["adjacency"]) == ("record", "central", "add-or-remove-one")
    assert "central and for one record" in text


def test_groups_are_named_in_what_a_verdict_rests_on() -> None:
    """What a group adds together is more than a claim for one record covers."""
    inside, outside = gaussian(5, 60, 3.0)
    groups = {"member_groups": [f"u{i // 2}" for i in range(60)], "nonmember_groups": [f"v{i // 2}" for i in range(60)]}
    found = dpeval.audit_scores(inside, outside, claim_epsilon=0.1, resamples=2, **groups)
    assert "no two records of a group" in found.assumption
    shared = dpeval.audit_scores(inside, outside, inclusion="independent-coins", resamples=2, **groups)
    assert "shares its coin with no other" in shared.bounds[ONE_RUN].reason


def test_one_mixed_group_is_said_in_the_singular() -> None:
    found = dpeval.audit_scores([0.9, 0.8], [0.1, 0.2], member_groups=["a", "b"], nonmember_groups=["a", "c"])
    assert any(w.startswith("1 group holds members") for w in found.warnings)


@pytest.mark.parametrize("scale", [1e308, 1e-320])
def test_scores_at_the_ends_of_floating_point(scale: float) -> None:
    """Neither overflow nor a warning, and the numbers of the same ranks at a usual scale."""
    inside, outside = np.arange(-30, 31) / 60 + 0.3, np.arange(-30, 31) / 61
    found = dpeval.audit_scores(inside * scale, outside * scale, inclusion="independent-coins", resamples=2)
    assert found.auc.value == pytest.approx(dpeval.audit_scores(inside, outside, resamples=2).auc.value, abs=0.02)
    assert all(np.isfinite(one["excess"]) for one in found.exposed)


def test_a_tpr_that_is_refused_leaves_no_point_behind() -> None:
    """V3: not even in the details."""
    found = dpeval.audit_scores(*gaussian(3, 400, 1.0), resamples=20)
    assert set(found.details["reached"]) == {"tpr@1%fpr"}


def test_calling_everybody_a_member_is_not_known_without_error() -> None:
    """The PPV of a constant score is the prevalence, within what so many records show."""
    found = dpeval.audit_scores([0.5] * 100, [0.5] * 100, resamples=2).ppv
    assert found.value == pytest.approx(0.1)
    assert found.low < 0.095 < 0.105 < found.high
