"""How often "this one was a member" is right where members are rare: PPV at a stated prevalence.

>>> round(ppv(tpr=0.5, fpr=0.05, prevalence=0.1), 4)
0.5263
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpeval.measure.influence import Part
from dpeval.measure.intervals import estimate
from dpeval.types import Estimate, Measured, Undefined


def ppv(tpr: float, fpr: float, prevalence: float) -> float:
    """``π TPR / (π TPR + (1 - π) FPR)``; NaN where nobody is called a member (Jayaraman et al. 2021, §3)."""
    if not 0 < prevalence < 1:
        raise ValueError(f"expected 0 < prevalence < 1, got {prevalence}")
    called = prevalence * tpr + (1 - prevalence) * fpr
    return prevalence * tpr / called if called > 0 else math.nan


def predictive_value(
    true_rates: Sequence[Part], false_rates: Sequence[Part], prevalence: float, level: float = 0.95
) -> Measured:
    """PPV of fixed yes/no answers over trained models; rates of the i-th model over the same records.

    PPV grows with TPR / FPR, whose interval follows from those of both rates (MOVER: Donner and Zou 2012, eq. 9), each
    over models and records. No false positive among n does not read as certainty, for a rate of zero has a width.
    """
    tpr, fpr = estimate(true_rates, level=level), estimate(false_rates, level=level)
    value = ppv(tpr.value, fpr.value, prevalence)
    if math.isnan(value):
        return Undefined("at its threshold the attack calls nobody a member")
    odds = prevalence / (1 - prevalence)
    low, high = (_share(odds * ratio) for ratio in _ratio_limits(tpr, fpr))
    return Estimate(value, min(low, value), max(high, value), tpr.n, level, tpr.models)


def _share(odds: float) -> float:
    return 1.0 if math.isinf(odds) else odds / (1 + odds)


def _ratio_limits(one: Estimate, other: Estimate) -> tuple[float, float]:
    """Limits of ``one / other`` from those of two independent quantities, neither negative."""
    product = one.value * other.value
    lower = one.low * (2 * one.value - one.low)
    root = math.sqrt(max(0.0, product**2 - lower * other.high * (2 * other.value - other.high)))
    low = lower / (product + root) if lower > 0 else 0.0
    if other.low <= 0:
        return low, math.inf
    below = other.low * (2 * other.value - other.low)
    root = math.sqrt(max(0.0, product**2 - one.high * (2 * one.value - one.high) * below))
    return low, (product + root) / below
