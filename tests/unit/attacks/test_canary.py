"""Canary extraction: remembered canaries stand out, forgotten ones do not, and shadows take out what makes one easy."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.context import RunContext
from dpeval.measure.canaries import exposures, measure_canaries
from dpeval.measure.membership import MembershipRun
from dpeval.plugin import Shadow
from dpeval.types import Predictions, Records
from dpeval_attacks.extraction.canary import CanaryExtraction
from dpeval_attacks.membership.lira import likelihood_ratio
from dpeval_attacks.membership.references import auc

COUNT = 200
IDS = tuple(f"c{i}" for i in range(COUNT))
CANARIES = Records(IDS, IDS, (0,) * COUNT)


class Model:
    """Log-odds of each canary's label: how well it suits the words, more where planted, and noise for each draw."""

    def __init__(self, planted, shift, seed, noise=0.0):
        suits = np.random.default_rng(11).normal(0, 2, COUNT)
        self.odds = suits + shift * planted + np.random.default_rng(seed).normal(0, 0.7, COUNT)
        self.planted, self.noise, self.asked = planted, noise, 0

    def predict(self, records, *, draw=0):
        self.asked += 1
        odds = self.odds[[int(key[1:]) for key in records.ids]]
        odds = odds + self.noise * np.random.default_rng([5, draw]).normal(size=len(odds))
        return Predictions(records.ids, np.stack([-np.logaddexp(0, -odds), -np.logaddexp(0, odds)], axis=1))


def coins(seed):
    return np.random.default_rng([seed, 3]).random(COUNT) < 0.5


def extracted(shift, *, seed=0, noise=0.0, **options):
    """Scores of one target, which canaries it planted, and its six shadows."""
    target = Model(coins(seed), shift, [seed, 1], noise)
    halves = [coins(100 + pair) for pair in range(3)]
    shadows = [Model(half, shift, [seed, 50 + i]) for i, half in enumerate(h for c in halves for h in (c, ~c))]
    own = [Shadow(frozenset(np.array(IDS)[one.planted]), one) for one in shadows]
    ctx = RunContext(0, shadow_source=lambda count: own[:count])
    return CanaryExtraction(**options).extract(target, CANARIES, None, ctx), target, shadows


def measured(scores, planted):
    return measure_canaries([MembershipRun(scores.ids, scores.values, planted)], resamples=100)


@pytest.mark.parametrize("shadows", [0, 6])
def test_remembered_canaries_are_exposed_and_bound_epsilon_from_below(shadows):
    scores, target, _ = extracted(8.0, shadows=shadows)
    found = measured(scores, target.planted)
    assert found["exposure_median"].value > 4
    assert found["epsilon_one_run"].value > 1


@pytest.mark.parametrize("shadows", [0, 6])
def test_forgotten_canaries_are_not(shadows):
    """Over 20 targets the bound exceeds 0 at most thrice (5 % each), and the AUC is 0.5 within three errors."""
    found, areas = [], []
    for seed in range(20):
        scores, target, _ = extracted(0.0, seed=seed, shadows=shadows)
        found.append(measured(scores, target.planted)["epsilon_one_run"].value > 0)
        areas.append(auc(scores.values, target.planted))
    assert sum(found) <= 3
    assert abs(np.mean(areas) - 0.5) < 3 * 0.041 / np.sqrt(20)


def test_shadows_take_out_how_well_a_label_suits_its_words():
    raw, target, _ = extracted(2.5)
    ratio, _, shadows = extracted(2.5, shadows=6)
    assert auc(ratio.values, target.planted) > auc(raw.values, target.planted) + 0.08
    inside = np.stack([one.planted for one in shadows])
    want = likelihood_ratio(target.odds, np.stack([one.odds for one in shadows]), inside)
    np.testing.assert_allclose(ratio.values, want, atol=1e-6)
    assert target.asked == 1
    assert {one.asked for one in shadows} == {1}, "one question for all canaries"


def test_asking_a_noisy_release_often_uncovers_more():
    once, target, _ = extracted(3.0, noise=4.0)
    often, asked, _ = extracted(3.0, noise=4.0, queries=40)
    assert asked.asked == 40
    assert auc(often.values, target.planted) > auc(once.values, target.planted) + 0.05


def test_exposure_is_the_rank_found_by_counting_one_by_one():
    scores, target, _ = extracted(1.0)
    values = np.round(scores.values, 0)
    planted, withheld = values[target.planted], values[~target.planted]
    for bits, score in zip(exposures(planted, withheld), planted, strict=True):
        rank = 1 + sum(1.0 if w > score else 0.5 if w == score else 0.0 for w in withheld)
        assert bits == pytest.approx(np.log2(len(withheld) + 1) - np.log2(rank))
