"""What the adversary learns by releasing texts of its own: rows of known tokens, and the habits of the release.

>>> released = Embeddings(("a",), np.ones((4, 2), dtype=np.float32), np.array([0, 4]))
>>> study = study_releases(released, [[1, 5, 2]], special_ids=frozenset({1, 2}))
>>> study.fixed_rows, study.leading, study.trailing, study.sample.tokens.tolist()
(4, 1, 1, [1, 5, 2])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpeval.types import Embeddings, Floats, Ints
from dpeval_attacks.inversion.lengths import LengthModel, RowEnergies, fit_lengths
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
    fixed_rows: int | None
    leading: int
    """Special tokens that every text begins with."""
    trailing: int
    """Special tokens that every text ends with."""

    def layout(self, rows: Floats) -> Layout:
        """Which of the released ``rows`` (n, d) of one text to answer, and their gain."""
        if self.lengths is None:
            return Layout(first=self.leading, last=len(rows) - self.trailing, gain=1.0)
        length = self.lengths.guess(np.square(rows, dtype=np.float64).sum(axis=1))
        return Layout(first=self.leading, last=length - self.trailing, gain=self.lengths.gain(length))


@dataclass(frozen=True)
class Layout:
    """Rows ``first`` to ``last`` (exclusive) of a text hold its own tokens, scaled by ``gain``."""

    first: int
    last: int
    gain: float


def study_releases(released: Embeddings, tokens: Sequence[Sequence[int]], *, special_ids: frozenset[int]) -> Study:
    """Align the released rows of texts with their token ids.

    ValueError when a text has fewer released rows than tokens: there is no row per token then. Rows that are not finite
    are left out.
    """
    counts = np.diff(released.offsets)
    lengths = np.array([len(ids) for ids in tokens], dtype=np.int64)
    short = np.flatnonzero(counts < lengths)
    if len(short):
        at = int(short[0])
        raise ValueError(
            f"record {released.ids[at]!r} has {lengths[at]} tokens but {counts[at]} released rows: nearest-neighbour "
            "inversion needs a row per token; choose a tap before the pooling"
        )
    model = _fit_lengths(released, lengths) if (counts > lengths).any() else None
    gains = np.array([1.0 if model is None else model.gain(int(m)) for m in lengths])
    sample = aligned(released, tokens, gains)
    finite = np.isfinite(sample.rows).all(axis=1)
    texts = np.repeat(np.arange(len(tokens)), lengths)
    return Study(
        sample=sample.where(finite),
        texts=texts[finite],
        lengths=model,
        fixed_rows=None if model is None else int(counts.max()),
        leading=_common_edge(tokens, special_ids),
        trailing=_common_edge([ids[::-1] for ids in tokens], special_ids),
    )


def aligned(released: Embeddings, tokens: Sequence[Sequence[int]], gains: Floats) -> Sample:
    """The token rows of each text with their token, position and gain; ``gains`` has one entry per text."""
    return Sample(
        rows=np.concatenate([released.rows(i)[: len(ids)] for i, ids in enumerate(tokens)]),
        tokens=np.concatenate([np.asarray(ids, dtype=np.int64) for ids in tokens]),
        positions=np.concatenate([np.arange(len(ids)) for ids in tokens]),
        gains=np.concatenate([np.full(len(ids), gain) for ids, gain in zip(tokens, gains, strict=True)]),
    )


def _fit_lengths(released: Embeddings, lengths: Ints) -> LengthModel:
    texts = [RowEnergies(released.rows(i), int(length)) for i, length in enumerate(lengths)]
    return fit_lengths([text for text in texts if text.length and np.isfinite(text.rows).all()])


def _common_edge(tokens: Sequence[Sequence[int]], special_ids: frozenset[int]) -> int:
    """How many special tokens all texts begin with; 0 where some text has nothing else."""
    counts = [next((i for i, t in enumerate(ids) if t not in special_ids), None) for ids in tokens]
    inside = [count for count in counts if count is not None]
    return min(inside, default=0)
