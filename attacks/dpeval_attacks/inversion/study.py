"""What the adversary learns by releasing texts of its own: rows of known tokens, and the habits of the release.

>>> rows = np.ones((3, 2), dtype=np.float32)
>>> study = study_releases(["a"], [rows], [[1, 5, 2]], special_ids=frozenset({1, 2}))
>>> study.leading, study.trailing, study.sample.tokens.tolist(), study.inner_tokens.tolist()
(1, 1, [1, 5, 2], [5])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeval.types import Floats, Ints, Rows
from dpeval_attacks.inversion.lengths import LengthModel, RowEnergies, fit_lengths, row_energies
from dpeval_attacks.inversion.observation import Sample


@dataclass(frozen=True, eq=False)
class Study:
    """Released rows of known tokens, with what is known of the layout of every release."""

    sample: Sample
    """The token rows of all texts, padding left out."""
    texts: Ints
    """For each row of ``sample`` the number of its text."""
    lengths: LengthModel | None
    """Of a release that pads to a fixed number of rows; ``None`` where there is one row per token."""
    is_inner: NDArray[np.bool_]
    """For each row of ``sample`` whether it lies between the special tokens that every text begins and ends with."""
    leading: int
    """Special tokens that every text begins with."""
    trailing: int
    """Special tokens that every text ends with."""

    @property
    def inner_tokens(self) -> Ints:
        """The tokens of the inner rows."""
        return self.sample.tokens[self.is_inner]

    def layout(self, rows: Rows) -> Layout:
        """Which of the released ``rows`` (n, d) of one text to answer, and their gain."""
        length, gain = len(rows), 1.0
        if self.lengths is not None:
            length = self.lengths.guess(row_energies(rows))
            gain = self.lengths.gain(length)
        first = min(self.leading, length)
        return Layout(first=first, last=max(length - self.trailing, first), gain=gain)


@dataclass(frozen=True)
class Layout:
    """Rows ``first`` to ``last`` (exclusive) of a text hold its own tokens, scaled by ``gain``."""

    first: int
    last: int
    gain: float


def study_releases(
    ids: Sequence[str], released: Sequence[Rows], tokens: Sequence[Sequence[int]], *, special_ids: frozenset[int]
) -> Study:
    """Align the ``released`` rows of texts with their token ids.

    ValueError when a text has fewer released rows than tokens: there is no row per token then. Rows that are not finite
    are left out.
    """
    counts = np.array([len(rows) for rows in released])
    lengths = np.array([len(row) for row in tokens], dtype=np.int64)
    _check_rows(ids, counts, lengths)
    model = _fit_lengths(released, lengths) if (counts > lengths).any() else None
    sample = aligned(released, tokens, np.array([1.0 if model is None else model.gain(int(m)) for m in lengths]))
    leading = _common_edge(tokens, special_ids)
    trailing = _common_edge([row[::-1] for row in tokens], special_ids)
    is_inner = (sample.positions >= leading) & (sample.positions < np.repeat(lengths, lengths) - trailing)
    finite = np.isfinite(sample.rows).all(axis=1)
    return Study(
        sample=sample.where(finite),
        texts=np.repeat(np.arange(len(tokens)), lengths)[finite],
        lengths=model,
        is_inner=is_inner[finite],
        leading=leading,
        trailing=trailing,
    )


def aligned(released: Sequence[Rows], tokens: Sequence[Sequence[int]], gains: Floats) -> Sample:
    """The token rows of each text with their token, position and gain; ``gains`` has one entry per text."""
    lengths = [len(row) for row in tokens]
    return Sample(
        rows=np.concatenate([rows[:length] for rows, length in zip(released, lengths, strict=True)]),
        tokens=np.concatenate([np.asarray(row, dtype=np.int64) for row in tokens]),
        positions=np.concatenate([np.arange(length) for length in lengths]),
        gains=np.repeat(gains, lengths),
    )


def _check_rows(ids: Sequence[str], counts: Ints, lengths: Ints) -> None:
    short = np.flatnonzero(counts < lengths)
    if len(short):
        at = int(short[0])
        raise ValueError(
            f"record {ids[at]!r} has {lengths[at]} tokens but {counts[at]} released rows: nearest-neighbour inversion "
            "needs a row per token; choose a tap before the pooling"
        )


def _fit_lengths(released: Sequence[Rows], lengths: Ints) -> LengthModel:
    texts = [RowEnergies(rows, int(length)) for rows, length in zip(released, lengths, strict=True)]
    return fit_lengths([text for text in texts if text.length and np.isfinite(text.rows).all()])


def _common_edge(tokens: Sequence[Sequence[int]], special_ids: frozenset[int]) -> int:
    """How many special tokens all texts begin with; 0 where some text has nothing else."""
    counts = [next((i for i, t in enumerate(ids) if t not in special_ids), None) for ids in tokens]
    inside = [count for count in counts if count is not None]
    return min(inside, default=0)
