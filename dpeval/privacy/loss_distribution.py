"""Numerical composition of the Poisson-sampled Gaussian, by dp-accounting's privacy-loss distributions.

>>> value, interval = pld_epsilon(SampledGaussian(1.0, 0.01, 100), 1e-5, Adjacency.ADD_OR_REMOVE_ONE)
>>> round(value, 3)
0.718
"""

from __future__ import annotations

from dpeval.privacy.mechanisms import SampledGaussian
from dpeval.types import Adjacency

FINEST = 1e-4


def pld_epsilon(
    run: SampledGaussian, delta: float, adjacency: Adjacency, discretisation: float | None = None
) -> tuple[float, float]:
    """An upper bound on ε ("connect the dots", Doroshenko et al. 2022) and the discretisation interval used.

    For replacement the pair of a record's gradient against its negative is taken (as dp-accounting does).
    """
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    relation = {
        Adjacency.ADD_OR_REMOVE_ONE: dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
        Adjacency.REPLACE_ONE: dp.NeighboringRelation.REPLACE_ONE,
    }[adjacency]
    interval = FINEST if discretisation is None else discretisation
    accountant = PLDAccountant(relation, interval)
    event = dp.PoissonSampledDpEvent(run.sampling_rate, dp.GaussianDpEvent(run.noise_multiplier))
    accountant.compose(event, run.steps)
    return max(0.0, float(accountant.get_epsilon(delta))), interval
