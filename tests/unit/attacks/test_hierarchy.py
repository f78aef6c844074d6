"""Empirical Bayes for the likelihood ratio: slow conditioning as oracle, and worlds whose law is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, polygamma

from dpeval.measure.roc import tpr_at_fpr
from dpeval_attacks.membership.hierarchy import (
    MOST,
    Predictive,
    _moderated,
    _posterior,
    _side,
    inverse_trigamma,
    learnable,
)
from dpeval_attacks.membership.lira import likelihood_ratio, transferred_ratio
from dpeval_attacks.membership.references import auc


def world(seed=0, n=600, m=4, freedom=4.0, slope=0.5):
    """Means inside follow those outside, variances fall with them and spread; the true ratio is returned too."""
    rng = np.random.default_rng(seed)
    outside = rng.normal(1, 2, n)
    inside_mean = 4 + 0.5 * outside + rng.normal(0, 0.5, n)
    centre = np.stack([inside_mean, outside])
    variance = np.exp(-slope * outside) * freedom / rng.chisquare(freedom, (2, n))
    pairs = np.stack([side for _ in range(m // 2) for side in (lambda c: (c, ~c))(rng.random(n) < 0.5)])
    member = rng.random(n) < 0.5

    def answer(seen):
        row = np.where(seen, 0, 1)
        return centre[row, np.arange(n)] + rng.normal(size=n) * np.sqrt(variance[row, np.arange(n)])

    shadows = np.stack([answer(seen) for seen in pairs])
    target = answer(member)
    ins, outs = stats.norm.logpdf(target, centre, np.sqrt(variance))
    return target, shadows, pairs, member, ins - outs


def test_the_posterior_is_that_of_conditioning_a_joint_normal_on_every_single_answer():
    rng = np.random.default_rng(1)
    shadows, inside = rng.normal(2, 3, (6, 8)), rng.random((6, 8)) < 0.5
    inside[:, 0], inside[:, 1] = True, False
    middle, covariance = np.array([3.0, 1.0]), np.array([[2.0, 1.2], [1.2, 4.0]])
    variance = rng.uniform(0.2, 3, (2, 8))
    sides = [_side(shadows, inside), _side(shadows, ~inside)]
    mean, open_ = _posterior((middle, covariance), sides, variance)
    for i in range(8):
        which = np.where(inside[:, i], 0, 1)
        joint = covariance[np.ix_(which, which)] + np.diag(variance[which, i])
        cross = covariance[:, which]
        want = middle + cross @ np.linalg.solve(joint, shadows[:, i] - middle[which])
        left = covariance - cross @ np.linalg.solve(joint, cross.T)
        np.testing.assert_allclose(mean[:, i], want)
        np.testing.assert_allclose(open_[:, i], np.diag(left))


def test_a_prior_without_spread_of_means_gives_every_record_the_average():
    sides = [_side(np.ones((2, 3)), np.ones((2, 3), dtype=bool)), _side(np.zeros((2, 3)), np.zeros((2, 3), dtype=bool))]
    mean, open_ = _posterior((np.array([5.0, 2.0]), np.zeros((2, 2))), sides, np.ones((2, 3)))
    assert np.array_equal(mean, [[5.0] * 3, [2.0] * 3])
    assert not open_.any()


@pytest.mark.parametrize("freedom", [3.0, 8.0])
def test_the_prior_of_variances_is_found_again(freedom):
    """Means over 20 worlds of 2,000 records with 4 answers each: degrees of freedom and scale within a tenth."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng([seed, int(freedom)])
        true = 2.0 * freedom / rng.chisquare(freedom, 2000)
        side = _side(rng.normal(size=(4, 2000)) * np.sqrt(true), np.ones((4, 2000), dtype=bool))
        variance, total = _moderated(side, 2.0, rng.normal(size=2000))
        prior = total[0] - 3
        found.append((prior, np.mean((variance * total - side.squares) / prior)))
    prior, scale = np.mean(found, axis=0)
    assert abs(prior / freedom - 1) < 0.1
    assert abs(scale / 2.0 - 1) < 0.1


def test_one_variance_for_all_is_seen_as_such_and_a_trend_is_followed():
    rng = np.random.default_rng(3)
    difficulty = rng.normal(size=4000)
    everywhere = np.ones((4, 4000), dtype=bool)
    same, _ = _moderated(_side(rng.normal(size=(4, 4000)), everywhere), 1.0, difficulty)
    assert np.abs(same - 1).max() < 0.35
    true = np.exp(1.5 * difficulty)
    side = _side(rng.normal(size=(4, 4000)) * np.sqrt(true), everywhere)
    found, freedom = _moderated(side, float(true.mean()), difficulty)
    assert freedom.min() > 20
    prior = freedom - side.freedom
    scale = (found * freedom - side.squares) / prior
    half_way = np.sqrt(true * true.mean())
    assert np.abs(np.log(scale / half_way)).max() < 0.3


@pytest.mark.parametrize("value", [1e-4, 0.3, 4.9, 200.0])
def test_trigamma_is_inverted(value):
    assert polygamma(1, inverse_trigamma(value)) == pytest.approx(value)
    assert inverse_trigamma(0.0) == inverse_trigamma(-1.0) == np.inf


def test_the_ratio_is_that_of_two_students():
    rng = np.random.default_rng(2)
    law = Predictive(rng.normal(size=(2, 9)), rng.uniform(0.5, 2, (2, 9)), rng.uniform(1, 50, (2, 9)))
    target = rng.normal(0, 5, 9)
    ins, outs = stats.t.logpdf(target, law.freedom, law.centre, law.scale)
    np.testing.assert_allclose(law.ratio(target), ins - outs)
    np.testing.assert_allclose(law.first(4).ratio(target[:4]), (ins - outs)[:4])


@pytest.mark.parametrize("m", [4, 8, 16])
def test_scores_are_log_odds_of_membership(m):
    """Over 20 worlds of 600 records: in each fifth of the scores the share of members is the one they state."""
    found = [(likelihood_ratio(*one[:3]), one[3]) for one in (world(seed, m=m) for seed in range(20))]
    scores, member = np.concatenate([s for s, _ in found]), np.concatenate([t for _, t in found])
    for part in np.array_split(np.argsort(scores), 5):
        assert abs(expit(scores[part]).mean() - member[part].mean()) < 0.05


def test_one_pair_of_shadows_is_enough_to_do_better_than_the_raw_log_odds():
    """Nothing tells spread within a record from spread between records: the scores are cautious, and still in order."""
    for seed in range(5):
        target, shadows, inside, member, _ = world(seed, m=2)
        assert auc(likelihood_ratio(target, shadows, inside), member) > auc(target, member)


def test_with_few_shadows_it_finds_far_more_at_a_low_false_positive_rate_than_one_spread_for_all():
    """Means over 20 worlds; the ratio under the true law is what nobody can beat."""
    for m in (4, 8):
        found = {"auto": [], "shared": [], "per-record": [], "true": []}
        for seed in range(20):
            target, shadows, inside, member, true = world(seed, m=m)
            for name, values in found.items():
                score = true if name == "true" else likelihood_ratio(target, shadows, inside, name)
                values.append((tpr_at_fpr(score, member, 0.01).tpr, auc(score, member)))
        mean = {name: np.mean(values, axis=0) for name, values in found.items()}
        for other in ("shared", "per-record"):
            assert mean["auto"][0] > mean[other][0] + 0.05
            assert mean["auto"][1] > mean[other][1]
        assert mean["auto"][1] > 0.97 * mean["true"][1]
        assert mean["auto"][0] <= mean["true"][0] + 0.05


def test_many_shadows_make_it_the_normal_fit_of_each_record():
    target, shadows, inside, _, true = world(n=200, m=400)
    got = likelihood_ratio(target, shadows, inside)
    own = likelihood_ratio(target, shadows, inside, "per-record")
    usual = np.abs(true) < 5
    assert np.median(np.abs(got - own)[usual]) < 0.05
    assert np.corrcoef(got[usual], own[usual])[0, 1] > 0.99


def test_what_training_adds_is_learnt_from_other_records_when_the_candidates_were_in_no_shadow():
    found = []
    for seed in range(10):
        target, shadows, inside, member, _ = world(seed, n=900, m=8)
        mine, others = slice(0, 500), slice(500, 900)
        got = transferred_ratio(target[mine], shadows[:, mine], inside[:, mine], shadows[:, others], inside[:, others])
        moved = np.where(inside[:, mine], 1e3, shadows[:, mine])
        again = transferred_ratio(target[mine], moved, inside[:, mine], shadows[:, others], inside[:, others])
        assert np.array_equal(got, again), "answers of shadows that were trained on a candidate are not looked at"
        plain = likelihood_ratio(target[mine], shadows[:, mine], inside[:, mine], "shared")
        found.append((auc(got, member[mine]), auc(plain, member[mine])))
    assert np.mean(found, axis=0)[0] > 0.85


def test_fewer_than_ten_records_to_learn_from_are_too_few():
    inside = np.array([[True] * 12, [False] * 12])
    assert learnable(inside, ~inside)
    assert not learnable(inside[:, :9], ~inside[:, :9])
    assert not learnable(inside[:1], ~inside[:1])


@pytest.mark.parametrize("m", [2, 4, 16])
def test_equal_answers_thin_sides_and_far_targets_leave_finite_scores(m):
    rng = np.random.default_rng(0)
    inside = np.arange(m)[:, None] % 2 == np.zeros((1, 40))
    same = np.where(inside, 2.0, 1.0)
    target = np.linspace(-1e6, 1e6, 40)
    assert np.isfinite(likelihood_ratio(target, same, inside)).all()
    assert np.isfinite(likelihood_ratio(target, np.ones((m, 40)), inside)).all()
    thin = rng.random((m, 40)) < 0.2
    thin[0, :12], thin[1, :12] = True, False
    got = likelihood_ratio(target, rng.normal(size=(m, 40)) + thin, thin)
    assert np.isfinite(got).all()
    assert MOST > 0
