"""The exact Gaussian mechanism against high-precision arithmetic, another library, and its own algebra."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeval.privacy.gaussian import (
    analytic_gaussian_sigma,
    classic_gaussian_sigma,
    compose_gaussian,
    delta_of_gaussian,
    epsilon_of_gaussian,
    gaussian_mu,
    log_delta_of_gaussian,
)

EPSILONS = (1e-4, 1e-3, 0.03, 0.5, 1.0, 3.0, 8.0, 20.0, 100.0)
DELTAS = (1e-15, 1e-12, 1e-9, 1e-5, 1e-2, 0.1, 0.3, 0.5)

epsilons = st.floats(1e-4, 100)
deltas = st.floats(-15, math.log10(0.5)).map(lambda x: 10**x)
mus = st.floats(1e-3, 20)


def slow_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """The textbook formula with 60 digits."""
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def slow_sigma(epsilon: float, delta: float) -> float:
    """Root of the textbook formula with 60 digits."""
    with mpmath.workdps(60):
        start = 1 / mpmath.mpf(analytic_gaussian_sigma(epsilon, delta))
        goal = mpmath.log(mpmath.mpf(delta))
        mu = mpmath.findroot(lambda m: mpmath.log(slow_delta(epsilon, m)) - goal, (start, start * (1 + 1e-6)))
        return float(1 / mu)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_sigma_to_nine_digits_over_the_whole_range(epsilon: float, delta: float) -> None:
    """The analytic Gaussian σ against 60-digit arithmetic; never below it."""
    got, exact = analytic_gaussian_sigma(epsilon, delta), slow_sigma(epsilon, delta)
    assert exact * (1 - 1e-12) <= got <= exact * (1 + 1e-9)


@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("epsilon", [-30.0, -1.0, -1e-3, 0.0, 1e-4, 0.1, 1.0, 10.0, 700.0])
def test_delta_for_any_real_epsilon(epsilon: float, mu: float) -> None:
    """δ against 60-digit arithmetic, negative ε and the deep tail included."""
    exact = slow_delta(epsilon, mu)
    assert log_delta_of_gaussian(epsilon, mu) == pytest.approx(float(mpmath.log(exact)), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-9), (1.0, 1e-5), (1.0, 0.3), (50.0, 1e-6)])
def test_agrees_with_dp_accounting(epsilon: float, delta: float) -> None:
    """σ and ε against an independent implementation."""
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian, get_sigma_gaussian

    sigma = get_sigma_gaussian(epsilon, delta)
    assert analytic_gaussian_sigma(epsilon, delta) == pytest.approx(sigma, rel=1e-9)
    assert epsilon_of_gaussian(1 / sigma, delta) == pytest.approx(get_epsilon_gaussian(sigma, delta), rel=1e-8)


@given(epsilons, deltas)
@settings(max_examples=150, deadline=None)
def test_epsilon_inverts_sigma_and_never_exceeds_it(epsilon: float, delta: float) -> None:
    """The ε recomputed from the calibrated σ is the target, from below."""
    again = epsilon_of_gaussian(gaussian_mu(analytic_gaussian_sigma(epsilon, delta), 1.0), delta)
    assert epsilon * (1 - 1e-6) <= again <= epsilon


@given(mus, st.floats(0, 50), st.floats(0, 50))
@settings(max_examples=100, deadline=None)
def test_delta_falls_with_epsilon(mu: float, first: float, second: float) -> None:
    """A larger ε never needs a larger δ."""
    low, high = sorted((first, second))
    assert delta_of_gaussian(high, mu) <= delta_of_gaussian(low, mu) * (1 + 1e-9)


@given(mus, mus, deltas)
@settings(max_examples=100, deadline=None)
def test_composition_is_symmetric_and_grows(first: float, second: float, delta: float) -> None:
    """Order does not matter, and two releases cost at least what each costs."""
    both = compose_gaussian([first, second])
    assert both == compose_gaussian([second, first])
    assert epsilon_of_gaussian(both, delta) >= max(epsilon_of_gaussian(m, delta) for m in (first, second)) * (1 - 1e-9)


@pytest.mark.parametrize(("mu", "delta"), [(0.5, 1e-3), (1.0, 0.1), (3.0, 1e-2)])
def test_delta_is_the_hockey_stick_divergence(mu: float, delta: float) -> None:
    """δ(ε) against its definition: the integral of (p − e^ε·q)₊ on a fine grid."""
    epsilon = epsilon_of_gaussian(mu, delta)
    x = np.linspace(-12, 12 + mu, 2_000_001)
    p, q = (np.exp(-((x - centre) ** 2) / 2) / math.sqrt(2 * math.pi) for centre in (mu, 0.0))
    integral = float(np.clip(p - math.exp(epsilon) * q, 0, None).sum() * (x[1] - x[0]))
    assert integral == pytest.approx(delta, rel=1e-6)


def test_releases_compose_like_less_noise() -> None:
    """k releases with fresh noise equal one with σ/√k."""
    assert gaussian_mu(2.0, 1.0, releases=9) == pytest.approx(gaussian_mu(2.0 / 3.0, 1.0))


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (epsilon_of_gaussian(0.0, 1e-5), 0.0),
        (epsilon_of_gaussian(math.inf, 1e-5), math.inf),
        (epsilon_of_gaussian(1.0, 0.0), math.inf),
        (epsilon_of_gaussian(1.0, 1.0), 0.0),
        (epsilon_of_gaussian(0.01, 0.5), 0.0),
        (delta_of_gaussian(0.0, 0.0), 0.0),
        (delta_of_gaussian(math.inf, 3.0), 0.0),
        (delta_of_gaussian(1.0, math.inf), 1.0),
        (analytic_gaussian_sigma(1.0, 0.0), math.inf),
        (analytic_gaussian_sigma(1.0, 1.0), 0.0),
        (analytic_gaussian_sigma(math.inf, 1e-5), 0.0),
        (analytic_gaussian_sigma(1.0, 1e-5, 0.0), 0.0),
        (gaussian_mu(0.0, 1.0), math.inf),
        (gaussian_mu(0.0, 0.0), 0.0),
        (gaussian_mu(1.0, 1.0, releases=0), 0.0),
    ],
)
def test_limits(got: float, expected: float) -> None:
    """No noise, no sensitivity, δ at its ends."""
    assert got == expected


@pytest.mark.parametrize("mu", [1e3, 1e8, 1e100])
def test_hopelessly_little_noise_still_has_an_epsilon(mu: float) -> None:
    """ε of a huge μ is about μ²/2, not an error."""
    assert epsilon_of_gaussian(mu, 1e-5) == pytest.approx(mu * mu / 2, rel=0.02)


def test_epsilon_zero_is_total_variation() -> None:
    """At ε = 0, δ is the total variation distance 2Φ(μ/2) − 1."""
    sigma = analytic_gaussian_sigma(0.0, 1e-15)
    assert delta_of_gaussian(0.0, 1 / sigma) == pytest.approx(1e-15, rel=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: delta_of_gaussian(math.nan, 1.0),
        lambda: delta_of_gaussian(1.0, -1.0),
        lambda: epsilon_of_gaussian(-1.0, 1e-5),
        lambda: epsilon_of_gaussian(1.0, 1.5),
        lambda: analytic_gaussian_sigma(-1.0, 1e-5),
        lambda: analytic_gaussian_sigma(1.0, -1e-5),
        lambda: analytic_gaussian_sigma(1.0, 1e-5, math.inf),
        lambda: analytic_gaussian_sigma(math.nan, 1e-5),
        lambda: gaussian_mu(-1.0, 1.0),
        lambda: gaussian_mu(1.0, 1.0, releases=-1),
        lambda: classic_gaussian_sigma(0.0, 1e-5, 1.0),
        lambda: classic_gaussian_sigma(1.0, 1e-5, 1.0),
    ],
)
def test_nonsense_is_refused(call: object) -> None:
    """Out-of-range input says what was expected."""
    with pytest.raises(ValueError, match=r"expected|theorem"):
        call()  # type: ignore[operator]


def test_the_classic_formula_fails_beyond_its_theorem() -> None:
    """At ε = 20, δ = 1e-10 its noise really gives 22.4."""
    sigma = classic_gaussian_sigma(20.0, 1e-10, 1.0, beyond_theorem=True)
    assert epsilon_of_gaussian(1 / sigma, 1e-10) == pytest.approx(22.43, abs=0.01)
