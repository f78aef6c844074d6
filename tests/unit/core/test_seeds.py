"""Random streams: unrelated for different names, and for noise all different however many there are."""

from __future__ import annotations

import numpy as np
import torch

from dpeval.seeds import generator, noise_generator, rng


def test_torch_seeds_that_differ_in_high_bits_give_one_stream():
    """The reason for ``noise_generator``: should this ever fail, plain seeding is good enough again."""
    one, other = (torch.Generator().manual_seed(seed) for seed in (5, 5 + (1 << 32)))
    assert torch.equal(torch.randn(8, generator=one), torch.randn(8, generator=other))


def test_noise_generators_are_told_apart_by_more_than_32_bits():
    one, other = (noise_generator(np.random.default_rng(seed)) for seed in (5, 5 + (1 << 32)))
    assert not torch.equal(torch.randn(8, generator=one), torch.randn(8, generator=other))


def test_a_noise_generator_is_a_mersenne_twister_of_the_drawn_words():
    """Oracle: numpy's own, from the same words; torch reads 64-bit integers as two of 32 bits, high before low."""
    words = rng(0, "a").integers(1 << 32, size=624, dtype=np.int64).astype(np.uint32)
    oracle = np.random.RandomState(0)
    oracle.set_state(("MT19937", words, 624, 0, 0.0))
    expected = [int(oracle.randint(0, 1 << 32, size=2, dtype=np.uint32)[1]) for _ in range(50)]
    drawn = torch.randint(0, 1 << 32, (50,), generator=noise_generator(rng(0, "a")), dtype=torch.int64)
    assert drawn.tolist() == expected


def test_noise_is_standard_normal_and_unrelated_between_names():
    noise = torch.stack([torch.randn(2000, generator=noise_generator(rng(0, "noise", i))) for i in range(100)])
    z = noise.double().numpy()
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / z.size)
    related = np.corrcoef(z)[np.triu_indices(100, 1)]
    assert np.abs(related).max() < 6 / np.sqrt(2000)
    assert abs((related**2).mean() * 2000 - 1) < 0.15


def test_a_generator_repeats_for_the_same_names():
    for make in (generator, lambda root, *names: noise_generator(rng(root, *names))):
        again = [torch.randn(4, generator=make(3, "x", 1)) for _ in range(2)]
        assert torch.equal(*again)
