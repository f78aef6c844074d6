"""Rényi accounting of the sampled Gaussian: the curve from dp-accounting, the conversion and the search of orders here.

Any order gives a valid bound, so ε is the least over a grid. The grid reaches from 1.01 to 8192: without its large
orders no target below ε ≈ 0.1 (at δ = 1e-5) could ever be met, however large the noise.

>>> round(rdp_epsilon(lambda orders: [a / 2 for a in orders], steps=1, delta=1e-5).epsilon, 3)
4.728
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from scipy.optimize import minimize_scalar

from dpeval.privacy.mechanisms import FixedSizeGaussian, SampledGaussian

Curve: TypeAlias = Callable[[Sequence[float]], Sequence[float]]
"""Rényi divergence of one step at each order."""


def _grid() -> tuple[float, ...]:
    near_one = [1 + 0.01 * 1.05**i for i in range(142)]
    geometric = [float(round(128 * 1.01**i)) for i in range(418)]
    return tuple(sorted({*near_one, *WHOLE_ORDERS[:127], *geometric, 8192.0}))


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
    return min(best, search.refine(best.order), key=lambda r: r.epsilon) if best.order < 64 else best


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
        found = minimize_scalar(lambda a: self._at(a).epsilon, bounds=(low, high), method="bounded")
        return self._at(float(found.x))

    def _at(self, order: float) -> RdpResult:
        return RdpResult(self._convert(self.steps * float(self.curve([order])[0]), order), order)

    def _convert(self, total: float, order: float) -> float:
        if not total < math.inf or order <= 1:
            return math.inf
        # A divergence near zero may round to a negative one; unguarded, that reads as perfect privacy.
        rounding = self.steps * 2e-15 * (50 + order * math.log1p(order)) / (order - 1)
        tail = math.log1p(-1 / order) - (math.log(self.delta) + math.log(order)) / (order - 1)
        return max(0.0, max(total, 0.0) + rounding + tail)


def poisson_curve(mechanism: SampledGaussian) -> Curve:
    """One Poisson-sampled step, add or remove one record (Mironov, Talwar and Zhang 2019, section 3.3)."""
    import dp_accounting as dp

    event = dp.PoissonSampledDpEvent(mechanism.sampling_rate, dp.GaussianDpEvent(mechanism.noise_multiplier))
    return _library_curve(event, dp.NeighboringRelation.ADD_OR_REMOVE_ONE)


def fixed_size_curve(mechanism: FixedSizeGaussian) -> Curve:
    """One step on a uniform subset, replace one record (Wang, Balle and Kasiviswanathan 2019, theorem 27).

    The theorem's σ is relative to the sensitivity under replacement, 2C; with C in its place the bound is false.
    """
    import dp_accounting as dp

    inner = dp.GaussianDpEvent(mechanism.noise_multiplier / 2)
    event = dp.SampledWithoutReplacementDpEvent(mechanism.num_records, mechanism.batch, inner)
    return _library_curve(event, dp.NeighboringRelation.REPLACE_ONE)


def gaussian_curve(mu: float) -> Curve:
    """One unsampled Gaussian release: α·μ²/2 (Mironov 2017, proposition 7)."""
    return lambda orders: [order * mu * mu / 2 for order in orders]


def _library_curve(event: object, relation: object) -> Curve:
    from dp_accounting.rdp import RdpAccountant

    @cache
    def at(order: float) -> float:
        accountant = RdpAccountant([order], relation)
        with _quiet():
            accountant.compose(event)
        return float(accountant.rdp[0])

    return lambda orders: [at(order) for order in orders]


@contextmanager
def _quiet() -> Iterator[None]:
    # An order whose series does not converge comes back as infinity and is skipped; the library also logs it.
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        logger.setLevel(level)
