"""Numerical composition against the exact ε, found by inverting the transform of the privacy loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp

from dpeval.privacy.loss_distribution import pld_epsilon
from dpeval.privacy.mechanisms import SampledGaussian
from dpeval.types import Adjacency, Floats


class Exact:
    """δ(ε) = (1/2πi) ∫ e^{T·K(s) − s·ε}/(s(s+1)) ds along Re s = c, K the log moment of one step's loss."""

    def __init__(self, log_p: Floats, log_q: Floats, width: float, steps: int) -> None:
        self.log_mass = log_p + math.log(width)
        self.loss = log_p - log_q
        self.steps = steps

    def cumulant(self, s: complex) -> complex:
        return complex(logsumexp(s * self.loss + self.log_mass))

    def delta(self, epsilon: float) -> float:
        def height(c: float) -> float:
            return self.steps * self.cumulant(c).real - c * epsilon - math.log(c * (c + 1))

        c = float(minimize_scalar(height, bounds=(1e-3, 200), method="bounded").x)
        bend = (height(c * 1.01) - 2 * height(c) + height(c * 0.99)) / (0.01 * c) ** 2
        t = np.linspace(0, 9 / math.sqrt(bend), 150)
        values = np.array([np.exp(self.steps * self.cumulant(s) - s * epsilon) / (s * (s + 1)) for s in c + 1j * t])
        return float(np.trapezoid(values.real, t) / math.pi)

    def epsilon(self, delta: float) -> float:
        return float(brentq(lambda e: math.log(max(self.delta(e), 1e-300) / delta), 0.0, 60.0, xtol=1e-8))


def exact_epsilon(run: SampledGaussian, delta: float, adjacency: Adjacency) -> float:
    """The larger ε of the two directions."""
    sigma, rate = run.noise_multiplier, run.sampling_rate
    x = np.linspace(-9 * sigma - 1, 9 * sigma + 1, 900)

    def log_mixture(shift: float) -> Floats:
        log_density = np.logaddexp(
            math.log1p(-rate) - x**2 / (2 * sigma**2), math.log(rate) - (x - shift) ** 2 / (2 * sigma**2)
        )
        return np.asarray(log_density - math.log(sigma * math.sqrt(2 * math.pi)))

    first = log_mixture(1.0)
    second = log_mixture(-1.0 if adjacency is Adjacency.REPLACE_ONE else 0.0)
    width, steps = float(x[1] - x[0]), run.steps
    return max(Exact(p, q, width, steps).epsilon(delta) for p, q in ((first, second), (second, first)))


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE])
@pytest.mark.parametrize(
    ("run", "delta"),
    [
        (SampledGaussian(1.0, 0.05, 300), 1e-5),
        (SampledGaussian(3.0, 0.3, 50), 1e-9),
        (SampledGaussian(8.0, 0.02, 2000), 2e-9),
    ],
)
def test_upper_bound_close_to_the_exact_value(run: SampledGaussian, delta: float, adjacency: Adjacency) -> None:
    """Never below the exact ε beyond its own precision, and within 0.1 % above; down to the smallest δ allowed."""
    exact = exact_epsilon(run, delta, adjacency)
    got, _ = pld_epsilon(run, delta, adjacency)
    assert exact * (1 - 1e-6) <= got <= exact * 1.001


def test_the_exact_value_is_exact() -> None:
    """The oracle itself, against a stored high-precision value of another implementation."""
    run = SampledGaussian(0.9, 0.01558149089304463, 1950)
    assert exact_epsilon(run, 1e-5, Adjacency.ADD_OR_REMOVE_ONE) == pytest.approx(5.199554411677596, rel=1e-6)
