"""The Gaussian mechanism, exactly: δ of ε, ε of δ, the smallest σ, and composition of several releases.

A mechanism that adds N(0, σ²) noise per coordinate to a value of L2 sensitivity Δ is described completely by
μ = Δ/σ ("μ-Gaussian differential privacy"). Everything below is a function of μ, so nothing here has units.

>>> sigma = analytic_gaussian_sigma(8.0, 1e-5, sensitivity=2.0)
>>> round(sigma, 4)
1.2005
>>> round(epsilon_of_gaussian(gaussian_mu(sigma, 2.0), 1e-5), 6)
8.0
>>> round(epsilon_of_gaussian(gaussian_mu(sigma, 2.0, releases=3), 1e-5), 2)
15.86
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, ndtr

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
# Rounding in the solvers stays below 1e-11 relative; σ moves up by that much so that it never moves down.
_ROUND_UP = 1 + 1e-11


def gaussian_mu(sigma: float, sensitivity: float, releases: int = 1) -> float:
    """μ of ``releases`` independent releases of a value of L2 ``sensitivity`` with noise deviation ``sigma`` each.

    ``sigma`` and ``sensitivity`` share one unit. ``sigma = 0`` gives infinity (no privacy), unless nothing is revealed.
    """
    if not (sigma >= 0 and sensitivity >= 0) or math.isinf(sensitivity):
        raise ValueError(f"gaussian_mu: expected sigma >= 0 and finite sensitivity >= 0, got {sigma} and {sensitivity}")
    if releases < 0:
        raise ValueError(f"gaussian_mu: expected releases >= 0, got {releases}")
    if sensitivity == 0 or releases == 0:
        return 0.0
    return math.inf if sigma == 0 else sensitivity * math.sqrt(releases) / sigma


def compose_gaussian(mus: Iterable[float]) -> float:
    """μ of several Gaussian mechanisms run on the same input, chosen adaptively or not: √(Σμᵢ²).

    Exact, not a bound (Dong, Roth and Su 2022, corollary 3.3).
    """
    return math.hypot(*mus)


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """The smallest δ at which a μ-Gaussian mechanism is (ε, δ)-private: Φ(μ/2−ε/μ) − e^ε·Φ(−μ/2−ε/μ).

    ``epsilon`` may be any real number, negative ones too. Balle and Wang 2018, theorem 8; Dong, Roth and Su 2022,
    corollary 2.13. Relative error below 1e-9 for δ down to 1e-300.
    """
    if math.isnan(epsilon) or not mu >= 0:
        raise ValueError(f"delta_of_gaussian: expected a number epsilon and mu >= 0, got {epsilon} and {mu}")
    return math.exp(log_delta_of_gaussian(epsilon, mu))


def log_delta_of_gaussian(epsilon: float, mu: float) -> float:
    """ln of :func:`delta_of_gaussian`; ``-inf`` where δ is zero."""
    if mu == 0 or epsilon == math.inf:
        return math.log(-math.expm1(epsilon)) if epsilon < 0 else -math.inf
    if mu == math.inf or epsilon == -math.inf:
        return 0.0
    return _log_delta_at(epsilon / mu - mu / 2, mu)


def _log_delta_at(low: float, mu: float) -> float:
    """ln δ at ε = μ·(low + μ/2).

    With high = low + μ, e^ε·φ(high) = φ(low): both terms of δ share a factor, so that nothing overflows and only
    Mills ratios are subtracted.
    """
    high = low + mu
    if low >= 0:
        gap = _mills(low) - _mills(high)
        return math.log(gap) - low * low / 2 - _LOG_ROOT_TWO_PI if gap > 0 else -math.inf
    if high >= 0:
        second = math.exp(-low * low / 2 - _LOG_ROOT_TWO_PI) * _mills(high)
    else:
        second = math.exp(mu * (low + mu / 2)) * float(ndtr(-high))
    delta = float(ndtr(-low)) - second
    return math.log(delta) if delta > 0 else -math.inf


def _mills(t: float) -> float:
    """Φ(−t)/φ(t), without underflow for t ≥ 0."""
    return math.sqrt(math.pi / 2) * float(erfcx(t / math.sqrt(2)))


def epsilon_of_gaussian(mu: float, delta: float) -> float:
    """The smallest ε ≥ 0 at which a μ-Gaussian mechanism is (ε, δ)-private; infinite where there is none."""
    _check_delta("epsilon_of_gaussian", delta)
    if not mu >= 0:
        raise ValueError(f"epsilon_of_gaussian: expected mu >= 0, got {mu}")
    if mu == 0 or delta == 1:
        return 0.0
    if mu == math.inf or delta == 0:
        return math.inf
    log_delta = math.log(delta)
    if log_delta_of_gaussian(0.0, mu) <= log_delta:
        return 0.0
    # Searched as ε = μ·(low + μ/2); at this high end the bound of zero-concentrated privacy (Bun and Steinke 2016)
    # holds, which is never below the exact value. At the low end δ is that of ε = 0, or rounds to 1.
    high = math.sqrt(-2 * log_delta)
    low = max(-mu / 2, -40.0)
    root = float(brentq(lambda x: _finite(_log_delta_at(x, mu)) - log_delta, low, high, xtol=1e-16, rtol=1e-15))
    return max(0.0, mu * (root + mu / 2))


def analytic_gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The smallest noise deviation that makes one release (ε, δ)-private; in the unit of ``sensitivity``.

    The analytic Gaussian mechanism (Balle and Wang 2018, algorithm 1), solved in the log domain: correct on both
    sides of δ₀ and for tiny ε and δ, where bisection with absolute tolerances adds too little noise. Relative error
    below 1e-9 for ε from 1e-4 to 100 and δ from 1e-15 to 0.5, rounded up. ``delta = 0`` gives infinity.
    """
    _check_delta("analytic_gaussian_sigma", delta)
    if not epsilon >= 0 or not 0 <= sensitivity < math.inf:
        raise ValueError(
            f"analytic_gaussian_sigma: expected epsilon >= 0 and finite sensitivity >= 0, got {epsilon}, {sensitivity}"
        )
    if sensitivity == 0 or epsilon == math.inf or delta == 1:
        return 0.0
    return math.inf if delta == 0 else sensitivity / gaussian_mu_for(epsilon, delta) * _ROUND_UP


def gaussian_mu_for(epsilon: float, delta: float) -> float:
    """The largest μ that is (ε, δ)-private, for finite ε ≥ 0 and 0 < δ < 1: the bound B of DP-Forward's theorem 6."""
    if epsilon == 0:
        return 2 * math.sqrt(2) * float(erfinv(delta))
    log_delta = math.log(delta)
    low = 2 * epsilon / (math.sqrt(2 * (epsilon - log_delta)) + math.sqrt(-2 * log_delta))
    high = 2 * low

    def gap(mu: float) -> float:
        return _finite(log_delta_of_gaussian(epsilon, mu)) - log_delta

    while gap(high) < 0:
        low, high = high, 2 * high
    return float(brentq(gap, low, high, xtol=1e-15 * low, rtol=1e-15))


def _finite(log_value: float) -> float:
    # A finite stand-in for ln 0 keeps the root finder's secant steps defined.
    return max(log_value, -1e6)


def classic_gaussian_sigma(epsilon: float, delta: float, sensitivity: float, *, beyond_theorem: bool = False) -> float:
    """σ = Δ·√(2·ln(1.25/δ))/ε (Dwork and Roth 2014, theorem A.1), which is proven only for ε < 1.

    Above that it is refused unless ``beyond_theorem``; it then under-noises from some ε on (at ε = 20, δ = 1e-10 the
    true ε is 22.4), so state the ε that :func:`epsilon_of_gaussian` gives, not the nominal one.
    """
    if not (epsilon > 0 and 0 < delta < 1 and 0 <= sensitivity < math.inf):
        raise ValueError(
            "classic_gaussian_sigma: expected epsilon > 0, 0 < delta < 1 and finite sensitivity >= 0, "
            f"got {epsilon}, {delta}, {sensitivity}"
        )
    if epsilon >= 1 and not beyond_theorem:
        raise ValueError(
            f"classic_gaussian_sigma: the theorem needs epsilon < 1, got {epsilon}; use analytic_gaussian_sigma, or "
            "pass beyond_theorem=True to reproduce a paper's baseline and state its true epsilon"
        )
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def _check_delta(where: str, delta: float) -> None:
    if not 0 <= delta <= 1:
        raise ValueError(f"{where}: expected 0 <= delta <= 1, got {delta}")
