"""Numerical composition of the Poisson-sampled Gaussian, by dp-accounting's privacy-loss distributions.

>>> value, interval = pld_epsilon(SampledGaussian(1.0, 0.01, 100), 1e-5, Adjacency.ADD_OR_REMOVE_ONE)
>>> f"{value:.3f} {interval:.1g}"
'0.718 6e-05'
"""

from __future__ import annotations

import math

from dpeval.privacy.mechanisms import SampledGaussian
from dpeval.types import Adjacency

_POINTS = 6e4
_TAIL = 8.0  # standard deviations that hold all but 1e-15 of the mass


def pld_epsilon(
    run: SampledGaussian, delta: float, adjacency: Adjacency, interval: float | None = None
) -> tuple[float, float]:
    """An upper bound on ε ("connect the dots", Doroshenko et al. 2022) and the discretisation interval used.

    For replacement the pair of a record's gradient against its negative is taken (as dp-accounting does). The interval
    is :func:`fine_interval` unless given; any interval gives a bound, a coarser one a looser.
    """
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    relation = {
        Adjacency.ADD_OR_REMOVE_ONE: dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
        Adjacency.REPLACE_ONE: dp.NeighboringRelation.REPLACE_ONE,
    }[adjacency]
    width = fine_interval(run) if interval is None else interval
    accountant = PLDAccountant(relation, width)
    event = dp.PoissonSampledDpEvent(run.sampling_rate, dp.GaussianDpEvent(run.noise_multiplier))
    accountant.compose(event, run.steps)
    return max(0.0, float(accountant.get_epsilon(delta))), width


def fine_interval(run: SampledGaussian) -> float:
    """A discretisation that puts about 1e5 points on the range of the privacy loss: about a second of work.

    One width for all runs is slow where losses are large (little noise), and far too coarse where they are small (tiny
    sampling rates, much noise). Two significant digits, so that it is the same on every machine.
    """
    sigma, rate = run.noise_multiplier, run.sampling_rate
    exponent = (0.5 + _TAIL * sigma) / sigma**2
    largest = math.log(rate) + exponent if exponent > 30 else math.log1p(rate * math.expm1(exponent))
    spread = min(2 * _TAIL * central_limit_mu(run), run.steps * largest, 100.0)
    return float(f"{max(largest, spread) / _POINTS:.1e}")


def central_limit_mu(run: SampledGaussian) -> float:
    """μ = q·√(T·(e^{1/σ²} − 1)), the limit of many small steps (Bu, Dong, Long and Su 2020, section 3)."""
    exponent = run.noise_multiplier**-2
    return run.sampling_rate * math.sqrt(run.steps * math.expm1(exponent)) if exponent < 700 else math.inf
