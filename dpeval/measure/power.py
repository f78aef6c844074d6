"""The smallest effect that these sizes would show: "no leak found" means nothing without it.

>>> round(detectable_auc(members=100, nonmembers=100), 3)
0.614
>>> round(detectable_accuracy(n=200), 3)
0.598
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import stats
from scipy.optimize import brentq


def auc_variance(auc: float, members: int, nonmembers: int) -> float:
    """Variance of an AUC estimate (Newcombe 2006, Method 5; exponential scores)."""
    half = (members + nonmembers) / 2
    spread = 2 * half - 1 - (3 * half - 3) / ((2 - auc) * (1 + auc))
    return auc * (1 - auc) * spread / (members * nonmembers)


def detectable_auc(*, members: int, nonmembers: int, level: float = 0.95, power: float = 0.8) -> float:
    """The smallest AUC above 0.5 whose interval would exclude 0.5 with this power; records only, one model."""
    return _smallest(lambda auc: auc_variance(auc, members, nonmembers), 0.5, level, power)


def detectable_accuracy(*, n: int, chance: float = 0.5, level: float = 0.95, power: float = 0.8) -> float:
    """The smallest accuracy above ``chance`` that ``n`` records would show with this power."""
    return _smallest(lambda rate: rate * (1 - rate) / n, chance, level, power)


def _smallest(variance: Callable[[float], float], null: float, level: float, power: float) -> float:
    """Solve value - null = z_level sd(null) + z_power sd(value); 1 where no value would do."""
    z_level, z_power = float(stats.norm.ppf(0.5 + level / 2)), float(stats.norm.ppf(power))
    needed = z_level * math.sqrt(variance(null))

    def lacking(value: float) -> float:
        return value - null - needed - z_power * math.sqrt(max(variance(value), 0.0))

    return float(brentq(lacking, null, 1.0)) if lacking(1.0) > 0 else 1.0
