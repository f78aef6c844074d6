"""The likelihood-ratio attack against an oracle that fits record by record, and where data are thin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from dpeval.context import RunContext
from dpeval.measure.roc import tpr_at_fpr
from dpeval.plugin import Knowledge, Shadow
from dpeval.types import Predictions, Records
from dpeval_attacks.membership.hierarchy import SMALLEST
from dpeval_attacks.membership.lira import LiRA, height_above, likelihood_ratio, transferred_ratio
from dpeval_attacks.membership.references import auc


def world(seed=0, n=800, m=16, shift=1.5, hardness=3.0):
    """Records that differ in hardness; being trained on adds ``shift`` to the log-odds of every one."""
    rng = np.random.default_rng(seed)
    base = rng.normal(0, hardness, n)
    inside = np.stack([side for _ in range(m // 2) for side in (lambda c: (c, ~c))(rng.random(n) < 0.5)])
    member = rng.random(n) < 0.5
    shadows = base + shift * inside + rng.normal(size=(m, n))
    return base + shift * member + rng.normal(size=n), shadows, inside, member


def slow_ratio(target, shadows, inside, *, per_record):
    """The published algorithm, one record after the other, with scipy's normal density."""
    ins = [shadows[inside[:, i], i] for i in range(len(target))]
    outs = [shadows[~inside[:, i], i] for i in range(len(target))]

    def spread(sides, i):
        if per_record:
            return np.std(sides[i], ddof=1)
        return np.sqrt(sum(np.sum((s - s.mean()) ** 2) for s in sides) / sum(len(s) - 1 for s in sides))

    return [
        norm.logpdf(x, ins[i].mean(), spread(ins, i)) - norm.logpdf(x, outs[i].mean(), spread(outs, i))
        for i, x in enumerate(target)
    ]


@pytest.mark.parametrize(("variance", "m"), [("shared", 8), ("per-record", 12)])
def test_the_ratio_is_that_of_a_record_by_record_fit(variance, m):
    target, shadows, inside, _ = world(n=40, m=m)
    inside[0, :] = True
    inside[1, :] = False
    inside[2, :], inside[3, :] = True, False
    got = likelihood_ratio(target, shadows, inside, variance)
    want = slow_ratio(target, shadows, inside, per_record=variance == "per-record")
    np.testing.assert_allclose(got, want, rtol=1e-9)


def test_offline_height_is_monotone_in_the_one_sided_test_of_the_paper():
    target, shadows, inside, _ = world(n=50)
    got = height_above(target, shadows, inside)
    outs = [shadows[~inside[:, i], i] for i in range(50)]
    spread = np.sqrt(sum(np.sum((s - s.mean()) ** 2) for s in outs) / sum(len(s) - 1 for s in outs))
    paper = np.array([norm.cdf(x, o.mean(), spread) for x, o in zip(target, outs, strict=True)])
    assert np.array_equal(np.argsort(got), np.argsort(norm.ppf(paper)))
    np.testing.assert_allclose(norm.cdf(got), paper, rtol=1e-9)


def test_both_modes_beat_the_raw_log_odds_at_a_low_false_positive_rate():
    target, shadows, inside, member = world(shift=2.5)
    raw = tpr_at_fpr(target, member, 0.01).tpr
    for test in (likelihood_ratio, height_above):
        assert tpr_at_fpr(test(target, shadows, inside), member, 0.01).tpr > 3 * raw
        assert auc(test(target, shadows, inside), member) > auc(target, member) + 0.1


def test_a_target_that_saw_nothing_gives_chance():
    """Mean over 40 worlds of 400 records: 0.5 within three standard errors."""
    found = []
    for seed in range(40):
        target, shadows, inside, _ = world(seed, n=400)
        member = np.random.default_rng([seed, 1]).random(400) < 0.5
        found.append(auc(likelihood_ratio(target, shadows, inside), member))
    assert abs(np.mean(found) - 0.5) < 3 * 0.029 / np.sqrt(40)


def test_the_one_sided_test_gives_each_record_a_variance_of_its_own_only_when_shadows_are_many():
    for m, same in ((16, "shared"), (128, "per-record")):
        target, shadows, inside, _ = world(n=30, m=m)
        inside[:] = np.arange(m)[:, None] % 2 == 0
        assert np.array_equal(height_above(target, shadows, inside), height_above(target, shadows, inside, same))


def test_too_few_records_to_learn_from_share_one_spread():
    target, shadows, inside, _ = world(n=9, m=4)
    assert np.array_equal(
        likelihood_ratio(target, shadows, inside), likelihood_ratio(target, shadows, inside, "shared")
    )


def test_equal_answers_of_all_shadows_leave_finite_scores_that_still_tell_higher_from_lower():
    inside = np.array([[True] * 3, [False] * 3] * 2)
    shadows = np.where(inside, 2.0, 1.0)
    for test in (likelihood_ratio, height_above):
        for variance in ("auto", "shared", "per-record"):
            got = test(np.array([0.5, 1.0, 2.0]), shadows, inside, variance)
            assert np.isfinite(got).all()
            assert got[2] > got[1]
    assert SMALLEST > 0
    same = np.full((4, 3), 1.0)
    assert np.isfinite(likelihood_ratio(np.array([1.0, 1e6, -1e6]), same, inside)).all()


def test_a_record_no_shadow_saw_is_judged_by_the_shift_of_the_others():
    target, shadows, drawn, member = world(n=600, shift=4.0)
    inside = drawn.copy()
    inside[:, :50] = False
    inside[:, 50:100] = True
    shadows = shadows + 4.0 * (inside.astype(float) - drawn)
    got, height = likelihood_ratio(target, shadows, inside), height_above(target, shadows, inside)
    for some in (slice(50), slice(50, 100), slice(100, None)):
        assert auc(got[some], member[some]) > 0.9
        assert auc(height[some], member[some]) > 0.9
    first = np.isin(np.arange(600), np.arange(100))
    assert abs(got[first & member].mean() - got[~first & member].mean()) < 2.0, "judged on the same scale as the rest"
    everywhere = np.ones_like(inside)
    assert np.isfinite(likelihood_ratio(target, shadows, everywhere)).all()
    assert np.isfinite(height_above(target, shadows, everywhere)).all()


class Known:
    """Answers two-class log-odds by record id."""

    def __init__(self, ids, odds):
        self.odds = dict(zip(ids, odds, strict=True))
        self.asked = []

    def predict(self, records, *, draw=0):
        self.asked.append(len(records))
        odds = np.array([self.odds[key] for key in records.ids])
        return Predictions(records.ids, np.stack([-np.logaddexp(0, -odds), -np.logaddexp(0, odds)], axis=1))


def scored(candidates, auxiliary_labels, **options):
    """LiRA's scores of the first ``candidates`` of 120 records, the others auxiliary; and what everyone was asked."""
    target, shadows, inside, _ = world(n=120, m=4)
    records = Records(tuple(f"r{i}" for i in range(120)), ("t",) * 120, (0,) * candidates + auxiliary_labels)
    models = [Known(records.ids, odds) for odds in (target, *shadows)]
    trained = [frozenset(np.array(records.ids)[row]) for row in inside]
    own = [Shadow(ids, model) for ids, model in zip(trained, models[1:], strict=True)]
    ctx = RunContext(0, shadow_source=lambda count: own[:count])
    knowledge = Knowledge(None, None, records.take(range(candidates, 120)), num_labels=2, num_attribute_values=0)
    got = LiRA(shadows=4, **options).score(models[0], records.take(range(candidates)), knowledge, ctx)
    return got.values, (target, shadows, inside), [model.asked for model in models]


@pytest.mark.parametrize("variance", ["auto", "shared", "per-record"])
def test_online_asks_everyone_once_about_all_candidates(variance):
    got, (target, shadows, inside), asked = scored(80, (0,) * 40, variance=variance)
    np.testing.assert_allclose(got, likelihood_ratio(target[:80], shadows[:, :80], inside[:, :80], variance), rtol=1e-6)
    assert asked == [[80]] * 5


def test_offline_learns_from_labelled_auxiliary_records_and_the_published_test_asks_about_none():
    got, (target, shadows, inside), asked = scored(80, (0,) * 30 + (-1,) * 10, mode="offline")
    mine, others = slice(80), slice(80, 110)
    want = transferred_ratio(target[mine], shadows[:, mine], inside[:, mine], shadows[:, others], inside[:, others])
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert asked == [[80, 30]] * 5
    published, _, asked = scored(80, (0,) * 40, mode="offline", variance="shared")
    want = height_above(target[mine], shadows[:, mine], inside[:, mine], "shared")
    np.testing.assert_allclose(published, want, rtol=1e-6)
    assert asked == [[80]] * 5


def test_offline_without_usable_auxiliary_records_is_the_one_sided_test():
    got, (target, shadows, inside), _ = scored(112, (-1,) * 8, mode="offline")
    mine = slice(112)
    np.testing.assert_allclose(got, height_above(target[mine], shadows[:, mine], inside[:, mine]), rtol=1e-6)
    few, _, _ = scored(112, (0,) * 8, mode="offline")
    assert np.array_equal(got, few)


@pytest.mark.parametrize("shadows", [0, 1, 3])
def test_a_number_of_shadows_that_makes_no_pairs_is_refused(shadows):
    with pytest.raises(ValueError, match=f"even number of at least 2 .*got {shadows}"):
        LiRA(shadows=shadows)
