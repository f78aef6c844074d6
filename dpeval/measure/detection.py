"""What an audit could have shown: its ceiling is in the bound itself, its detection limit is here.

*Ceiling*: the bound that the experiment gives when every guess is right; a claim at or above it cannot be refuted here
whatever the defense does. *Detection limit* (``smallest refutable ε``): the smallest true ε at which the claim would
have been refuted with the stated power, had the defense been a randomised response of that ε, the mechanism that is
easiest to guess of all that keep it. A weaker leak, or a leak that this attack does not find, goes unseen.

For the bound from one run it supposes that every audited record is guessed. How many are is planned on the other half,
which costs power: simulated audits of a randomised response refute at 55 to 70 % where 80 % is stated.

>>> from dpeval.measure.epsilon import rate_bound
>>> bound = rate_bound(tp=180, members=200, fp=20, nonmembers=200, delta=1e-5)
>>> round(detection_limit(bound, claimed=1.0), 2)
1.41
>>> detection_limit(bound, claimed=bound.ceiling)
inf
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special, stats
from scipy.optimize import brentq

from dpeval.measure.epsilon import EpsilonBound, Method, upper_rates
from dpeval.measure.one_run import detectable_epsilon

POWER = 0.8
_LARGEST = 60.0


def detection_limit(bound: EpsilonBound, claimed: float, power: float = POWER) -> float | None:
    """The smallest true ε that this experiment would have shown to be above ``claimed``; see the module.

    Infinite where no result of it would refute the claim; ``None`` for bounds that refute nothing (models).
    """
    if bound.method is Method.ONE_RUN:
        coins = bound.trials
        return detectable_epsilon(claimed=claimed, m=coins, r=coins, delta=bound.delta, alpha=bound.alpha, power=power)
    if bound.method in (Method.CLOPPER_PEARSON, Method.RECORD_RATES) and bound.members and bound.nonmembers:
        return _rates(bound, claimed, power)
    return None


def _rates(bound: EpsilonBound, claimed: float, power: float) -> float:
    """Over the misses of both sides, independent binomial counts at rate 1 / (1 + e^ε)."""
    if bound.ceiling <= claimed:
        return math.inf
    false, missed = np.arange(bound.nonmembers + 1), np.arange(bound.members + 1)
    fpr = upper_rates(false, bound.nonmembers, bound.alpha / 2)
    fnr = upper_rates(missed, bound.members, bound.alpha / 2)
    # Refuted where fnr < (1 - δ - fpr) e^-c or fnr < 1 - δ - fpr e^c: for each count of false alarms, up to so many
    # misses.
    scale = math.exp(min(claimed, 700.0))
    most = np.maximum((1 - bound.delta - fpr) / scale, 1 - bound.delta - fpr * scale)
    allowed = np.searchsorted(fnr, most, side="left") - 1

    def lacking(epsilon: float) -> float:
        wrong = float(special.expit(-epsilon))
        chance = stats.binom.pmf(false, bound.nonmembers, wrong) * stats.binom.cdf(allowed, bound.members, wrong)
        return float(chance.sum()) - power

    if lacking(0.0) >= 0:
        return 0.0
    return float(brentq(lacking, 0.0, _LARGEST)) if lacking(_LARGEST) > 0 else math.inf
