"""Rényi accounting: one step against many digits and another library; the search against a full scan."""

from __future__ import annotations

import itertools
import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeval.privacy.mechanisms import FixedSizeGaussian, SampledGaussian
from dpeval.privacy.renyi import (
    EXTENDED_ORDERS,
    WHOLE_ORDERS,
    fixed_size_curve,
    gaussian_curve,
    poisson_curve,
    rdp_epsilon,
    sampled_gaussian_divergence,
)


def slow_divergence(rate: float, sigma: float, order: float) -> float:
    """D_α by 30-digit quadrature of E[(1 − q + q·e^{(2z−1)/2σ²})^α − 1]."""
    with mpmath.workdps(30):
        q, s, a = mpmath.mpf(rate), mpmath.mpf(sigma), mpmath.mpf(order)

        def excess(z: mpmath.mpf) -> mpmath.mpf:
            ratio = 1 - q + q * mpmath.exp((2 * z - 1) / (2 * s * s))
            return (ratio**a - 1 - a * (ratio - 1)) * mpmath.npdf(z, 0, s)

        ends = [-14 * s, -4 * s, 0, 4 * s, *(i * s for i in range(8, int(a / s) + 14, 4))]
        return float(mpmath.log1p(mpmath.quad(excess, ends)) / (a - 1))


@pytest.mark.parametrize("order", [1.01, 1.5, 3.7, 17.3])
@pytest.mark.parametrize(("rate", "sigma"), [(0.02, 0.8), (0.3, 2.0), (1e-4, 1.0), (0.01, 30.0), (0.9, 5.0)])
def test_divergence_against_many_digits(rate: float, sigma: float, order: float) -> None:
    """Fractional orders, where the usual series is only an upper bound."""
    got = sampled_gaussian_divergence(SampledGaussian(sigma, rate, 1), order)
    assert got == pytest.approx(slow_divergence(rate, sigma, order), rel=1e-7)


@pytest.mark.parametrize(("rate", "sigma"), [(0.015, 0.6), (0.2, 1.0), (1e-4, 4.0), (0.01, 50.0)])
def test_divergence_against_dp_accounting_at_whole_orders(rate: float, sigma: float) -> None:
    """Where the library's sum is exact."""
    import dp_accounting as dp
    from dp_accounting.rdp import RdpAccountant

    orders = [2.0, 3.0, 8.0, 40.0, 300.0]
    accountant = RdpAccountant(orders)
    accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)))
    got = poisson_curve(SampledGaussian(sigma, rate, 1))(orders)
    assert got == pytest.approx(accountant.rdp.tolist(), rel=1e-7)


@pytest.mark.parametrize(("sigma", "order"), [(0.02, 100.0), (0.02, 150.0), (0.002, 3.0), (0.002, 4.0)])
def test_with_hardly_any_noise_a_bound_takes_over(sigma: float, order: float) -> None:
    """Where quadrature would need millions of points the answer is an upper bound, close, and costs nothing."""
    got = sampled_gaussian_divergence(SampledGaussian(sigma, 0.1, 1), order)
    alone = (order * math.log(0.1) + order * (order - 1) / (2 * sigma**2)) / (order - 1)
    assert alone * (1 - 1e-9) <= got <= min(order / (2 * sigma**2), alone * 1.001)


@given(st.floats(1e-5, 0.99), st.floats(0.3, 100))
@settings(max_examples=25, deadline=None)
def test_divergence_grows_with_the_order(rate: float, sigma: float) -> None:
    """A property of Rényi divergences, on which the early stop of the search rests."""
    values = poisson_curve(SampledGaussian(sigma, rate, 1))([1.05, 1.5, 2.0, 3.3, 8.0, 40.0])
    assert all(a <= b * (1 + 1e-7) + 1e-18 for a, b in itertools.pairwise(values))
    assert values[0] >= 0


def full_scan(run: SampledGaussian, delta: float) -> float:
    """The conversion written out, at every order of the grid."""
    curve = poisson_curve(run)
    bounds = []
    for a in EXTENDED_ORDERS:
        if a < 200:
            rho = run.steps * curve([a])[0]
            bounds.append(rho + math.log(1 - 1 / a) - (math.log(delta) + math.log(a)) / (a - 1))
    return max(0.0, min(bounds))


@pytest.mark.parametrize(
    ("run", "delta"),
    [
        (SampledGaussian(0.6, 0.015, 200), 1e-5),
        (SampledGaussian(1.5, 0.005, 3000), 1e-6),
        (SampledGaussian(4.0, 0.1, 50), 1e-10),
        (SampledGaussian(0.35, 0.3, 20), 1e-4),
    ],
)
def test_search_finds_the_best_order(run: SampledGaussian, delta: float) -> None:
    """Coarse to fine is no worse than looking at every order, and refined between them."""
    found = rdp_epsilon(poisson_curve(run), run.steps, delta).epsilon
    scanned = full_scan(run, delta)
    assert scanned * (1 - 5e-3) <= found <= scanned * (1 + 1e-8)


def test_search_over_given_orders_uses_only_those() -> None:
    """The order reported is one of those given."""
    result = rdp_epsilon(gaussian_curve(1.0), 1, 1e-5, [9.0, 2.0, 5.0, 30.0])
    assert result.order == 5.0


def test_a_negative_divergence_is_not_perfect_privacy() -> None:
    """Rounding below zero does not turn into ε = 0."""
    assert rdp_epsilon(lambda orders: [-1e-18 for _ in orders], 1000, 1e-5, [1.5, 2.0]).epsilon > 10


def test_orders_without_a_finite_divergence_are_skipped() -> None:
    """Infinity at some orders leaves the others' bound."""
    curve = lambda orders: [math.inf if a > 3 else a / 2 for a in orders]  # noqa: E731
    assert rdp_epsilon(curve, 1, 1e-5).epsilon < 10
    assert rdp_epsilon(lambda orders: [math.inf for _ in orders], 1, 1e-5).epsilon == math.inf


def test_fixed_size_sampling_takes_the_doubled_sensitivity() -> None:
    """The whole batch drawn every time is the plain Gaussian with sensitivity 2C."""
    curve = fixed_size_curve(FixedSizeGaussian(3.0, 50, 50, 1))
    assert curve([2.0, 7.0]) == pytest.approx([2 * 4 / (2 * 9), 7 * 4 / (2 * 9)])


def test_grids_rise() -> None:
    """Sorted, above 1, up to 8192."""
    for grid in (EXTENDED_ORDERS, WHOLE_ORDERS):
        assert list(grid) == sorted(set(grid))
        assert grid[0] > 1
    assert EXTENDED_ORDERS[-1] == 8192
    assert all(order == int(order) for order in WHOLE_ORDERS)


def test_orders_at_or_below_one_are_refused() -> None:
    """Divergence of order 1 is another quantity."""
    with pytest.raises(ValueError, match="above 1"):
        sampled_gaussian_divergence(SampledGaussian(1.0, 0.1, 1), 1.0)
