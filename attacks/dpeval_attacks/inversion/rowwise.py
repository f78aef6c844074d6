"""Candidates and descents where public rows depend on token and position alone: nothing has to be learnt.

At the input embeddings the public row of a token is nearly ``one row per token + one row per position`` (exactly so
where no layer norm follows). Both parts are computed in the public model, so the candidates of a gradient attack come
without any fit, in a fraction of its time.

With a fitted prefix and own texts at hand::

    reader = RowwiseReader.of(prefix, own, noise=0.1, pad_id=checkpoint.pad_id, positions=checkpoint.max_length)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpeval.types import Floats, Ints, Rows
from dpeval_attacks.inversion.exact import TokenRows
from dpeval_attacks.inversion.forward import LayersForward, Placed, in_their_span
from dpeval_attacks.inversion.observation import Sample, log_frequencies
from dpeval_attacks.inversion.own import OwnTexts
from dpeval_attacks.inversion.prefix import Prefix, public_pairs
from dpeval_attacks.inversion.relaxation import Problem
from dpeval_attacks.inversion.search import SearchSpace

_TRIED = 256
"""Rows on which it is tried whether they depend on token and position alone."""
_TRIED_FIRST = 4
_AVERAGED = 64
"""Tokens over which the part of a position is averaged."""
_LEAST_NOISE = 1e-3
"""Relative to the strength of a row; what the sum of two parts leaves out of a row is of this size."""


@dataclass(frozen=True, eq=False)
class RowwiseReader:
    """Answers for each row the tokens of highest posterior, rows taken for a token's part plus a position's part."""

    space: SearchSpace
    offsets: Rows
    """The part of each position, (P, d); the last one serves all further positions."""
    factor: float
    """By which the release scales public rows, at gain one."""
    noise: float

    @classmethod
    def of(cls, prefix: Prefix, own: OwnTexts, *, noise: float, pad_id: int, positions: int) -> RowwiseReader | None:
        """``None`` where a public row depends on other tokens, or is scaled in a way that its gain does not tell."""
        if prefix.kind == "norm" and (own.study.lengths is None or not own.study.lengths.shared):
            return None
        clear, gains, seen = _aligned(prefix, own, pad_id)
        few = np.linspace(0, len(clear) - 1, min(_TRIED, len(clear))).astype(int)
        first = np.arange(min(_TRIED_FIRST, len(clear)))
        for some in (first, few):  # where layers mix words, the first few tell so at once
            tried = Sample(clear.rows[some], clear.tokens[some], clear.positions[some], clear.gains[some])
            rows = TokenRows.through(prefix.classifier, prefix.tap, tried, positions=positions)
            if rows is None:
                return None
        assert rows is not None  # noqa: S101 - told to the type checker
        expected = gains[:, None] * clear.rows
        factor = float(np.sum(expected * seen) / max(np.sum(expected * expected), 1e-300))
        least = _LEAST_NOISE * abs(factor) * float(np.sqrt(np.mean(np.square(expected))))
        return cls._of_rows(rows, own, factor, max(noise, least, 1e-20))

    @classmethod
    def _of_rows(cls, rows: TokenRows, own: OwnTexts, factor: float, noise: float) -> RowwiseReader:
        allowed = own.allowed
        prior = log_frequencies(own.study.inner_tokens, len(own.table))
        parts = (block[:, 1] * np.float32(factor / noise) for _, block in rows.blocks(allowed, 2))
        space = SearchSpace.of_parts(parts, ids=allowed, width=rows.width, log_prior=prior)
        return cls(space, _offsets(rows, own), factor, noise)

    def read(self, sample: Sample) -> Ints:
        """One token id per row of ``sample``; -1 for a zero or broken row."""
        return self.best(sample, 1)[:, 0]

    def best(self, sample: Sample, k: int) -> Ints:
        """The ``k`` most probable tokens of each row, best first, shape ``(n, k)``."""
        own = sample.rows / sample.gains[:, None] / self.factor
        queries = (own - self.offsets[np.minimum(sample.positions, len(self.offsets) - 1)]) * (self.factor / self.noise)
        queries[~np.any(sample.rows, axis=1)] = 0.0
        return self.space.search(queries, sample.gains, k=k)

    def accuracy(self, sample: Sample) -> float:
        """The share of rows read right."""
        return float(np.mean(self.read(sample) == sample.tokens)) if len(sample) else 0.0


def _aligned(prefix: Prefix, own: OwnTexts, pad_id: int) -> tuple[Sample, Floats, Floats]:
    """Own texts in the clear with their tokens; their gains; and the same rows as released."""
    pairs = public_pairs(prefix, own, pad_id) or []
    at = np.concatenate([np.flatnonzero(own.study.texts == pair.number) for pair in pairs])
    sample = own.study.sample
    clear = np.concatenate([pair.clear for pair in pairs]).astype(np.float32)
    alone = Sample(clear, sample.tokens[at], sample.positions[at], np.ones(len(at)))
    return alone, sample.gains[at], np.concatenate([pair.seen for pair in pairs])


def _offsets(rows: TokenRows, own: OwnTexts) -> Rows:
    kinds, counts = np.unique(own.study.inner_tokens, return_counts=True)
    common = kinds[np.argsort(-counts, kind="stable")[:_AVERAGED]]
    last = min(int(own.study.sample.positions.max()) + 1, rows.positions)
    parts = [block - block[:, 1:2] for _, block in rows.blocks(common, max(2, last))]
    found: Rows = np.concatenate(parts).mean(axis=0)
    return found


@dataclass(frozen=True, eq=False)
class RowwiseForward:
    """Through public layers that do not mix words: what is mixed are the candidates' own public rows.

    A mixture of rows lies in their span, so all is done in as many coordinates as a row has candidates. Where a text is
    scaled to one norm, its rows still hang together by that.
    """

    layers: LayersForward

    @property
    def mixes(self) -> bool:
        """Each row is that of its own word."""
        return False

    def problem(self, placed: Placed, candidates: Ints) -> Problem:
        """Public rows of each row's candidates; the whole vocabulary is relaxed through the layers themselves."""
        if candidates.ndim == 1:
            return self.layers.problem(placed, candidates)
        vectors, edges = self._rows(placed, candidates)
        seen = torch.from_numpy(np.asarray(placed.sample.rows, dtype=np.float32)).to(placed.device)
        if vectors.shape[1] < vectors.shape[2]:
            seen, vectors = in_their_span(seen, vectors)
        prefix = self.layers.prefix

        def forward(mixed: Tensor) -> Tensor:
            rows = placed.at(mixed)
            if prefix.kind == "factor":
                return rows * prefix.scale
            norms = (rows.square().sum(dim=(1, 2)) + edges).sqrt()
            return rows * (prefix.scale / norms.clamp(min=1e-12)).view(-1, 1, 1)

        return Problem(
            seen=placed.at(seen),
            weight=placed.at(torch.ones(len(seen), device=placed.device))[:, :, 0],
            vectors=vectors,
            log_prior=torch.from_numpy(self.layers.log_prior[candidates].astype(np.float32)).to(placed.device),
            text=placed.texts,
            forward=forward,
            noise=self.layers.noise,
        )

    def _rows(self, placed: Placed, candidates: Ints) -> tuple[Tensor, Tensor]:
        """The public rows of the candidates (N, k, d), and the squared length of all other rows of each text (B,)."""
        ids, mask = self.layers.template(placed)
        where = (placed.texts, placed.rows)
        kinds, found = torch.from_numpy(candidates).to(placed.device), []
        with torch.no_grad():
            for number in range(kinds.shape[1]):
                rows = self.layers.prefix.unscaled(None, ids.index_put(where, kinds[:, number]), mask)
                found.append(rows[where])
        others = mask.to(rows.dtype).index_put(where, rows.new_zeros(()))
        return torch.stack(found, dim=1), (others * rows.square().sum(dim=2)).sum(dim=1)
