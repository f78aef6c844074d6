"""Lower bounds on ε from the two error rates of a test; :mod:`one_run` has those from a single training run.

A bound holds at its stated level whatever the attack does: under a mechanism that is (ε, δ)-DP it exceeds ε with
probability at most ``alpha``. The test must be fixed beforehand: see :mod:`audit` for choosing it on other records.

>>> round(rate_bound(tp=90, members=100, fp=5, nonmembers=100, delta=1e-5).epsilon, 4)
1.988
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

from dpeval.types import Floats


class Method(StrEnum):
    """How a lower bound on ε was obtained."""

    CLOPPER_PEARSON = "two error rates (Clopper-Pearson)"
    RECORD_RATES = "two error rates over a model's records, taken as independent (heuristic)"
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
    members: int = 0
    nonmembers: int = 0
    """For bounds from two error rates: the trials of each side."""


# --- two error rates -----------------------------------------------------------------------------------------------


def upper_rate(count: int, trials: int, alpha: float) -> float:
    """One-sided Clopper-Pearson upper bound of a binomial rate at level ``1 - alpha``."""
    if not 0 <= count <= trials or trials < 1:
        raise ValueError(f"expected 0 <= count <= trials and trials >= 1, got {count} of {trials}")
    return 1.0 if count == trials else float(special.betaincinv(count + 1, trials - count, 1 - alpha))


def upper_rates(counts: NDArray[np.int64], trials: int, alpha: float) -> Floats:
    """:func:`upper_rate` of many counts, shape ``(n,)``, at once."""
    inside = counts < trials
    out = np.ones(len(counts))
    out[inside] = special.betaincinv(counts[inside] + 1, trials - counts[inside], 1 - alpha)
    return out


def rate_bound(*, tp: int, members: int, fp: int, nonmembers: int, delta: float, alpha: float = 0.05) -> EpsilonBound:
    """ε from the hypothesis-testing view of DP (Kairouz et al. 2015, Theorem 2.1), both error rates bounded at α/2.

    The counts must come from a test fixed beforehand. Records are taken as independent trials: true of repeated
    releases, an assumption for the records of a single trained model (use :func:`one_run_bound` there).
    """
    check_level(delta, alpha)
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
        members=members,
        nonmembers=nonmembers,
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
    check_level(delta, alpha)
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
        members=members,
        nonmembers=nonmembers,
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


def check_level(delta: float, alpha: float) -> None:
    """Refuse a δ outside [0, 1) or a level outside (0, 1)."""
    if not 0 <= delta < 1:
        raise ValueError(f"expected 0 <= delta < 1, got {delta}")
    if not 0 < alpha < 1:
        raise ValueError(f"expected 0 < alpha < 1, got {alpha}")
