"""Lower bounds on ε from an attack's answers: two error rates, or one training run with independent coins.

Every bound holds at its stated level whatever the attack does: under a mechanism that is (ε, δ)-DP it exceeds ε with
probability at most ``alpha``. Choices (threshold, how many guesses) are made on one half of the records and paid for on
the other.

>>> round(rate_bound(tp=90, members=100, fp=5, nonmembers=100, delta=1e-5).epsilon, 4)
1.988
>>> round(one_run_bound(m=1000, r=100, v=90, delta=1e-5).epsilon, 4)
1.6261
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import special, stats
from scipy.optimize import brentq

from dpeval.types import Floats

_LARGEST_EPSILON = 1e3


class Method(StrEnum):
    """How a lower bound on ε was obtained."""

    CLOPPER_PEARSON = "two error rates (Clopper-Pearson)"
    ONE_RUN = "one run, independent coins (Steinke, Nasr and Jagielski 2023)"
    GAUSSIAN = "two error rates, assuming a Gaussian mechanism (model-based)"


@dataclass(frozen=True)
class EpsilonBound:
    """``epsilon`` is exceeded by the true ε with confidence ``1 - alpha``, at ``delta``.

    ``correct`` of ``guesses`` answers were right among ``trials`` records that could have been guessed. ``ceiling`` is
    the bound that the same experiment would have given had every guess been right: no claim above it could be refuted.
    """

    epsilon: float
    delta: float
    alpha: float
    method: Method
    correct: int
    guesses: int
    trials: int
    ceiling: float
    details: tuple[tuple[str, float], ...] = ()


# --- two error rates -----------------------------------------------------------------------------------------------


def upper_rate(count: int, trials: int, alpha: float) -> float:
    """One-sided Clopper-Pearson upper bound of a binomial rate at level ``1 - alpha``."""
    if not 0 <= count <= trials or trials < 1:
        raise ValueError(f"expected 0 <= count <= trials and trials >= 1, got {count} of {trials}")
    return 1.0 if count == trials else float(special.betaincinv(count + 1, trials - count, 1 - alpha))


def rate_bound(*, tp: int, members: int, fp: int, nonmembers: int, delta: float, alpha: float = 0.05) -> EpsilonBound:
    """ε from the hypothesis-testing view of DP (Kairouz et al. 2015, Theorem 2.1), both error rates bounded at α/2.

    The counts must come from a test fixed beforehand. Records are taken as independent trials: true of repeated
    releases, an assumption for the records of a single trained model (use :func:`one_run_bound` there).
    """
    _check(delta, alpha)
    fpr, fnr = upper_rate(fp, nonmembers, alpha / 2), upper_rate(members - tp, members, alpha / 2)
    least_fpr, least_fnr = upper_rate(0, nonmembers, alpha / 2), upper_rate(0, members, alpha / 2)
    return EpsilonBound(
        epsilon_of_rates(fpr, fnr, delta),
        delta,
        alpha,
        Method.CLOPPER_PEARSON,
        correct=tp + nonmembers - fp,
        guesses=members + nonmembers,
        trials=members + nonmembers,
        ceiling=epsilon_of_rates(least_fpr, least_fnr, delta),
        details=(("fpr_upper", fpr), ("fnr_upper", fnr)),
    )


def epsilon_of_rates(fpr: float, fnr: float, delta: float) -> float:
    """The smallest ε at which a test with these error rates is possible: both directions, never below 0."""
    ratios = [(1 - delta - fpr) / fnr if fnr > 0 else math.inf, (1 - delta - fnr) / fpr if fpr > 0 else math.inf]
    best = max(ratios)
    return max(0.0, math.log(best)) if best > 0 else 0.0


def gaussian_bound(
    *, tp: int, members: int, fp: int, nonmembers: int, delta: float, alpha: float = 0.05
) -> EpsilonBound:
    """ε at ``delta`` of the Gaussian mechanism with the least μ that these error rates allow (Nasr et al. 2023, §4).

    Much larger than :func:`rate_bound`, and right only if the mechanism's trade-off curve is Gaussian.
    """
    _check(delta, alpha)
    fpr, fnr = upper_rate(fp, nonmembers, alpha / 2), upper_rate(members - tp, members, alpha / 2)
    least_fpr, least_fnr = upper_rate(0, nonmembers, alpha / 2), upper_rate(0, members, alpha / 2)
    mu, most = gaussian_mu(fpr, fnr), gaussian_mu(least_fpr, least_fnr)
    return EpsilonBound(
        gaussian_epsilon(mu, delta),
        delta,
        alpha,
        Method.GAUSSIAN,
        correct=tp + nonmembers - fp,
        guesses=members + nonmembers,
        trials=members + nonmembers,
        ceiling=gaussian_epsilon(most, delta),
        details=(("mu", mu), ("fpr_upper", fpr), ("fnr_upper", fnr)),
    )


def gaussian_mu(fpr: float, fnr: float) -> float:
    """μ of the Gaussian trade-off curve through these error rates, never below 0 (Dong, Roth and Su 2022, Def. 2.6)."""
    if fpr >= 1 or fnr >= 1:
        return 0.0
    return max(0.0, -float(special.ndtri(fpr)) - float(special.ndtri(fnr)))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """``Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)`` (Balle and Wang 2018, Theorem 8), in the log domain."""
    first = float(special.log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(special.log_ndtr(-mu / 2 - epsilon / mu))
    return math.exp(first) * -math.expm1(min(second - first, 0.0))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The ε of a μ-Gaussian mechanism at ``delta``; 0 where δ alone covers it, infinite at δ = 0."""
    if mu <= 0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if delta == 0:
        return math.inf
    high = 1.0
    while gaussian_delta(high, mu) > delta:
        high *= 2
    return float(brentq(lambda e: gaussian_delta(e, mu) - delta, 0.0, high, xtol=1e-12))


# --- one training run ----------------------------------------------------------------------------------------------


def one_run_p_value(*, m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Probability under (ε, δ)-DP of at least ``v`` right among ``r`` guesses on ``m`` coins.

    ``P[B >= v] + 2 m δ max_{1<=i<=v} P[v - i <= B < v] / i`` with B ~ Bin(r, e^ε / (1 + e^ε)) (Steinke, Nasr and
    Jagielski 2023, Theorem 5.2 and Appendix D).
    """
    _check_counts(m, r, v)
    binomial = stats.binom(r, special.expit(epsilon))
    tail = float(binomial.sf(v - 1))
    if delta == 0 or v == 0:
        return min(1.0, tail)
    falling = np.cumsum(binomial.pmf(np.arange(v - 1, -1, -1)))
    slack = float(np.max(falling / np.arange(1, v + 1)))
    return min(1.0, tail + 2 * m * delta * slack)


def one_run_bound(*, m: int, r: int, v: int, delta: float, alpha: float = 0.05) -> EpsilonBound:
    """The largest ε rejected at level ``alpha`` when ``v`` of ``r`` guesses on ``m`` independent coins are right.

    Args:
        m: records whose membership was decided by its own fair coin.
        r: how many of them the attack guessed, chosen without the answers.
        v: how many guesses were right.
    """
    _check(delta, alpha)
    return EpsilonBound(
        _one_run_epsilon(m, r, v, delta, alpha),
        delta,
        alpha,
        Method.ONE_RUN,
        correct=v,
        guesses=r,
        trials=m,
        ceiling=_one_run_epsilon(m, r, r, delta, alpha),
    )


def _one_run_epsilon(m: int, r: int, v: int, delta: float, alpha: float) -> float:
    def excess(epsilon: float) -> float:
        return one_run_p_value(m=m, r=r, v=v, epsilon=epsilon, delta=delta) - alpha

    if r == 0 or excess(0.0) > 0:
        return 0.0
    high = 1.0
    while excess(high) <= 0 and high < _LARGEST_EPSILON:
        high *= 2
    return _bisect_down(excess, high)


def _bisect_down(excess: object, high: float) -> float:
    # Bisection, keeping the rejected end: the bound errs on the safe side of its last digit.
    low = 0.0
    while high - low > 1e-7:
        middle = (low + high) / 2
        if excess(middle) <= 0:  # type: ignore[operator]
            low = middle
        else:
            high = middle
    return low


def _check(delta: float, alpha: float) -> None:
    if not 0 <= delta < 1:
        raise ValueError(f"expected 0 <= delta < 1, got {delta}")
    if not 0 < alpha < 1:
        raise ValueError(f"expected 0 < alpha < 1, got {alpha}")


def _check_counts(m: int, r: int, v: int) -> None:
    if not 0 <= v <= r <= m:
        raise ValueError(f"expected right guesses <= guesses <= coins, got {v}, {r}, {m}")


__all__ = [
    "EpsilonBound", "Floats", "Method", "epsilon_of_rates", "gaussian_bound", "gaussian_delta", "gaussian_epsilon",
    "gaussian_mu", "one_run_bound", "one_run_p_value", "rate_bound", "upper_rate",
]  # fmt: skip
