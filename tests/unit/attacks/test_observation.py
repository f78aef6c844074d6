"""The fitted picture of a release, against least squares and densities written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dpeval_attacks.inversion.observation import SHRINKAGE, Sample, Whitening, fit_picture, log_frequencies
from dpeval_attacks.inversion.reader import Reader

V, D, E, POSITIONS = 30, 6, 5, 4


def made(seed=0, n=2000, noise=0.1, gains=None):
    """A world in which the picture is exactly right: rows from a linear map, a position shift and correlated noise."""
    rng = np.random.default_rng(seed)
    table, mix, shift = rng.standard_normal((V, E)), rng.standard_normal((E, D)), rng.standard_normal((POSITIONS, D))
    tokens, positions = rng.integers(0, V, n), rng.integers(0, POSITIONS, n)
    gains = np.ones(n) if gains is None else rng.choice(gains, n)
    scatter = np.diag(np.linspace(0.2, 2, D)) @ (np.eye(D) + 0.3)
    clear = table @ mix
    rows = gains[:, None] * (clear[tokens] + shift[positions]) + noise * rng.standard_normal((n, D)) @ scatter
    return Sample(rows, tokens, positions, gains), table, clear, shift


@pytest.mark.parametrize("gains", [None, (0.5, 1.0, 2.0)])
def test_a_true_picture_is_found(gains):
    sample, table, clear, shift = made(gains=gains, noise=1e-3)
    picture = fit_picture(sample, table, ridge=1e-8)
    expected = picture.means[:, None] + picture.offset(np.arange(POSITIONS))
    np.testing.assert_allclose(expected, clear[:, None] + shift, atol=0.02)


def test_the_fit_is_penalised_least_squares(monkeypatch):
    """Against a solver on the stacked system: word weights at ridge times the weight, a position at one mean row."""
    monkeypatch.setattr("dpeval_attacks.inversion.observation._CHUNK", 333)
    sample, table, _, _ = made(gains=(0.5, 2.0), noise=1.0, n=500)
    used = table[sample.tokens]
    words = (table - used.mean(axis=0)) / used.std()
    squares = sample.gains**2
    centre = sample.gains @ sample.rows / squares.sum()
    design = sample.gains[:, None] * np.hstack([words[sample.tokens], np.eye(POSITIONS)[sample.positions]])
    penalty = np.concatenate([np.full(E, 0.3 * squares.sum()), np.full(POSITIONS, squares.mean())])
    stacked = np.vstack([design, np.diag(np.sqrt(penalty))])
    wanted = np.vstack([sample.rows - sample.gains[:, None] * centre, np.zeros((len(penalty), D))])
    solved = np.linalg.lstsq(stacked, wanted, rcond=None)[0]
    picture = fit_picture(sample, table, ridge=0.3)
    np.testing.assert_allclose(picture.means, words @ solved[:E], atol=2e-6)  # single precision
    np.testing.assert_allclose(picture.offset(np.arange(POSITIONS)), centre + solved[E:], atol=1e-9)


def test_a_position_never_seen_gets_the_mean_of_all():
    sample, table, _, _ = made()
    picture = fit_picture(sample, table, ridge=0.1)
    np.testing.assert_allclose(picture.offset(np.array([POSITIONS, 99])), np.tile(sample.rows.mean(axis=0), (2, 1)))


def test_fewer_rows_than_columns_is_solvable():
    sample, table, _, _ = made(n=3)
    assert np.isfinite(fit_picture(sample, table, ridge=0.0).means).all()


def test_nothing_to_learn_from_is_refused():
    sample, table, _, _ = made(n=3)
    with pytest.raises(ValueError, match="nothing to learn the release from"):
        fit_picture(sample.where(np.zeros(3, dtype=bool)), table, ridge=1.0)


def test_a_public_picture_is_rescaled_to_the_release():
    sample, table, _, _ = made(noise=1e-3)
    public = fit_picture(sample, table, ridge=1e-8)
    shrunk = Sample(sample.rows * 0.05, sample.tokens, sample.positions, sample.gains)
    np.testing.assert_allclose(public.scaled_to(shrunk).means, public.means * 0.05, rtol=1e-3)


def test_whitened_noise_has_unit_covariance_up_to_the_shrinkage():
    sample, table, _, _ = made(n=20000, noise=1.0)
    picture = fit_picture(sample, table, ridge=1e-6)
    matrix = Whitening.of(picture, sample).matrix
    left = sample.rows - picture.expected(sample)
    scatter = left.T @ left / len(left)
    shrunk = (1 - SHRINKAGE) * scatter + SHRINKAGE * np.trace(scatter) / D * np.eye(D)
    np.testing.assert_allclose(matrix.T @ shrunk @ matrix, np.eye(D), atol=1e-8)


def test_rows_without_any_scatter_still_whiten():
    table = np.eye(4)
    sample = Sample(np.zeros((8, 4)), np.arange(8) % 4, np.zeros(8, dtype=np.int64), np.ones(8))
    assert np.isfinite(Whitening.of(fit_picture(sample, table, ridge=1.0), sample).matrix).all()


def test_the_reader_answers_the_most_probable_token():
    """Against the Gaussian density of scipy, for rows of several gains, with the token frequencies as prior."""
    sample, table, _, _ = made(noise=1.5, gains=(0.5, 1.0), n=400)
    prior = log_frequencies(np.minimum(sample.tokens, 9), V)
    allowed = np.arange(2, V)
    reader = Reader.of(fit_picture(sample, table, ridge=0.1), sample, allowed=allowed, metric="l2", log_prior=prior)
    matrix = reader.whitening.matrix
    noise = multivariate_normal(np.zeros(D), np.linalg.inv(matrix @ matrix.T))
    means = reader.picture.means[None, allowed] + reader.picture.offset(sample.positions)[:, None]
    posterior = noise.logpdf(sample.rows[:, None] - sample.gains[:, None, None] * means) + prior[allowed]
    assert np.array_equal(reader.read(sample), allowed[np.argmax(posterior, axis=1)])
    assert reader.accuracy(sample) == np.mean(reader.read(sample) == sample.tokens)


def test_frequencies_are_smoothed_shares():
    shares = np.exp(log_frequencies(np.array([1, 1, 3]), 5))
    assert shares.sum() == pytest.approx(1)
    assert shares[1] > shares[3] > shares[0] == shares[2] > 0
