"""Matrix noise: the condition against brute force, the MVG budget against high precision, the draw against its law."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeval.privacy.gaussian import delta_of_gaussian, gaussian_mu
from dpeval.privacy.matrix_gaussian import (
    MatrixNoise,
    amgm_bound,
    amgm_condition,
    mvg_budget,
    mvg_holds,
    mvg_iid_sigma,
)

GOLDEN_BOUNDS = {0.5: 0.142211, 1: 0.268051, 2: 0.501552, 4: 0.924931, 8: 1.666031, 16: 2.905478}


@pytest.mark.parametrize(("epsilon", "expected"), GOLDEN_BOUNDS.items())
def test_bound_at_the_usual_epsilons(epsilon: float, expected: float) -> None:
    """B(ε, 1e-5)."""
    assert amgm_bound(epsilon, 1e-5) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("epsilon", [1e-4, 1e-2, 0.3, 1.0, 8.0, 30.0, 100.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-10, 1e-5, 1e-2, 0.2, 0.5])
def test_bound_to_nine_digits_over_the_whole_range(epsilon: float, delta: float) -> None:
    """B(ε, δ) solves Φ(B/2 − ε/B) − e^ε·Φ(−B/2 − ε/B) = δ in 60-digit arithmetic."""
    got = amgm_bound(epsilon, delta)
    with mpmath.workdps(60):
        e, goal = mpmath.mpf(epsilon), mpmath.log(mpmath.mpf(delta))

        def gap(b: mpmath.mpf) -> mpmath.mpf:
            return mpmath.log(mpmath.ncdf(b / 2 - e / b) - mpmath.exp(e) * mpmath.ncdf(-b / 2 - e / b)) - goal

        exact = mpmath.findroot(gap, (mpmath.mpf(got), mpmath.mpf(got) * (1 + mpmath.mpf(10) ** -6)))
    assert got == pytest.approx(float(exact), rel=1e-9)


def worst_mu(noise: MatrixNoise, sensitivity: float) -> float:
    """The largest ‖U⁻¹ΔV⁻ᵀ‖_F over ‖Δ‖_F = S, from the whole Kronecker-structured covariance."""
    whitener = np.kron(np.linalg.inv(noise.left), np.linalg.inv(noise.right))
    return sensitivity * float(np.linalg.norm(whitener, ord=2))


@given(
    st.lists(st.floats(0.3, 4), min_size=2, max_size=3), st.lists(st.floats(0.3, 4), min_size=2, max_size=3),
    st.floats(0.5, 10), st.integers(0, 2**32),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_condition_is_necessary_and_sufficient(
    left: list[float], right: list[float], epsilon: float, seed: int
) -> None:
    """It holds exactly when the worst pair of inputs, found by brute force, satisfies (ε, δ)."""
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.standard_normal((len(v), len(v))))[0] for v in (left, right)]
    noise = MatrixNoise.from_singular_values(left, right, *bases)
    report = noise.check(epsilon, 1e-5, 1.0)
    mu = worst_mu(noise, 1.0)
    assert report.product == pytest.approx(1 / mu)
    assert report.holds == (delta_of_gaussian(epsilon, mu) <= 1e-5)


def test_condition_meets_its_own_bound() -> None:
    """Equal singular values at S₂/B are private; a hair less is not; the true ε is then the target."""
    sigma = 2.0 / amgm_bound(8.0, 1e-5) * (1 + 1e-10)
    assert amgm_condition([sigma] * 4, [1.0] * 3, 8.0, 1e-5, 2.0).holds
    report = amgm_condition([sigma * 0.999] * 4, [1.0] * 3, 8.0, 1e-5, 2.0)
    assert not report.holds
    assert report.epsilon == pytest.approx(8.0, rel=0.01)
    assert report.epsilon > 8.0


def test_a_direction_without_noise_is_not_private() -> None:
    """A zero singular value gives infinite ε, whatever the others."""
    report = amgm_condition([100.0, 0.0], [100.0], 8.0, 1e-5, 1.0)
    assert not report.holds
    assert report.epsilon == math.inf


def test_draw_has_the_covariance_of_its_factors() -> None:
    """Cov(vec Z) = UUᵀ ⊗ VVᵀ, mean zero."""
    rng = np.random.default_rng(0)
    bases = [np.linalg.qr(rng.standard_normal((k, k)))[0] for k in (2, 3)]
    noise = MatrixNoise.from_singular_values([2.0, 0.5], [1.0, 3.0, 0.2], *bases)
    draws = np.stack([noise.draw(rng).ravel() for _ in range(40_000)])
    expected = np.kron(noise.left @ noise.left.T, noise.right @ noise.right.T)
    error = np.cov(draws.T) - expected
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs(error / scale).max() < 5 * math.sqrt(2 / len(draws))
    assert np.abs(draws.mean(0) / np.sqrt(np.diag(expected))).max() < 5 / math.sqrt(len(draws))


def test_draw_is_reproducible_and_has_its_shape() -> None:
    """The generator decides; rows by columns."""
    noise = MatrixNoise.from_singular_values([1.0, 1.0], [1.0, 1.0, 1.0])
    first, second = (noise.draw(np.random.default_rng(7)) for _ in range(2))
    assert first.shape == (2, 3)
    assert np.array_equal(first, second)


def slow_mvg_sigma(rows: int, cols: int, gamma: float, s2: float, epsilon: float, delta: float) -> float:
    """The textbook subtraction, with 60 digits to survive it."""
    with mpmath.workdps(60):
        size, r = rows * cols, min(rows, cols)
        h1 = mpmath.fsum(mpmath.mpf(1) / i for i in range(1, r + 1))
        h2 = mpmath.fsum(1 / mpmath.sqrt(i) for i in range(1, r + 1))
        log = mpmath.log(mpmath.mpf(delta))
        zeta = 2 * mpmath.sqrt(-size * log) - 2 * log + size
        alpha = (h1 + h2) * mpmath.mpf(gamma) ** 2 + 2 * h1 * gamma * s2
        beta = 2 * mpmath.mpf(size) ** 0.25 * zeta * h1 * s2
        budget = (-beta + mpmath.sqrt(beta**2 + 8 * alpha * epsilon)) ** 2 / (4 * alpha**2)
        return float(mpmath.sqrt(mpmath.sqrt(size) / budget))


@pytest.mark.parametrize(
    ("rows", "cols", "s2", "epsilon"),
    [(1, 768, 1.0, 8.0), (128, 768, 2.0, 8.0), (512, 768, 1.0, 1.0), (3, 2, 1.0, 0.1)],
)
def test_mvg_does_not_cancel(rows: int, cols: int, s2: float, epsilon: float) -> None:
    """σ to 1e-12, where the textbook form in doubles is 0.7 % off on the unsafe side."""
    got = mvg_iid_sigma(rows, cols, gamma=1.0, sensitivity=s2, epsilon=epsilon, delta=1e-5)
    assert got == pytest.approx(slow_mvg_sigma(rows, cols, 1.0, s2, epsilon, 1e-5), rel=1e-12)


def test_mvg_condition_is_spent_by_its_own_sigma() -> None:
    """Independent noise of the budget's σ just satisfies the condition; less does not."""
    budget = mvg_budget(3, 4, gamma=1.0, sensitivity=2.0, epsilon=8.0, delta=1e-5)
    variance = budget.iid_sigma**2
    assert mvg_holds(budget, [variance * (1 + 1e-9)] * 3, [1.0] * 4)
    assert not mvg_holds(budget, [variance * 0.999] * 3, [1.0] * 4)


def test_mvg_is_never_below_the_exact_mechanism() -> None:
    """Its condition is only sufficient: the exact ε of its noise is far below the nominal one."""
    sigma = mvg_iid_sigma(4, 8, gamma=1.0, sensitivity=2.0, epsilon=8.0, delta=1e-5)
    assert delta_of_gaussian(8.0, gaussian_mu(sigma, 2.0)) < 1e-5


@pytest.mark.parametrize(
    "call",
    [
        lambda: amgm_bound(-1.0, 1e-5),
        lambda: amgm_bound(1.0, 0.0),
        lambda: amgm_condition([], [1.0], 1.0, 1e-5, 1.0),
        lambda: amgm_condition([-1.0], [1.0], 1.0, 1e-5, 1.0),
        lambda: MatrixNoise(np.ones((2, 3)), np.eye(2)),
        lambda: MatrixNoise.from_singular_values([-1.0], [1.0]),
        lambda: MatrixNoise.from_singular_values([1.0, 1.0], [1.0], np.ones((2, 2))),
        lambda: mvg_budget(0, 1, gamma=1.0, sensitivity=1.0, epsilon=1.0, delta=1e-5),
        lambda: mvg_budget(1, 1, gamma=1.0, sensitivity=1.0, epsilon=1.0, delta=0.0),
        lambda: mvg_holds(mvg_budget(1, 1, gamma=1.0, sensitivity=1.0, epsilon=1.0, delta=1e-5), [0.0], [1.0]),
    ],
)
def test_nonsense_is_refused(call: object) -> None:
    """Out-of-range input says what was expected."""
    with pytest.raises(ValueError, match="expected"):
        call()  # type: ignore[operator]
