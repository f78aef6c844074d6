"""The noise really added: Gaussian, of the right scale, never the same twice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from dpeval_defenses.dp_adam.noise import Noise, SecureNoise, SeededNoise

SOURCES = [SeededNoise(entropy=9), SecureNoise()]


@pytest.mark.parametrize("noise", SOURCES, ids=["seeded", "secure"])
def test_noise_is_standard_gaussian(noise: Noise) -> None:
    """200,000 draws pass Kolmogorov-Smirnov against N(0, 1), and have its variance and its tail."""
    values = noise.standard(0, 0, (400, 500)).double().numpy().ravel()
    assert stats.kstest(values, "norm").pvalue > 1e-4
    assert abs(values.var() - 1) < 5 * (2 / values.size) ** 0.5
    assert stats.binomtest(int((np.abs(values) > 3).sum()), values.size, 2 * stats.norm.sf(3)).pvalue > 1e-4
    assert np.isfinite(values).all()


@pytest.mark.parametrize("noise", SOURCES, ids=["seeded", "secure"])
def test_noise_is_independent_over_steps_and_parameters(noise: Noise) -> None:
    """No two of twenty (step, parameter) streams are correlated; nor do parameters of one shape repeat each other."""
    streams = [noise.standard(step, index, (20_000,)) for step in range(5) for index in range(4)]
    for a, b in itertools.combinations(streams, 2):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5.5 / 20_000**0.5
        assert not (a == b).any() or (a == b).float().mean() < 1e-3


def test_seeded_noise_depends_on_seed_step_and_parameter_alone() -> None:
    again = SeededNoise(9).standard(3, 1, (5, 4))
    assert torch.equal(again, SeededNoise(9).standard(3, 1, (5, 4)))
    others = [SeededNoise(8).standard(3, 1, (5, 4)), SeededNoise(9).standard(1, 3, (5, 4))]
    assert not any((again == other).any() for other in others)


def test_seeds_that_agree_in_their_low_32_bits_give_unrelated_noise() -> None:
    """All bits of the seed count: two runs whose seeds differ above bit 32 share nothing."""
    assert not (SeededNoise(5).standard(0, 0, (64,)) == SeededNoise(5 + 2**40).standard(0, 0, (64,))).any()


def test_secure_noise_is_fresh_at_every_call_and_says_so() -> None:
    assert not (SecureNoise().standard(0, 0, (64,)) == SecureNoise().standard(0, 0, (64,))).any()
    assert SecureNoise().repeatable is False
    assert SeededNoise(0).repeatable is True


@pytest.mark.parametrize("shape", [(), (1,), (0, 3)])
def test_any_shape_of_parameter_gets_noise(shape: tuple[int, ...]) -> None:
    for noise in SOURCES:
        assert noise.standard(0, 0, shape).shape == torch.Size(shape)
