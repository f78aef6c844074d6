"""Guessing how many rows of a padded release hold text."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval_attacks.inversion.lengths import RowEnergies, fit_lengths, row_energies

ROWS, WIDTH = 24, 32


def texts(sigma, *, normalised, n=80, seed=0, low=4, high=15):
    """Padded texts of unit token rows, scaled to one norm or not, plus noise."""
    rng = np.random.default_rng(seed)
    out = []
    for length in rng.integers(low, high, n):
        rows = np.zeros((ROWS, WIDTH))
        rows[:length] = rng.standard_normal((length, WIDTH)) / np.sqrt(WIDTH)
        if normalised:
            rows /= np.linalg.norm(rows)
        out.append(RowEnergies(rows + sigma * rng.standard_normal(rows.shape), int(length)))
    return out


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("sigma", [0.0, 1e-4, 0.01])
def test_lengths_are_found_where_noise_is_small(normalised, sigma):
    model = fit_lengths(texts(sigma, normalised=normalised))
    assert model.shared == normalised
    fresh = texts(sigma, normalised=normalised, seed=1)
    assert [model.guess(text.energies) for text in fresh] == [text.length for text in fresh]


def test_a_shared_norm_weakens_the_rows_of_longer_texts():
    model = fit_lengths(texts(0.0, normalised=True))
    assert model.gain(16) == pytest.approx(model.gain(4) / 2)
    assert fit_lengths(texts(0.0, normalised=False)).gain(16) == 1.0


def test_under_overwhelming_noise_the_guess_is_a_common_length():
    seen = texts(1e3, normalised=True, low=8, high=11)
    model = fit_lengths(seen)
    guesses = [model.guess(text.energies) for text in texts(1e3, normalised=True, low=8, high=11, seed=1)]
    assert np.mean([7 <= guess <= 11 for guess in guesses]) > 0.9


def test_energies_are_squared_norms_in_float64():
    big = np.full((2, 3), 1e30, dtype=np.float32)
    assert row_energies(big).tolist() == pytest.approx([3e60, 3e60], rel=1e-6)
