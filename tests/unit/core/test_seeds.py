"""Random streams: unrelated for other names, all different however many there are, the same when asked again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpeval.seeds import derive, generator, rng


def test_torch_seeds_that_differ_in_high_bits_give_one_stream():
    """Why ``generator`` sets the whole state: should this ever fail, plain seeding is good enough again."""
    one, other = (torch.Generator().manual_seed(seed) for seed in (5, 5 + (1 << 32)))
    assert torch.equal(torch.randn(8, generator=one), torch.randn(8, generator=other))


def test_generators_are_told_apart_by_more_than_32_bits(monkeypatch):
    made = []
    for seed in (5, 5 + (1 << 32)):
        monkeypatch.setattr("dpeval.seeds.derive", lambda root, *names, seed=seed: seed)
        made.append(torch.randn(8, generator=generator(0)))
    assert not torch.equal(*made)


def test_a_generator_is_a_mersenne_twister_of_the_drawn_words():
    """Oracle: numpy's own, from the same words; torch reads 64-bit integers as two of 32 bits, high before low."""
    words = rng(0, "a").integers(1 << 32, size=624, dtype=np.int64).astype(np.uint32)
    oracle = np.random.RandomState(0)
    oracle.set_state(("MT19937", words, 624, 0, 0.0))
    expected = [int(oracle.randint(0, 1 << 32, size=2, dtype=np.uint32)[1]) for _ in range(50)]
    assert torch.randint(0, 1 << 32, (50,), generator=generator(0, "a"), dtype=torch.int64).tolist() == expected


def test_a_torch_with_another_state_is_refused(monkeypatch):
    monkeypatch.setattr("dpeval.seeds._STATE_BYTES", 16)
    with pytest.raises(RuntimeError, match="expected a torch generator's state of 16 bytes, got 5056"):
        generator(0, "a")


def test_noise_is_standard_normal_and_unrelated_between_names():
    noise = torch.stack([torch.randn(2000, generator=generator(0, "noise", i)) for i in range(100)])
    z = noise.double().numpy()
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / z.size)
    related = np.corrcoef(z)[np.triu_indices(100, 1)]
    assert np.abs(related).max() < 6 / np.sqrt(2000)
    assert abs((related**2).mean() * 2000 - 1) < 0.15


def test_a_generator_repeats_for_the_same_names():
    again = [torch.randn(4, generator=generator(3, "x", 1)) for _ in range(2)]
    assert torch.equal(*again)


@pytest.mark.parametrize(
    ("names", "others"),
    [
        (("a", "b"), ("a\x1fstr:b",)),
        (("a\x1f",), ("a\x1es",)),
        (("a\x1e", "b"), ("a", "\x1eb")),
        ((1,), ("1",)),
    ],
)
def test_no_two_paths_of_names_are_one_stream(names, others):
    """Names may be texts of the data, with any character in them."""
    assert derive(0, *names) != derive(0, *others)


def test_ordinary_names_keep_their_streams():
    """The seeds that stored results and published reports came from."""
    assert derive(0, "split") == 882264112473030364
