"""RMIA against its definition written out pair by pair, and the choice of ``a`` on the adversary's own shadows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_expit

from dpeval.measure.roc import tpr_at_fpr
from dpeval_attacks.membership.references import auc
from dpeval_attacks.membership.rmia import GRID, RMIA, best_a, log_average, share_beaten


def world(seed=0, n=500, z=400, m=8, shift=2.0):
    """Log-probabilities of the true class; half of the n records are in the target, none of the z others."""
    rng = np.random.default_rng(seed)
    base, inside = rng.normal(0, 2, n + z), np.zeros((m, n + z), dtype=bool)
    for pair in range(0, m, 2):
        inside[pair, :n] = rng.random(n) < 0.5
        inside[pair + 1, :n] = ~inside[pair, :n]
    member = np.concatenate([rng.random(n) < 0.5, np.zeros(z, dtype=bool)])
    shadows = log_expit(base + shift * inside + 0.5 * rng.normal(size=inside.shape))
    return log_expit(base + shift * member + 0.5 * rng.normal(size=n + z)), shadows, inside, member, n


def gains(target, shadows, inside, **options):
    return target - log_average(shadows, inside, **options)


@pytest.mark.parametrize("a", [0.0, 0.3, 1.0])
def test_the_average_is_the_published_one(a):
    _, shadows, inside, _, _n = world(n=20, z=5)
    p = np.exp(shadows)
    outs = np.array([p[~inside[:, i], i].mean() for i in range(25)])
    ins = np.array([p[inside[:, i], i].mean() if inside[:, i].any() else a * outs[i] + 1 - a for i in range(25)])
    np.testing.assert_allclose(np.exp(log_average(shadows, inside, a, use_inside=True)), (ins + outs) / 2)
    offline = ((1 + a) * outs + (1 - a)) / 2
    np.testing.assert_allclose(np.exp(log_average(shadows, inside, a, use_inside=False)), offline)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_the_score_is_the_share_of_pairs_with_a_ratio_of_at_least_gamma(gamma):
    """Up to the order among records that beat equally many, which moves a score by less than one pair."""
    target, shadows, inside, _, n = world(n=30, z=40)
    ratio = np.exp(gains(target, shadows, inside, a=0.5, use_inside=True))
    slow = np.array([[x / z >= gamma for z in ratio[n:]] for x in ratio[:n]]).sum(axis=1)
    got = share_beaten(np.log(ratio[:n]), np.log(ratio[n:]), gamma) * (40 + 1)
    assert np.array_equal(np.floor(got), slow)


def test_it_beats_the_raw_probability_at_a_low_false_positive_rate():
    target, shadows, inside, member, n = world()
    for use in (True, False):
        gain = gains(target, shadows, inside, a=0.3, use_inside=use)
        score = share_beaten(gain[:n], gain[n:], 1.0)
        assert tpr_at_fpr(score, member[:n], 0.01).tpr > 2 * tpr_at_fpr(target[:n], member[:n], 0.01).tpr
        assert auc(score, member[:n]) > auc(target[:n], member[:n]) + 0.1


def test_a_is_the_one_that_does_best_on_the_first_shadows():
    _, shadows, inside, _, _n = world()
    slow = {}
    for a in GRID:
        found = []
        for i in range(4):
            rest = [j for j in range(len(shadows)) if j // 2 != i // 2]
            gain = gains(shadows[i], shadows[rest], inside[rest], a=a, use_inside=False)
            found.append(auc(gain, inside[i]))
        slow[a] = sum(found)
    assert best_a(shadows, inside) == max(GRID, key=slow.__getitem__)


def test_saturated_probabilities_stay_finite_and_in_order():
    target = np.array([-1e-12, -1e-9, -1e6])
    shadows, inside = np.full((2, 3), -1e-10), np.array([[True] * 3, [False] * 3])
    gain = gains(target, shadows, inside, a=0.5, use_inside=True)
    score = share_beaten(gain, gain, 1.0)
    assert np.isfinite(score).all()
    assert score[0] > score[1] > score[2]


@pytest.mark.parametrize(("options", "said"), [
    ({"gamma": 0.0}, "gamma: expected a ratio above 0, got 0.0"),
    ({"a": 1.5}, "a: expected a number from 0 to 1, got 1.5"),
    ({"queries": 0}, "expected queries >= 1"),
])  # fmt: skip
def test_options_that_make_no_sense_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        RMIA(**options)
