"""The likelihood-ratio attack against an oracle that fits record by record, and where data are thin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from dpeval.measure.roc import tpr_at_fpr
from dpeval_attacks.membership.lira import SMALLEST, LiRA, height_above, likelihood_ratio
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


def test_each_record_gets_a_variance_of_its_own_only_when_shadows_are_many():
    for m, same in ((16, "shared"), (128, "per-record")):
        target, shadows, inside, _ = world(n=30, m=m)
        inside[:] = np.arange(m)[:, None] % 2 == 0
        assert np.array_equal(
            likelihood_ratio(target, shadows, inside), likelihood_ratio(target, shadows, inside, same)
        )


def test_equal_answers_of_all_shadows_leave_finite_scores_that_still_tell_higher_from_lower():
    inside = np.array([[True] * 3, [False] * 3] * 2)
    shadows = np.where(inside, 2.0, 1.0)
    for test in (likelihood_ratio, height_above):
        for variance in ("shared", "per-record"):
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


@pytest.mark.parametrize("shadows", [0, 1, 3])
def test_a_number_of_shadows_that_makes_no_pairs_is_refused(shadows):
    with pytest.raises(ValueError, match=f"even number of at least 2 .*got {shadows}"):
        LiRA(shadows=shadows)
