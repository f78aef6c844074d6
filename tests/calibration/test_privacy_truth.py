"""The accountants against the mechanisms themselves: simulate both neighbours, measure δ at the ε that was reported.

For samples x of the first neighbour with log-likelihood ratio L, the mean of (1 − e^{ε−L})₊ is exactly δ(ε).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeval.privacy.gaussian import analytic_gaussian_sigma, epsilon_of_gaussian, gaussian_mu
from dpeval.privacy.matrix_gaussian import MatrixNoise
from dpeval.privacy.sampled import FixedSizeGaussian, SampledGaussian, ShuffledGaussian, epsilon
from dpeval.types import Adjacency, Floats

DELTA = 1e-2
DRAWS = 200_000


def log_mixture(x: Floats, rate: float, shift: float, sigma: float) -> Floats:
    """ln of the density of (1 − q)·N(0, σ²) + q·N(shift, σ²), up to a constant."""
    other = math.log(rate) - (x - shift) ** 2 / (2 * sigma**2)
    return np.logaddexp(math.log1p(-rate) - x**2 / (2 * sigma**2), other)


def losses(rate: float, sigma: float, steps: int, first: float, second: float, seed: int) -> Floats:
    """L of ``DRAWS`` runs whose sampled record shifts each step by ``first``, against one that shifts by ``second``."""
    rng, total = np.random.default_rng(seed), np.zeros(DRAWS)
    for _ in range(steps):
        x = rng.normal(0, sigma, DRAWS) + first * (rng.random(DRAWS) < rate)
        total += log_mixture(x, rate, first, sigma) - log_mixture(x, rate, second, sigma)
    return total


def measured_delta(loss: Floats, at: float) -> tuple[float, float]:
    """δ(ε) and its standard error."""
    terms = np.maximum(0.0, -np.expm1(np.minimum(at - loss, 0.0)))
    return float(terms.mean()), float(terms.std() / math.sqrt(len(terms)))


@pytest.mark.parametrize(("adjacency", "second"), [(Adjacency.ADD_OR_REMOVE_ONE, 0.0), (Adjacency.REPLACE_ONE, -1.0)])
def test_pld_is_what_poisson_sampling_leaks(adjacency: Adjacency, second: float) -> None:
    """δ measured at PLD's ε is the δ asked for: neither violated nor wasted."""
    value = epsilon(SampledGaussian(1.0, 0.1, 12), DELTA, accountant="pld", adjacency=adjacency).value
    delta, error = measured_delta(losses(0.1, 1.0, 12, 1.0, second, seed=1), value)
    assert abs(delta - DELTA) < 4 * error
    assert error < 0.05 * DELTA


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE])
def test_rdp_is_never_violated(adjacency: Adjacency) -> None:
    """δ measured at RDP's larger ε stays below the δ asked for."""
    value = epsilon(SampledGaussian(1.0, 0.1, 12), DELTA, accountant="rdp", adjacency=adjacency).value
    second = 0.0 if adjacency is Adjacency.ADD_OR_REMOVE_ONE else -1.0
    delta, error = measured_delta(losses(0.1, 1.0, 12, 1.0, second, seed=2), value)
    assert delta < DELTA - 4 * error


def test_poisson_numbers_are_violated_by_fixed_size_batches() -> None:
    """D = (+C, −C, …) against (−C, −C, …): 2C apart in a known batch. Ours holds, Poisson's ε does not."""
    loss = losses(0.1, 1.0, 12, 2.0, 0.0, seed=3)
    poisson = epsilon(SampledGaussian(1.0, 0.1, 12), DELTA, accountant="rdp").value
    fixed = epsilon(
        FixedSizeGaussian(1.0, 100, 1000, 12), DELTA, accountant="rdp", adjacency=Adjacency.REPLACE_ONE
    ).value
    assert measured_delta(loss, poisson)[0] > 5 * DELTA
    assert measured_delta(loss, fixed)[0] <= DELTA


def test_shuffled_batches_keep_their_claim() -> None:
    """A record in one of ten batches of each pass, others at −C: the bound without amplification holds."""
    passes, batches, sigma, rng = 2, 10, 2.0, np.random.default_rng(4)
    total = np.zeros(DRAWS)
    for _ in range(passes):
        place = rng.integers(batches, size=DRAWS)
        x = rng.normal(0, sigma, (DRAWS, batches))
        x[np.arange(DRAWS), place] += 2.0
        ratios = (2 * 2.0 * x - 4.0) / (2 * sigma**2)
        total += np.log(np.exp(ratios).mean(1))
    value = epsilon(ShuffledGaussian(sigma, passes), DELTA, accountant="pld", adjacency=Adjacency.REPLACE_ONE).value
    assert measured_delta(total, value)[0] <= DELTA


def test_matrix_noise_leaks_its_delta_at_the_worst_pair() -> None:
    """Two inputs 2C apart along the weakest direction, composed over two releases: exactly (ε, δ)."""
    rng = np.random.default_rng(5)
    bases = [np.linalg.qr(rng.standard_normal((k, k)))[0] for k in (3, 2)]
    weakest = analytic_gaussian_sigma(2.0, DELTA, 2.0)
    noise = MatrixNoise.from_singular_values([2 * weakest, weakest, 3 * weakest], [1.0, 1.5], *bases)
    difference = 2.0 * np.outer(bases[0][:, 1], bases[1][:, 0])
    value = epsilon_of_gaussian(gaussian_mu(weakest, 2.0, releases=2), DELTA)
    whiten = [np.linalg.inv(f) for f in (noise.left, noise.right)]
    shift = whiten[0] @ difference @ whiten[1].T
    total = np.zeros(DRAWS)
    for release in range(2):
        z = np.random.default_rng(release).standard_normal((DRAWS, 3, 2))
        draws = np.einsum("ij,njk,lk->nil", noise.left, z, noise.right)
        white = np.einsum("ij,njk,lk->nil", whiten[0], draws, whiten[1])
        total += np.einsum("nij,ij->n", white, shift) + (shift**2).sum() / 2
    delta, error = measured_delta(total, value)
    assert abs(delta - DELTA) < 4 * error
