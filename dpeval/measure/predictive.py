"""How often "this one was a member" is right where members are rare: PPV at a stated prevalence.

>>> round(ppv(tpr=0.5, fpr=0.05, prevalence=0.1), 4)
0.5263
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from dpeval.measure.clusters import record_covariance
from dpeval.measure.influence import Part
from dpeval.measure.intervals import Scale, Trials, hierarchical
from dpeval.types import Estimate, Measured, Undefined

_Z = 1.959964
"""The normal quantile of 95 %."""


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

    The interval is made on the log of TPR / FPR, each count raised by one half (Walter 1975), so that no false positive
    among n does not read as certainty.
    """
    value = ppv(_mean(true_rates), _mean(false_rates), prevalence)
    if math.isnan(value):
        return Undefined("at its threshold the attack calls nobody a member")
    logs = [_log_ratio(t, f) for t, f in zip(true_rates, false_rates, strict=True)]
    within = record_covariance(logs)
    found = hierarchical(
        [p.value for p in logs], within, n=len(logs[0].units), trials=Trials(1, 1), level=level, scale=Scale.FREE
    )
    prior = math.log(prevalence / (1 - prevalence))
    low, high = float(expit(found.low + prior)), float(expit(found.high + prior))
    return Estimate(value, min(low, value), max(high, value), found.n, level, found.models)


def _mean(parts: Sequence[Part]) -> float:
    return float(np.mean([p.value for p in parts]))


def _log_ratio(true_rate: Part, false_rate: Part) -> Part:
    up, down = _smoothed(true_rate), _smoothed(false_rate)
    influence = true_rate.influence / _scale(true_rate, up) - false_rate.influence / _scale(false_rate, down)
    # Counts of zero and of all have no influences, but not no variance: it is spread over the records.
    unseen = sum(map(_unseen, (true_rate, false_rate)))
    influence = influence + math.sqrt(unseen / len(influence))
    return Part(math.log(up / down), influence, true_rate.units, true_rate.trials, true_rate.edge)


def _scale(rate: Part, smoothed: float) -> float:
    """Turns influences on a rate into those on its log, with variance (1 - rate) / (count + 1/2) (Walter 1975)."""
    return math.sqrt(rate.value * smoothed) if rate.value > 0 else smoothed


def _unseen(rate: Part) -> float:
    """Variance of the log of a rate where no record differs from the others.

    At n of n it is that of Wilson's lower limit, n / (n + z²), which lies z standard deviations below.
    """
    if rate.value == 0:
        return 2.0
    return (math.log1p(_Z**2 / rate.edge) / _Z) ** 2 if rate.value == 1 else 0.0


def _smoothed(rate: Part) -> float:
    return (rate.value * rate.edge + 0.5) / (rate.edge + 0.5)
