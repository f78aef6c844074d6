"""How a released row comes about: a linear picture of the token's word embedding and position, plus noise.

The adversary fits, on texts of its own, ``row ≈ gain · (A·w_token + b_position) + noise`` with Gaussian noise of any
covariance, context of the other tokens included. A token is then read off a row by its likelihood (linear discriminant
analysis, Fisher 1936, with class means bound to the public word-embedding table). This beats regressing the word
embedding on the row by far wherever the row is noisy or deep, since a regression shrinks towards the mean token.

>>> rng = np.random.default_rng(0)
>>> table = rng.standard_normal((5, 3))
>>> tokens = rng.integers(0, 5, 200)
>>> sample = Sample(rows=2 * table[tokens], tokens=tokens, positions=np.zeros(200, int), gains=np.ones(200))
>>> picture = fit_picture(sample, table, ridge=0.0)
>>> bool(np.allclose(picture.means + picture.offset(np.array([0])), 2 * table))
True
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from dpeval.types import Floats, Ints, Rows

SHRINKAGE = 0.1
"""Share of the noise covariance replaced by its isotropic part; results are flat between 0.02 and 0.3."""
_POSITION_PENALTY = 1.0
"""Rows that speak for the position-free mean; a position seen as often as this lies half way."""
_LEAST_RIDGE = 1e-9
"""Keeps the equations solvable where the auxiliary texts have fewer distinct tokens than the table has columns."""
_CHUNK = 8192


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of known tokens: ``rows`` (n, d); ``tokens``, ``positions`` and ``gains`` (n,)."""

    rows: NDArray[np.floating]
    tokens: Ints
    positions: Ints
    gains: Floats

    def __len__(self) -> int:
        return len(self.tokens)

    def where(self, keep: NDArray[np.bool_]) -> Sample:
        """The rows that ``keep`` marks."""
        return Sample(self.rows[keep], self.tokens[keep], self.positions[keep], self.gains[keep])

    def chunks(self) -> Iterator[Sample]:
        """The sample in parts, in float64."""
        for start in range(0, len(self), _CHUNK):
            at = slice(start, start + _CHUNK)
            yield Sample(self.rows[at].astype(np.float64), self.tokens[at], self.positions[at], self.gains[at])


@dataclass(frozen=True, eq=False)
class Picture:
    """Where each token's row is expected at gain one: ``means[token] + offset(position)``, both of width d."""

    words: Rows
    """The standardised word embedding of each vocabulary entry, (V, e), float32."""
    matrix: Floats
    """From word embeddings to rows, (e, d)."""
    offsets: Floats
    """One row per known position; the last row serves all further positions."""

    @cached_property
    def means(self) -> Rows:
        """The part that depends on the token alone, of each vocabulary entry, (V, d)."""
        return of_vocabulary(self.words, self.matrix)

    def means_of(self, tokens: Ints) -> Floats:
        """That part for each of ``tokens``, (n, d); computed once for each distinct one."""
        kinds, at = np.unique(tokens, return_inverse=True)
        found: Floats = (self.words[kinds].astype(np.float64) @ self.matrix)[at]
        return found

    def offset(self, positions: Ints) -> Floats:
        """The part that depends on the position alone, shape ``(n, d)``."""
        return self.offsets[np.minimum(positions, len(self.offsets) - 1)]

    def expected(self, sample: Sample) -> Floats:
        """The row expected for each token of ``sample``, shape ``(n, d)``."""
        return sample.gains[:, None] * (self.means_of(sample.tokens) + self.offset(sample.positions))

    def unexplained(self, sample: Sample) -> float:
        """Root mean square of what the picture, scaled to ``sample``, leaves unexplained of it, per entry."""
        scaled, total = self.scaled_to(sample), 0.0
        for part in sample.chunks():
            total += float(np.sum(np.square(part.rows - scaled.expected(part))))
        return float(np.sqrt(total / max(sample.rows.size, 1)))

    def scaled_to(self, sample: Sample) -> Picture:
        """The picture times the one number that fits ``sample`` best: a public picture of a rescaled release."""
        along = across = 0.0
        for part in sample.chunks():
            expected = self.expected(part)
            along += float(np.sum(expected * part.rows))
            across += float(np.sum(expected * expected))
        factor = along / across if across > 0 else 1.0
        return replace(self, matrix=self.matrix * factor, offsets=self.offsets * factor)


def fit_picture(sample: Sample, table: NDArray[np.floating], *, ridge: float) -> Picture:
    """Least squares of the rows on (word embedding, position), rows of higher gain weighing more.

    ``table`` is the public word-embedding table (V, e); ``ridge`` is relative to the spread of its used entries.
    ValueError for an empty sample.
    """
    if not len(sample):
        raise ValueError("no released row of a known token is finite: nothing to learn the release from")
    words = _standardised(table, sample.tokens)
    width, known = words.shape[1], int(sample.positions.max()) + 1
    centre = _weighted_mean(sample)
    gram, moments = _normal_equations(sample, words, known, centre)
    weights = np.square(sample.gains)
    penalty = np.full(width + known, _POSITION_PENALTY * float(weights.mean()))
    penalty[:width] = max(ridge, _LEAST_RIDGE) * float(weights.sum())
    gram[np.diag_indices_from(gram)] += penalty
    solved = linalg.solve(gram, moments, assume_a="pos")
    return Picture(words.astype(np.float32), solved[:width], np.vstack([centre + solved[width:], centre]))


def of_vocabulary(words: Rows, matrix: Floats) -> Rows:
    """``words @ matrix`` for a row per vocabulary entry: in single precision, for it is most of an attack's time."""
    product: Rows = words @ matrix.astype(np.float32)
    return product


@dataclass(frozen=True, eq=False)
class Whitening:
    """The linear map ``(d, d)`` under which the noise around a picture is independent with unit variance."""

    matrix: Floats

    @classmethod
    def of(cls, picture: Picture, sample: Sample, *, noise: float = 0.0) -> Whitening:
        """From what ``picture`` leaves unexplained of ``sample``, shrunk towards isotropic noise.

        With a known ``noise`` > 0 nothing is shrunk: directions whose scatter the sample cannot tell from the noise
        (inside the bulk of Marchenko and Pastur 1967) get the noise, the others what was seen.
        """
        width = sample.rows.shape[1]
        scatter = np.zeros((width, width))
        for part in sample.chunks():
            left = part.rows - picture.expected(part)
            scatter += left.T @ left
        scatter /= max(len(sample), 1)
        level = max(float(np.trace(scatter)) / width, 1e-12 * _power(sample), np.finfo(np.float32).tiny)
        if noise > 0:
            return cls(_known_noise(scatter, noise, len(sample)))
        shrunk = (1 - SHRINKAGE) * scatter + SHRINKAGE * level * np.eye(width)
        lower = linalg.cholesky(shrunk, lower=True)
        return cls(linalg.solve_triangular(lower, np.eye(width), lower=True).T)


def _known_noise(scatter: Floats, noise: float, rows: int) -> Floats:
    seen, axes = linalg.eigh(scatter)
    bulk = noise**2 * (1 + np.sqrt(len(scatter) / max(rows, 1))) ** 2
    spread = np.where(seen > bulk, np.maximum(seen, noise**2), noise**2)
    whitening: Floats = axes / np.sqrt(spread)
    return whitening


def log_frequencies(tokens: Ints, vocabulary: int) -> Floats:
    """Log of the smoothed share of each token among ``tokens``, shape ``(vocabulary,)``.

    Additive smoothing with one pseudo-count in twenty: an unseen token stays possible.
    """
    counts = np.bincount(tokens, minlength=vocabulary) + 0.05
    shares: Floats = np.log(counts / counts.sum())
    return shares


def _standardised(table: NDArray[np.floating], tokens: Ints) -> NDArray[np.floating]:
    kinds, counts = np.unique(tokens, return_counts=True)
    used, shares = table[kinds].astype(np.float64), counts / counts.sum()
    level = shares @ used
    spread = float(np.sqrt((shares @ np.square(used - level.mean())).mean())) or 1.0
    standardised: NDArray[np.floating] = (table - level.astype(table.dtype)) / table.dtype.type(spread)
    return standardised


def _weighted_mean(sample: Sample) -> Floats:
    total = np.zeros(sample.rows.shape[1])
    for part in sample.chunks():
        total += part.gains @ part.rows
    mean: Floats = total / float(np.sum(np.square(sample.gains)))
    return mean


def _normal_equations(sample: Sample, words: NDArray[np.floating], known: int, centre: Floats) -> tuple[Floats, Floats]:
    """Sums over rows become sums over distinct tokens, of which there are far fewer."""
    kinds, which = np.unique(sample.tokens, return_inverse=True)
    used, width = words[kinds].astype(np.float64), words.shape[1]
    weights = np.square(sample.gains)
    met = np.bincount(which * known + sample.positions, weights, minlength=len(kinds) * known).reshape(-1, known)
    gram = np.zeros((width + known, width + known))
    gram[:width, :width] = used.T @ (met.sum(axis=1)[:, None] * used)
    gram[:width, width:] = used.T @ met
    gram[width:, :width] = gram[:width, width:].T
    gram[width:, width:] = np.diag(met.sum(axis=0))
    by_token = _grouped(sample, which, len(kinds), centre)
    by_position = _grouped(sample, sample.positions, known, centre)
    return gram, np.vstack([used.T @ by_token, by_position])


def _grouped(sample: Sample, groups: Ints, count: int, centre: Floats) -> Floats:
    """The sum over each group of ``gain · (row - gain · centre)``, (count, d)."""
    total, start = np.zeros((count, sample.rows.shape[1])), 0
    for part in sample.chunks():
        mine = groups[start : start + len(part)]
        belongs = sparse.csr_array((part.gains, (mine, np.arange(len(part)))), shape=(count, len(part)))
        total += np.asarray(belongs @ (part.rows - part.gains[:, None] * centre))
        start += len(part)
    return total


def _power(sample: Sample) -> float:
    return sum(float(np.sum(np.square(part.rows))) for part in sample.chunks()) / max(sample.rows.size, 1)
