"""Rényi accounting of the sampled Gaussian: one step's divergence, the best order, the conversion to (ε, δ).

Any order gives a valid bound, so ε is the least over a grid. The grid reaches from 1.01 to 8192: without its large
orders no target below ε ≈ 0.1 (at δ = 1e-5) could ever be met, however large the noise.

>>> round(rdp_epsilon(lambda orders: [a / 2 for a in orders], steps=1, delta=1e-5).epsilon, 3)
4.728
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from dpeval.privacy.mechanisms import FixedSizeGaussian, SampledGaussian
from dpeval.types import Floats

Curve: TypeAlias = Callable[[Sequence[float]], Sequence[float]]
"""Rényi divergence of one step at each order."""


def _grid() -> tuple[float, ...]:
    near_one = [1 + 0.01 * 1.05**i for i in range(142)]
    geometric = [float(round(128 * 1.01**i)) for i in range(418)]
    return tuple(sorted({*near_one, *WHOLE_ORDERS[:127], *geometric, 8192.0}))


_MOST_POINTS = 1_000_000

WHOLE_ORDERS: tuple[float, ...] = tuple(
    float(a) for a in (*range(2, 129), *(round(128 * 1.05**i) for i in range(1, 86)))
)
"""For curves that are only known between whole orders by interpolation."""

EXTENDED_ORDERS: tuple[float, ...] = _grid()
"""From 1.01 to 8192; below 64 the best one is refined among the real numbers next to it."""


@dataclass(frozen=True)
class RdpResult:
    """ε and the order at which the bound was least."""

    epsilon: float
    order: float


def rdp_epsilon(curve: Curve, steps: int, delta: float, orders: Sequence[float] | None = None) -> RdpResult:
    """The least (ε, δ) bound of ``steps`` steps of ``curve`` over ``orders`` (the extended orders by default).

    Conversion: Canonne, Kamath and Steinke 2020, proposition 12. The default orders are searched coarse to fine: a few
    dozen are evaluated, and each of them is a bound by itself. ``0 < delta < 1``.
    """
    search = _Search(curve, steps, delta)
    if orders is not None:
        return search.least(sorted(float(a) for a in orders), stop_early=True)
    grid = EXTENDED_ORDERS
    best = search.least(grid[::16], stop_early=True)
    for stride in (4, 1):
        centre = bisect_left(grid, best.order)
        near = range(max(0, centre - 4 * stride), min(len(grid), centre + 4 * stride + 1), stride)
        best = min(best, search.least([grid[i] for i in near]), key=lambda r: r.epsilon)
    if best.order < 64 and best.epsilon < math.inf:
        best = min(best, search.refine(best.order), key=lambda r: r.epsilon)
    return best


@dataclass(frozen=True)
class _Search:
    curve: Curve
    steps: int
    delta: float

    def least(self, orders: Sequence[float], *, stop_early: bool = False) -> RdpResult:
        best = RdpResult(math.inf, orders[0])
        for order in orders:
            total = self.steps * float(self.curve([order])[0])
            best = min(best, RdpResult(self._convert(total, order), order), key=lambda r: r.epsilon)
            # The divergence grows with the order, so once it alone is above the best bound no later order can win.
            if stop_early and best.epsilon + 1 < total < math.inf:
                break
        return best

    def refine(self, order: float) -> RdpResult:
        """The least bound at real orders within 5 % of the distance to 1."""
        low, high = 1 + (order - 1) / 1.05, 1 + (order - 1) * 1.05
        found = minimize_scalar(lambda a: min(self._at(a).epsilon, 1e100), bounds=(low, high), method="bounded")
        return self._at(float(found.x))

    def _at(self, order: float) -> RdpResult:
        return RdpResult(self._convert(self.steps * float(self.curve([order])[0]), order), order)

    def _convert(self, total: float, order: float) -> float:
        if not total < math.inf or order <= 1:
            return math.inf
        tail = math.log1p(-1 / order) - (math.log(self.delta) + math.log(order)) / (order - 1)
        # Rounded up; and a divergence that came out negative must not read as perfect privacy.
        return max(0.0, max(total, 0.0) * (1 + 1e-9) + tail)


def poisson_curve(mechanism: SampledGaussian) -> Curve:
    """One Poisson-sampled step, add or remove one record (Mironov, Talwar and Zhang 2019, theorem 4).

    By quadrature, to about 1e-12 relative at any real order: the series for fractional orders, as dp-accounting sums
    it, is an upper bound that is 10 % high at order 1.5 and nine times the value where noise is large.
    """
    if mechanism.sampling_rate == 1:
        return gaussian_curve(1 / mechanism.noise_multiplier)
    at = cache(partial(sampled_gaussian_divergence, mechanism))
    return lambda orders: [at(order) for order in orders]


def sampled_gaussian_divergence(mechanism: SampledGaussian, order: float) -> float:
    """D_α of (1−q)·N(0, σ²) + q·N(1, σ²) from N(0, σ²), for 0 < q < 1 and α > 1."""
    rate, sigma = mechanism.sampling_rate, mechanism.noise_multiplier
    if order <= 1:
        raise ValueError(f"sampled_gaussian_divergence: expected an order above 1, got {order}")
    # Trapezoids converge exponentially: the integrand is analytic up to the zeros of the mixture, πσ² off the axis.
    step = 0.4 * min(sigma, sigma * sigma)
    if order + 26 * sigma > _MOST_POINTS * step:
        return _mixture_bound(rate, sigma, order)
    z = np.arange(-13 * sigma, order + 13 * sigma + step, step)
    log_weight = -z * z / (2 * sigma * sigma) + math.log(step / sigma) - 0.5 * math.log(2 * math.pi)
    log_ratio = (2 * z - 1) / (2 * sigma * sigma)
    log_power = order * np.logaddexp(math.log1p(-rate), math.log(rate) + log_ratio)
    log_moment = float(logsumexp(log_power + log_weight))
    if log_moment < 1e-3:
        log_moment = math.log1p(_excess(order, rate, log_ratio, log_weight, log_power))
    return log_moment / (order - 1)


def _mixture_bound(rate: float, sigma: float, order: float) -> float:
    # The moment is convex in the mixture: at most (1−q)·1 + q·e^{α(α−1)/2σ²}. Close to equality for tiny σ.
    exponent = order * (order - 1) / (2 * sigma * sigma)
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + exponent)) / (order - 1)


def _excess(order: float, rate: float, log_ratio: Floats, log_weight: Floats, log_power: Floats) -> float:
    # The moment minus one. The ratio has mean 1, so the linear term may go before rounding swamps what is left.
    shift = rate * np.expm1(np.minimum(log_ratio, 1.0))
    near = np.exp(log_weight) * (np.expm1(np.minimum(log_power, 1.0)) - order * shift)
    far = np.exp(log_power + log_weight) - (1 - order * rate) * np.exp(log_weight)
    far -= order * rate * np.exp(log_weight + log_ratio)
    return math.fsum(np.where((log_ratio < 1) & (log_power < 1), near, far))


def fixed_size_curve(mechanism: FixedSizeGaussian) -> Curve:
    """One step on a uniform subset, replace one record (Wang, Balle and Kasiviswanathan 2019, theorem 27).

    The theorem's σ is relative to the sensitivity under replacement, 2C; with C in its place the bound is false.
    """
    import dp_accounting as dp
    from dp_accounting.rdp import RdpAccountant

    inner = dp.GaussianDpEvent(mechanism.noise_multiplier / 2)
    event = dp.SampledWithoutReplacementDpEvent(mechanism.num_records, mechanism.batch, inner)

    def curve(orders: Sequence[float]) -> Sequence[float]:
        accountant = RdpAccountant(list(orders), dp.NeighboringRelation.REPLACE_ONE)
        accountant.compose(event)
        return [float(r) for r in accountant.rdp]

    return curve


def gaussian_curve(mu: float) -> Curve:
    """One unsampled Gaussian release: α·μ²/2 (Mironov 2017, proposition 7)."""
    return lambda orders: [order * mu * mu / 2 for order in orders]
