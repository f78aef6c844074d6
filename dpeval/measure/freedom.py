"""How much a spread that was seen between few models can be trusted, at a given level.

The variance that models do not share is taken as the larger of what records alone explain (D, known well) and of what
was seen (S², from R - 1 differences). Where S² is below D, Student's R - 1 degrees of freedom are more caution than
needed, and those of the records too little: a small S² may be luck. The freedom is ``(R - 1) (D / S²)^power``.

The powers are the largest under which a normal mean is missed at most 1.4 times as often as stated (93 % for 95 %; two
models 1.45), found by integrating over S² for every ratio of the variances between and within models; tests/calibration
integrates again. A smaller level needs far more caution: what covers 94 % of the time may fail ten times as often as
stated where p-values are divided by twenty comparisons.

>>> own_freedom(3, 1.0, 0.95), round(own_freedom(3, 2.0, 0.95)), round(own_freedom(3, 2.0, 0.999), 1)
(2.0, 128, 2.5)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

_CHANCES = (1e-12, 1e-6, 1e-4, 0.001, 0.003, 0.01, 0.02, 0.05)
"""One minus the level, for each of the powers below."""
_POWERS: Mapping[int, tuple[float, ...]] = MappingProxyType(
    {
        1: (0.02, 0.02, 0.1, 0.1, 0.15, 0.2, 0.3, 0.75),
        2: (0.02, 0.1, 0.15, 0.3, 0.4, 0.75, 1.3, 6.0),
        3: (0.02, 0.15, 0.3, 0.5, 0.75, 1.6, 4.0, 30.0),
        4: (0.02, 0.25, 0.5, 0.75, 1.6, 4.0, 30.0, 30.0),
        6: (0.02, 0.4, 0.75, 2.0, 4.0, 30.0, 30.0, 30.0),
        9: (0.02, 0.75, 1.6, 4.0, 10.0, 30.0, 30.0, 30.0),
    }
)
_MOST = 1e7


def own_freedom(models: int, explained: float, level: float) -> float:
    """Degrees of freedom of the variance that models do not share, at least ``models - 1``.

    Args:
        models: how many were trained, two or more.
        explained: D / S², the variance that records alone would bring over the one seen.
        level: of the two-sided interval.
    """
    if explained <= 1:
        return float(models - 1)
    powers = _POWERS[max(known for known in _POWERS if known <= models - 1)]
    power = math.exp(np.interp(math.log(max(1 - level, _CHANCES[0])), np.log(_CHANCES), np.log(powers)))
    grown = math.log(models - 1) + power * math.log(explained)
    return min(_MOST, math.exp(min(grown, math.log(_MOST))))
