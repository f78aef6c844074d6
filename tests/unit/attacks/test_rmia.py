"""RMIA against its definition written out pair by pair, and the choice of ``a`` on the adversary's own shadows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_expit, log_softmax

from dpeval.context import RunContext
from dpeval.measure.roc import tpr_at_fpr
from dpeval.plugin import Knowledge, Shadow
from dpeval.types import Predictions, Records
from dpeval_attacks.membership.references import auc
from dpeval_attacks.membership.rmia import (
    GRID,
    RMIA,
    TEMPERATURES,
    UNTRIED,
    best_settings,
    log_average,
    share_beaten,
    softened,
)


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


@pytest.mark.parametrize("use_inside", [True, False])
def test_temperature_and_a_are_those_that_do_best_on_the_first_shadows(use_inside):
    """``a`` by the offline attack at each temperature, the temperature by the attack in its own mode."""
    _, shadows, inside, _, _n = world()
    softer = {t: softened(two_classes(shadows), t)[..., 0] for t in (1.0, 4.0)}

    def slow(t, a, use):
        found = []
        for i in range(4):
            rest = [j for j in range(len(shadows)) if j // 2 != i // 2]
            gain = gains(softer[t][i], softer[t][rest], inside[rest], a=a, use_inside=use)
            found.append(auc(gain, inside[i]))
        return sum(found)

    each = {t: max(GRID, key=lambda a, t=t: slow(t, a, False)) for t in softer}
    best = max(softer, key=lambda t: slow(t, each[t], use_inside))
    assert best_settings(softer, inside, GRID, use_inside=use_inside) == (best, each[best])


def test_one_pair_of_shadows_chooses_nothing_and_what_is_given_stays():
    _, shadows, inside, _, _n = world(m=2)
    every = dict.fromkeys(TEMPERATURES, shadows)
    assert best_settings(every, inside, GRID, use_inside=True) == UNTRIED
    assert best_settings({3.0: shadows}, inside, (0.7,), use_inside=False) == (3.0, 0.7)


def two_classes(log_true):
    return np.stack([log_true, np.log(-np.expm1(log_true))], axis=-1)


def test_softened_probabilities_are_those_of_divided_logits():
    logits = np.random.default_rng(0).normal(0, 5, (3, 6, 4))
    for temperature in (1.0, 2.5):
        got = softened(log_softmax(logits, axis=-1), temperature)
        np.testing.assert_allclose(got, log_softmax(logits / temperature, axis=-1), atol=1e-12)
    assert np.isfinite(softened(np.array([[0.0, -np.inf]]), 2.0)).all()


def saturated(seed=0, n=400, z=300, m=8):
    """Sure of nearly everything: members stand out among probabilities of 0.999 and more."""
    rng = np.random.default_rng(seed)
    base, inside = rng.normal(8, 1, n + z), np.zeros((m, n + z), dtype=bool)
    for pair in range(0, m, 2):
        inside[pair, :n] = rng.random(n) < 0.5
        inside[pair + 1, :n] = ~inside[pair, :n]
    hard = rng.random(n + z) < 0.2
    member = rng.random(n) < 0.5

    def answer(seen):
        return base + 1.5 * seen - hard * ~seen * rng.exponential(12, n + z) + 0.5 * rng.normal(size=n + z)

    ids = tuple(f"r{i}" for i in range(n + z))
    models = [Known(ids, answer(row)) for row in (np.concatenate([member, np.zeros(z, dtype=bool)]), *inside)]
    own = [Shadow(frozenset(np.array(ids)[row]), model) for row, model in zip(inside, models[1:], strict=True)]
    records = Records(ids, ids, (0,) * (n + z))
    ctx = RunContext(0, shadow_source=lambda count: own[:count])
    knowledge = Knowledge(None, None, records.take(range(n, n + z)), num_labels=2, num_attribute_values=0)
    return models[0], records.take(range(n)), knowledge, ctx, member


class Known:
    """Answers two-class log-odds by record id."""

    def __init__(self, ids, odds):
        self.odds = dict(zip(ids, odds, strict=True))

    def predict(self, records, *, draw=0):
        odds = np.array([self.odds[key] for key in records.ids])
        return Predictions(records.ids, np.stack([-np.logaddexp(0, -odds), -np.logaddexp(0, odds)], axis=1))


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_the_temperature_uncovers_members_among_saturated_answers(mode):
    view, candidates, knowledge, ctx, member = saturated()
    plain, chosen = (
        RMIA(shadows=8, mode=mode, temperature=t).score(view, candidates, knowledge, ctx).values for t in (1.0, None)
    )
    assert auc(chosen, member) > auc(plain, member) + 0.015


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
    ({"temperature": 0.0}, "temperature: expected a number above 0, got 0.0"),
    ({"queries": 0}, "expected queries >= 1"),
])  # fmt: skip
def test_options_that_make_no_sense_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        RMIA(**options)
