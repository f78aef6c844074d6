"""A lower bound on ε from one training run whose records were included by independent fair coins.

>>> round(one_run_bound(m=1000, r=100, v=90, delta=1e-5).epsilon, 4)
1.6261
>>> round(detectable_epsilon(claimed=1.0, m=1000, r=100, delta=1e-5), 1)
1.6
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special, stats
from scipy.optimize import brentq

from dpeval.measure.epsilon import EpsilonBound, Method, check_level

_LARGEST_EPSILON = 1e3


def one_run_p_value(*, m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Probability under (ε, δ)-DP of at least ``v`` right among ``r`` guesses on ``m`` coins.

    ``P[B >= v] + 2 m δ max_{1<=i<=v} P[v - i <= B < v] / i`` with B ~ Bin(r, e^ε / (1 + e^ε)) (Steinke, Nasr and
    Jagielski 2023, Theorem 5.2 and Appendix D).
    """
    if not 0 <= v <= r <= m:
        raise ValueError(f"expected right guesses <= guesses <= coins, got {v}, {r}, {m}")
    q = float(special.expit(epsilon))
    tail = float(special.betainc(v, r - v + 1, q)) if v else 1.0
    if delta == 0 or v == 0:
        return min(1.0, tail)
    falling = np.cumsum(stats.binom.pmf(np.arange(v - 1, -1, -1), r, q))
    slack = float(np.max(falling / np.arange(1, v + 1)))
    return min(1.0, tail + 2 * m * delta * slack)


def one_run_bound(*, m: int, r: int, v: int, delta: float, alpha: float = 0.05) -> EpsilonBound:
    """The largest ε rejected at level ``alpha`` when ``v`` of ``r`` guesses on ``m`` independent coins are right.

    Args:
        m: records whose membership was decided by its own fair coin.
        r: how many of them the attack guessed, chosen without the answers.
        v: how many guesses were right.
        delta: the δ of the claim.
        alpha: one-sided level.
    """
    check_level(delta, alpha)
    return EpsilonBound(
        _largest_rejected(m, r, v, delta, alpha),
        delta,
        alpha,
        Method.ONE_RUN,
        correct=v,
        guesses=r,
        trials=m,
        ceiling=_largest_rejected(m, m, m, delta, alpha),
    )


def _largest_rejected(m: int, r: int, v: int, delta: float, alpha: float) -> float:
    def rejected(epsilon: float) -> bool:
        return one_run_p_value(m=m, r=r, v=v, epsilon=epsilon, delta=delta) <= alpha

    if r == 0 or not rejected(0.0):
        return 0.0
    high = 1.0
    while rejected(high) and high < _LARGEST_EPSILON:
        high *= 2
    return _last_true(rejected, high)


def _last_true(holds: Callable[[float], bool], high: float) -> float:
    # The end where it holds is returned, so that the last digit errs on the safe side.
    low = 0.0
    while high - low > 1e-7:
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def detectable_epsilon(
    *, claimed: float, m: int, r: int, delta: float, alpha: float = 0.05, power: float = 0.8
) -> float:
    """The smallest true ε at which the best attack on ``r`` of ``m`` coins refutes ``claimed`` with this power.

    Infinite where not even ``r`` right guesses would refute it. The best attack is right with probability
    e^ε / (1 + e^ε) on each guess (randomised response).
    """
    check_level(delta, alpha)

    def refutes(v: int) -> bool:
        return one_run_p_value(m=m, r=r, v=v, epsilon=claimed, delta=delta) <= alpha

    if not refutes(r):
        return float("inf")
    low, high = 0, r
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(middle) else (middle, high)
    needed = high

    def lacking(epsilon: float) -> float:
        return float(stats.binom.sf(needed - 1, r, special.expit(epsilon))) - power

    return float(brentq(lacking, 0.0, 60.0)) if lacking(0.0) < 0 else 0.0
