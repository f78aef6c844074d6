"""Controls, power, correction for many comparisons, and ranks with ties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpeval.measure.controls import validate
from dpeval.measure.logodds import log_odds
from dpeval.measure.multiple import Rank, family_alpha, holm, p_value, tied_ranks
from dpeval.measure.power import auc_variance, detectable_accuracy, detectable_auc
from dpeval.types import Estimate, Undefined


def at(value: float, half: float = 0.05) -> Estimate:
    return Estimate(value, value - half, value + half, n=100)


def test_an_attack_is_validated_by_both_controls() -> None:
    """It breaks the over-fitted model and not the untrained one."""
    assert validate(at(0.9), at(0.52), null=0.5).validated


@pytest.mark.parametrize(
    ("positive", "negative", "why"),
    [
        (at(0.52), at(0.5), "does not break"),
        (at(0.9), at(0.6), "never saw the data"),
        (Undefined("one class"), at(0.5), "positive control is undefined"),
        (at(0.9), Undefined("one class"), "negative control is undefined"),
    ],
)
def test_otherwise_it_is_not(positive, negative, why: str) -> None:
    """V5: random scores read 'attack not validated', never 'private'."""
    found = validate(positive, negative, null=0.5)
    assert not found.validated
    assert "attack not validated" in found.reason
    assert why in found.reason


def test_detectable_auc_has_the_stated_power() -> None:
    """Simulated with exponential scores, whose variance the formula has: 80 % of intervals exclude 0.5."""
    target = detectable_auc(members=150, nonmembers=150)
    rng, found = np.random.default_rng(0), 0
    scale = target / (1 - target)
    for _ in range(400):
        a, b = rng.exponential(scale, 150), rng.exponential(1.0, 150)
        found += stats.mannwhitneyu(a, b, alternative="two-sided").pvalue < 0.05
    assert 0.73 < found / 400 < 0.87


def test_detectable_values_shrink_with_size_and_stay_below_one() -> None:
    """At tiny sizes nothing is detectable."""
    assert detectable_auc(members=1000, nonmembers=1000) < detectable_auc(members=100, nonmembers=100) < 0.65
    assert detectable_accuracy(n=2) == 1.0
    assert detectable_accuracy(n=400, chance=0.05) < 0.1
    assert auc_variance(0.5, 100, 100) == pytest.approx(201 / (12 * 100 * 100), rel=0.02)


def test_holm_is_the_textbooks() -> None:
    """Step by step: multiply the smallest by m, the next by m - 1, never decreasing, never above 1."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    with pytest.raises(ValueError, match="p-values"):
        holm([1.2])


def test_p_value_inverts_the_interval() -> None:
    """A null at the end of a 95 % interval has p = 0.05; at its centre 1."""
    assert p_value(at(0.6, 0.1), 0.5) == pytest.approx(0.05)
    assert p_value(at(0.6, 0.1), 0.6) == 1.0
    assert p_value(Estimate(0.6, 0.6, 0.6, n=1), 0.5) == 0.0


def test_family_level_is_shared() -> None:
    """Bonferroni."""
    assert family_alpha(0.05, 5) == pytest.approx(0.01)
    with pytest.raises(ValueError, match="at least one"):
        family_alpha(0.05, 0)


def test_ranks_show_ties_as_ties() -> None:
    """With no established difference all share all places; with all differences they are plain ranks."""
    entries = [("a", 0.9), ("b", 0.8), ("c", 0.1)]
    assert tied_ranks(entries, lambda x, y: False) == [Rank(n, 1, 3) for n in "abc"]
    assert tied_ranks(entries, lambda x, y: True) == [Rank("a", 1, 1), Rank("b", 2, 2), Rank("c", 3, 3)]


def test_log_odds_from_logits_and_from_log_probabilities_agree() -> None:
    """Shifting all logits changes nothing; one class is refused."""
    logits = np.random.default_rng(0).normal(scale=30, size=(50, 4))
    labels = np.arange(50) % 4
    probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    assert log_odds(logits, labels) == pytest.approx(log_odds(probs, labels), abs=1e-9)
    with pytest.raises(ValueError, match="classes >= 2"):
        log_odds(logits[:, :1], labels)
