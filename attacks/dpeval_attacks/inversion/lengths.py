"""How many rows of a fixed-length release belong to the text, and how strong the text is in them.

A release that pads every text to the same number of rows hides the length, and where it scales the whole matrix to one
norm the rows of a short text are stronger. The adversary has seen both kinds of row on texts of its own: it compares
row energies and knows which lengths are common.

>>> rows = np.concatenate([np.full((3, 4), 1.0), np.full((5, 4), 0.01)])
>>> seen = [RowEnergies(rows, length=3), RowEnergies(rows[1:], length=2)]
>>> fit_lengths(seen).guess(np.sum(rows**2, axis=1))
3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeval.types import Floats


@dataclass(frozen=True, eq=False)
class RowEnergies:
    """One text of the adversary's own: its released ``rows`` (n, d), of which the first ``length`` hold tokens."""

    rows: NDArray[np.floating]
    length: int

    @property
    def energies(self) -> Floats:
        """Squared norm of each row, float64."""
        return row_energies(self.rows)


def row_energies(rows: NDArray[np.floating]) -> Floats:
    """Squared norm of each row, float64."""
    energies: Floats = np.square(rows, dtype=np.float64).sum(axis=1)
    return energies


@dataclass(frozen=True, eq=False)
class LengthModel:
    """Energies of padding rows are N(pad, pad_spread²), of token rows N(pad + gain² · token, token_spread²)."""

    log_prior: Floats
    """Of the lengths 0, 1, 2, …"""
    pad: float
    pad_spread: float
    token: float
    token_spread: float
    shared: bool
    """Whether the whole text is scaled to one norm, so that its length weakens each row."""

    def gain(self, length: int) -> float:
        """By how much the rows of a text of ``length`` tokens are scaled."""
        return 1.0 / np.sqrt(max(length, 1)) if self.shared else 1.0

    def guess(self, energies: Floats) -> int:
        """The most probable number of token rows, 1 or more, given the energy of each released row."""
        longest = min(len(energies), len(self.log_prior) - 1)
        lengths = np.arange(1, longest + 1)
        gains = np.array([self.gain(int(m)) for m in lengths])
        at_token = _log_normal(energies, (self.pad + np.square(gains) * self.token)[:, None], self.token_spread)
        at_pad = _log_normal(energies, np.array([[self.pad]]), self.pad_spread)
        is_token = np.arange(len(energies)) < lengths[:, None]
        scores = np.where(is_token, at_token, at_pad).sum(axis=1) + self.log_prior[1 : longest + 1]
        return int(lengths[np.argmax(scores)])


def fit_lengths(texts: Sequence[RowEnergies]) -> LengthModel:
    """The model of lengths and row energies, from texts whose length is known."""
    inside = [text.energies[: text.length] for text in texts]
    outside = np.concatenate([text.energies[text.length :] for text in texts])
    lengths = np.array([text.length for text in texts])
    pad = float(outside.mean()) if len(outside) else 0.0
    levels = np.array([energies.mean() - pad for energies in inside])
    shared = _relative_spread(levels * lengths) < _relative_spread(levels)
    gains = 1.0 / np.sqrt(lengths) if shared else np.ones(len(texts))
    token = float(np.sum(levels * gains**2) / np.sum(gains**4))
    left = np.concatenate([e - pad - g**2 * token for e, g in zip(inside, gains, strict=True)])
    floor = max(1e-6 * (abs(pad) + abs(token) * float(np.mean(gains**2))), 1e-30)
    return LengthModel(
        log_prior=_log_length_prior(lengths, max(len(text.rows) for text in texts)),
        pad=pad,
        pad_spread=max(float(outside.std()) if len(outside) else 0.0, floor),
        token=token,
        token_spread=max(float(left.std()), floor),
        shared=bool(shared),
    )


def _log_length_prior(lengths: NDArray[np.int64], longest: int) -> Floats:
    grid = np.arange(longest + 1)
    width = max(1.0, float(lengths.std()) * len(lengths) ** -0.2)
    density = np.exp(-0.5 * np.square((grid[:, None] - lengths[None, :]) / width)).sum(axis=1)
    log_density: Floats = np.log(density + 1e-6)
    return log_density


def _relative_spread(values: Floats) -> float:
    mean = abs(float(values.mean()))
    return float(values.std()) / mean if mean > 0 else np.inf


def _log_normal(values: Floats, mean: Floats, spread: float) -> Floats:
    logs: Floats = -0.5 * np.square((values[None, :] - mean) / spread) - np.log(spread)
    return logs
