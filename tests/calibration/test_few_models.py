"""Few models, unequal groups, many comparisons: what is stated is integrated or simulated anew."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import special, stats

from dpeval.collect.measures import CellMeasures
from dpeval.measure.freedom import own_freedom
from dpeval.measure.influence import Part, auc_part, difference, rate_parts, ratio_part
from dpeval.measure.intervals import Scale, estimate, significance
from dpeval.measure.membership import MembershipRun, measure_membership
from dpeval.measure.multiple import holm, tied_ranks
from dpeval.measure.predictive import ppv, predictive_value
from dpeval.measure.separate import difference_of, separate_p_value
from dpeval.types import Estimate


def names(n: int) -> tuple[str, ...]:
    return tuple(f"r{i}" for i in range(n))


def missed(models: int, level: float, ratio: float) -> float:
    """How often a normal mean is missed whose models differ by ``ratio`` times what records explain (a variance)."""
    law = stats.chi2(models - 1)
    share = (np.arange(4000) + 0.5) / 4000
    spread = ratio * law.ppf(share) / (models - 1)
    freedom = np.array([own_freedom(models, 1 / s, level) for s in spread])
    half = -special.stdtrit(freedom, (1 - level) / 2) * np.sqrt(np.maximum(1.0, spread))
    return float((2 * special.ndtr(-half / np.sqrt(ratio))).mean())


@pytest.mark.parametrize("models", [2, 3, 4, 5, 6, 10, 20])
@pytest.mark.parametrize("level", [0.95, 0.99, 0.997, 0.9995])
def test_few_models_are_trusted_as_far_as_the_level_allows(models: int, level: float) -> None:
    """Missed at most 1.5 times as often as stated, whatever the ratio of the two variances."""
    worst = max(missed(models, level, ratio) for ratio in np.geomspace(1, 100, 13))
    assert worst <= 1.5 * (1 - level)


def any_told_apart(rng: np.random.Generator, defenses: int, models: int, n: int, between: float) -> bool:
    """One matrix of defenses that leak equally on average, though each training differs; two attacks; Holm."""
    found = []
    for _ in range(2):
        parts: list[list[Part]] = [[] for _ in range(defenses)]
        for _ in range(models):
            member, base = rng.random(n) < 0.5, rng.normal(size=n)
            for each in parts:
                shift = 1 + between * rng.normal()
                each.append(auc_part(0.6 * base + 0.8 * rng.normal(size=n) + shift * member, member, names(n)))
        for a, b in combinations(parts, 2):
            pairs = [difference(x, y) for x, y in zip(a, b, strict=True)]
            found.append(significance(pairs, 0.0, scale=Scale.DIFFERENCE))
    return min(holm(found)) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("models", "between"), [(1, 0.0), (2, 0.3), (3, 0.0), (3, 0.3), (3, 1.0), (5, 0.3)])
def test_equal_defenses_are_rarely_told_apart(models: int, between: float) -> None:
    """Family-wise: 12 comparisons a matrix, 200 matrices; quantiles of Student at 95 % alone gave 23 %."""
    rng = np.random.default_rng(models)
    wrong = sum(any_told_apart(rng, 4, models, 150, between) for _ in range(200))
    assert wrong <= stats.binom.ppf(0.999, 200, 0.07)


def test_a_matrix_of_equal_defenses_has_one_rank() -> None:
    """A quick look at the same, ranks included."""
    rng = np.random.default_rng(0)
    assert sum(any_told_apart(rng, 3, 3, 80, 0.3) for _ in range(12)) <= 4
    ranks = tied_ranks([("a", 0.6), ("b", 0.55), ("c", 0.5)], lambda x, y: False)
    assert [(r.first, r.last) for r in ranks] == [(1, 3)] * 3


def group_coverage(repeats: int, rate: float) -> float:
    rng, hits = np.random.default_rng(1), 0
    for _ in range(repeats):
        sizes = rng.choice([1, 1, 1, 2, 3, 8], 75)
        group = np.repeat(np.arange(75), sizes)
        latent = np.sqrt(0.8) * rng.normal(size=75)[group] + np.sqrt(0.2) * rng.normal(size=len(group))
        units = tuple(f"g{g}" for g in group)
        found = estimate([ratio_part(latent < stats.norm.ppf(rate), np.ones(len(group)), units)])
        hits += found.low <= rate <= found.high
    return hits / repeats


@pytest.mark.parametrize("rate", [0.5, 0.98])
def test_groups_of_unequal_size_are_covered(rate: float) -> None:
    """Without the weights and degrees of freedom of unequal groups: 93.0 and 90.8 %."""
    assert 0.925 <= group_coverage(600, rate) <= 0.985


@pytest.mark.parametrize(("tpr", "fpr"), [(0.05, 0.02), (0.3, 0.005), (0.3, 0.02), (0.3, 0.1), (0.8, 0.02)])
def test_predictive_values_of_few_calls_are_covered(tpr: float, fpr: float) -> None:
    """Every count of 60 + 60 records, weighed by its probability; the log of the ratio gave 84 to 94 %."""
    truth, covered, seen, n = ppv(tpr, fpr, 0.1), 0.0, 0.0, 60
    member = np.arange(2 * n) < n
    chances = stats.binom.pmf(np.arange(n + 1), n, tpr), stats.binom.pmf(np.arange(n + 1), n, fpr)
    for x, y in np.argwhere(np.outer(*chances) > 1e-5):
        called = np.r_[np.arange(n) < x, np.arange(n) < y]
        true, false = rate_parts(called, member, names(2 * n))
        found = predictive_value([true], [false], 0.1)
        if isinstance(found, Estimate):
            weight = chances[0][x] * chances[1][y]
            covered, seen = covered + weight * (found.low <= truth <= found.high), seen + weight
    assert 0.94 <= covered / seen <= 0.985


def test_separate_values_are_compared_by_their_difference() -> None:
    """Two thousand pairs of rates: the interval covers, and p-values of equal rates are uniform where it matters."""
    rng, hits, small = np.random.default_rng(2), 0, 0
    for _ in range(2000):
        one, other = (
            estimate([ratio_part(np.arange(n) < rng.binomial(n, 0.85), np.ones(n), names(n))]) for n in (120, 60)
        )
        hits += not difference_of(one, other).excludes(0.0)
        small += separate_p_value(one, other) <= 0.05
    assert 0.935 <= hits / 2000 <= 0.97
    assert small == 2000 - hits


def test_intervals_that_overlap_may_differ_for_certain() -> None:
    one, other = Estimate(0.60, 0.56, 0.64, n=500), Estimate(0.53, 0.49, 0.57, n=500)
    assert one.low < other.high
    assert difference_of(one, other).excludes(0.0)
    assert separate_p_value(one, other) < 0.05
    assert separate_p_value(one, one) == 1.0
    few = [Estimate(v.value, v.low, v.high, n=500, models=2) for v in (one, other)]
    assert separate_p_value(*few) > separate_p_value(one, other)
    with pytest.raises(ValueError, match="one level"):
        difference_of(one, Estimate(0.5, 0.4, 0.6, n=500, level=0.9))


def cell_of(runs: list[MembershipRun]) -> CellMeasures:
    auc = measure_membership(runs, resamples=1)
    value = auc.estimates["auc"]
    return CellMeasures({"auc": value}, "auc", 0.5, value, 0.5, parts=auc.parts["auc"], tested_parts=auc.parts["auc"])


def null_runs(rng: np.random.Generator, models: int, n: int = 200) -> list[MembershipRun]:
    return [MembershipRun(names(n), rng.normal(size=n), rng.random(n) < 0.5) for _ in range(models)]


def planted(shift: float, seed: int, n: int = 600) -> MembershipRun:
    rng = np.random.default_rng([5, seed])
    member = rng.random(n) < 0.5
    return MembershipRun(names(n), rng.normal(size=n) + shift * member, member)


@pytest.mark.parametrize("models", [1, 3])
def test_guessing_is_seldom_called_a_leak_even_at_the_level_of_many_cells(models: int) -> None:
    """Attacks without any power: p < 0.05 / 30 no more often than that, and p < 0.05 in at most 5 %."""
    rng = np.random.default_rng(models)
    ps = [cell_of(null_runs(rng, models)).p_value or 0.0 for _ in range(300)]
    for alpha in (0.05, 0.05 / 30):
        assert sum(p < alpha for p in ps) <= stats.binom.ppf(0.999, len(ps), alpha)


def test_a_strong_leak_is_told_from_guessing_among_many_cells_with_three_models_that_differ() -> None:
    """AUC near 0.68, 0.76 and 0.84 on 600 records: no family of 30 hides it."""
    runs = [planted(shift, k) for k, shift in enumerate((0.66, 1.0, 1.4))]
    assert (cell_of(runs).p_value or 1.0) < 0.05 / 30


def test_what_one_training_alone_shows_is_no_leak_of_the_mean() -> None:
    """Records alone exclude guessing at any level; the interval over three trainings does not, and has its say."""
    found = cell_of([planted(shift, k) for k, shift in enumerate((0.0, 0.0, 3.0))])
    assert isinstance(found.tested, Estimate)
    assert significance(found.tested_parts, 0.5, sharp=True) < 1e-4
    assert not found.tested.excludes(0.5)
    assert (found.p_value or 0.0) >= 0.05
