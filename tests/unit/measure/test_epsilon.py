"""Lower bounds on ε against slow exact sums, and ceilings against the definitions of DP."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from dpeval.measure.ceilings import max_advantage, max_auc_gaussian, max_tpr, max_tpr_gaussian
from dpeval.measure.epsilon import (
    epsilon_of_rates,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    rate_bound,
    upper_rate,
)
from dpeval.measure.one_run import detectable_epsilon, one_run_bound, one_run_p_value


def exact_p_value(m: int, r: int, v: int, odds: Fraction, delta: Fraction) -> Fraction:
    """Steinke et al.'s p-value in rational arithmetic; ``odds`` is e^ε."""
    q = odds / (1 + odds)
    pmf = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    slack = max((sum(pmf[v - i : v]) / i for i in range(1, v + 1)), default=Fraction(0))
    return min(Fraction(1), sum(pmf[v:], Fraction(0)) + 2 * m * delta * slack)


@pytest.mark.parametrize(("m", "r", "v"), [(10, 10, 9), (30, 12, 8), (25, 25, 25), (40, 20, 3), (7, 5, 0)])
@pytest.mark.parametrize("odds", [Fraction(1), Fraction(3), Fraction(17, 2)])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 1000)])
def test_one_run_p_value_is_the_exact_sum(m: int, r: int, v: int, odds: Fraction, delta: Fraction) -> None:
    """In rational arithmetic, term by term."""
    found = one_run_p_value(m=m, r=r, v=v, epsilon=math.log(odds), delta=float(delta))
    assert found == pytest.approx(float(exact_p_value(m, r, v, odds, delta)), rel=1e-9)


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "expected"), [(1000, 100, 75, 1e-4, 0.673), (100_000, 1510, 1439, 1e-5, 2.675)]
)
def test_one_run_values_of_the_paper(m: int, r: int, v: int, delta: float, expected: float) -> None:
    """Steinke, Nasr and Jagielski 2023, Appendix D."""
    assert one_run_bound(m=m, r=r, v=v, delta=delta).epsilon == pytest.approx(expected, abs=1e-3)


def test_one_run_bound_is_the_edge_of_rejection() -> None:
    """Rejected at the bound, not just above it; it grows with right guesses and shrinks with δ."""
    found = one_run_bound(m=200, r=60, v=52, delta=1e-5)
    assert one_run_p_value(m=200, r=60, v=52, epsilon=found.epsilon, delta=1e-5) <= 0.05
    assert one_run_p_value(m=200, r=60, v=52, epsilon=found.epsilon + 1e-5, delta=1e-5) > 0.05
    more, less = one_run_bound(m=200, r=60, v=55, delta=1e-5), one_run_bound(m=200, r=60, v=52, delta=1e-3)
    assert less.epsilon < found.epsilon < more.epsilon < found.ceiling


def test_no_guess_shows_nothing() -> None:
    """No guesses, or half of them right: 0."""
    assert one_run_bound(m=100, r=0, v=0, delta=0.0).epsilon == 0
    assert one_run_bound(m=100, r=100, v=50, delta=0.0).epsilon == 0


def test_detectable_epsilon_has_the_stated_power() -> None:
    """By simulating randomised response at that ε: the claim is refuted in about 80 % of experiments."""
    true = detectable_epsilon(claimed=1.0, m=300, r=300, delta=1e-6)
    rng = np.random.default_rng(0)
    right = rng.binomial(300, 1 / (1 + math.exp(-true)), size=200)
    refuted = [one_run_p_value(m=300, r=300, v=int(v), epsilon=1.0, delta=1e-6) <= 0.05 for v in right]
    assert 0.7 < np.mean(refuted) < 0.9
    assert detectable_epsilon(claimed=9.0, m=300, r=300, delta=0.0) == math.inf


@pytest.mark.parametrize(("count", "trials"), [(0, 50), (7, 50), (49, 50), (50, 50)])
def test_upper_rate_leaves_alpha_in_the_tail(count: int, trials: int) -> None:
    """P[at most this many | the bound] = α."""
    found = upper_rate(count, trials, 0.01)
    assert found == 1.0 if count == trials else stats.binom.cdf(count, trials, found) == pytest.approx(0.01, rel=1e-9)


def test_gaussian_epsilon_solves_its_definition() -> None:
    """δ(ε; μ) by quadrature of the privacy loss, and the round trip."""
    for mu in (0.3, 1.0, 4.0):
        epsilon = gaussian_epsilon(mu, 1e-5)
        grid = np.linspace(-12, 12 + mu, 400_001)
        gap = np.clip(stats.norm.pdf(grid - mu) - math.exp(epsilon) * stats.norm.pdf(grid), 0, None)
        assert float(np.trapezoid(gap, grid)) == pytest.approx(1e-5, rel=1e-4)
    assert gaussian_epsilon(0.0, 1e-5) == 0
    assert gaussian_epsilon(0.5, 0.5) == 0
    assert gaussian_epsilon(0.5, 0.0) == math.inf
    assert gaussian_delta(800.0, 30.0) < 1


def test_gaussian_mu_of_the_rates_of_a_gaussian_test() -> None:
    """A threshold test between N(0, 1) and N(μ, 1) gives back μ."""
    assert gaussian_mu(stats.norm.sf(0.7), stats.norm.cdf(0.7 - 1.3)) == pytest.approx(1.3)


def test_epsilon_of_rates_holds_both_ways() -> None:
    """The randomised-response test attains ε; swapping the errors changes nothing; chance is 0."""
    q = 1 / (1 + math.exp(1.5))
    assert epsilon_of_rates(q, q, 0.0) == pytest.approx(1.5)
    assert epsilon_of_rates(0.02, 0.4, 1e-3) == epsilon_of_rates(0.4, 0.02, 1e-3)
    assert epsilon_of_rates(0.5, 0.5, 0.0) == 0
    assert epsilon_of_rates(1.0, 1.0, 0.0) == 0


def test_impossible_inputs_are_refused() -> None:
    """Counts beyond their totals, δ and α outside their ranges."""
    with pytest.raises(ValueError, match="count <= trials"):
        rate_bound(tp=11, members=10, fp=0, nonmembers=10, delta=0.0)
    with pytest.raises(ValueError, match="delta"):
        one_run_bound(m=10, r=5, v=5, delta=1.0)
    with pytest.raises(ValueError, match="alpha"):
        one_run_bound(m=10, r=5, v=5, delta=0.0, alpha=0.0)
    with pytest.raises(ValueError, match="right guesses"):
        one_run_bound(m=10, r=11, v=5, delta=0.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_ceilings_bound_the_worst_mechanism_and_are_attained(epsilon: float) -> None:
    """Maximised over all (ε, δ)-DP tests by linear programming on the region of Kairouz et al."""
    delta = 1e-3
    for fpr in (0.0, 0.01, 0.4):
        e = math.exp(epsilon)
        # max TPR such that TPR <= e FPR + δ and 1 - FPR <= e (1 - TPR) + δ
        found = optimize.linprog(
            [-1.0], A_ub=[[1.0], [e]], b_ub=[e * fpr + delta, e + delta - 1 + fpr], bounds=[(0, 1)]
        )
        assert max_tpr(fpr=fpr, epsilon=epsilon, delta=delta) == pytest.approx(-found.fun, rel=1e-9)
    grid = np.linspace(0, 1, 20_001)
    best = max(max_tpr(fpr=f, epsilon=epsilon, delta=delta) - f for f in grid.tolist())
    assert max_advantage(epsilon=epsilon, delta=delta) == pytest.approx(best, abs=1e-4)


def test_gaussian_auc_is_the_area_under_the_ceiling() -> None:
    """By quadrature."""
    grid = (np.arange(20_000) + 0.5) / 20_000
    area = np.mean([max_tpr_gaussian(fpr=f, mu=1.2) for f in grid.tolist()])
    assert max_auc_gaussian(mu=1.2) == pytest.approx(area, abs=1e-4)
