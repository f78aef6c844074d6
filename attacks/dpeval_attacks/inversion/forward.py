"""Two ways from words to released rows that a gradient can go back: the public layers, and the learnt map.

A :class:`Placed` batch says which rows of which texts are to be read; a forward makes a
:class:`~dpeval_attacks.inversion.relaxation.Problem` of it.

>>> rows = np.ones((3, 2), dtype=np.float32)
>>> sample = Sample(rows, tokens=np.zeros(3, int), positions=np.array([1, 2, 1]), gains=np.ones(3))
>>> placed = Placed(sample, np.array([0, 0, 1]), [(1, 2), (1, 1)], torch.device("cpu"))
>>> placed.length, placed.at(torch.arange(3.0))[:, :, 0].tolist()
(3, [[0.0, 0.0, 1.0], [0.0, 2.0, 0.0]])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dpeval.types import Floats, Ints
from dpeval_attacks.inversion.observation import Sample, log_frequencies
from dpeval_attacks.inversion.own import OwnTexts
from dpeval_attacks.inversion.prefix import Prefix, padded
from dpeval_attacks.inversion.reader import Reader
from dpeval_attacks.inversion.relaxation import Problem

_RANK = 1e-12


@dataclass(frozen=True, eq=False)
class Placed:
    """The rows to be read, in N, of B texts: the text of each, and where each text's own rows begin and how many."""

    sample: Sample
    text: Ints
    places: list[tuple[int, int]]
    device: torch.device

    @property
    def length(self) -> int:
        """The longest text's last own row, plus one."""
        return max(first + count for first, count in self.places)

    @property
    def texts(self) -> Tensor:
        """The text of each row, as a tensor."""
        return torch.from_numpy(np.asarray(self.text, dtype=np.int64)).to(self.device)

    def at(self, values: Tensor, length: int | None = None) -> Tensor:
        """``values`` (N,) or (N, d) at their places, zeros elsewhere: (B, L, 1) or (B, L, d)."""
        wide = values if values.ndim == 2 else values.unsqueeze(1)
        whole = wide.new_zeros(len(self.places), length or self.length, wide.shape[1])
        return whole.index_put((self.texts, self.rows), wide)

    @property
    def rows(self) -> Tensor:
        """The place of each row in its text, as a tensor."""
        return torch.from_numpy(np.asarray(self.sample.positions, dtype=np.int64)).to(self.device)


class Forward(Protocol):
    """A way from words to released rows."""

    @property
    def mixes(self) -> bool:
        """Whether a row depends on other words too, so that each step runs whole layers."""
        ...

    def problem(self, placed: Placed, candidates: Ints) -> Problem:
        """The search for the tokens of ``placed`` among ``candidates``, (N, k) for each row or (k,) for all."""
        ...


@dataclass(frozen=True, eq=False)
class LayersForward:
    """Through the public layers, as the release scales them; special tokens at the edges are known and held fixed."""

    prefix: Prefix
    noise: float
    log_prior: Floats
    leading: tuple[int, ...]
    trailing: tuple[int, ...]
    pad_id: int

    @classmethod
    def of(cls, prefix: Prefix, own: OwnTexts, noise: float, pad_id: int) -> LayersForward:
        """The edges are those of the first own text; what the layers leave unexplained counts as noise."""
        some = own.tokens[0]
        return cls(
            prefix=prefix,
            noise=max(noise, prefix.left),
            log_prior=log_frequencies(own.study.inner_tokens, len(own.table)),
            leading=tuple(some[: own.study.leading]),
            trailing=tuple(some[len(some) - own.study.trailing :]),
            pad_id=pad_id,
        )

    @property
    def mixes(self) -> bool:
        """Layers are run, whether or not they mix words."""
        return True

    def template(self, placed: Placed) -> tuple[Tensor, Tensor]:
        """Ids (B, L) and mask of the texts: known edges, and a filler in each place that is asked."""
        filler = self.pad_id if not self.leading else self.leading[0]
        texts = [[*self.leading, *[filler] * count, *self.trailing] for _, count in placed.places]
        ids, mask = padded(texts, self.pad_id)
        return ids.to(placed.device), mask.to(placed.device)

    def problem(self, placed: Placed, candidates: Ints) -> Problem:
        """Word embeddings are mixed; the whole text, edges included, goes through the layers."""
        ids, mask = self.template(placed)
        # Rows that cannot be read are taken for the filler; they are not compared, but their neighbours see them.
        template = self.prefix.embed(ids).detach()
        where = (placed.texts, placed.rows)

        def forward(mixed: Tensor) -> Tensor:
            return self.prefix.rows(template.index_put(where, mixed.to(template.dtype)), ids, mask)

        width = ids.shape[1]
        seen = torch.from_numpy(np.asarray(placed.sample.rows, dtype=np.float32)).to(placed.device)
        weight = placed.at(torch.ones(len(seen), device=placed.device), width)[:, :, 0]
        kinds = torch.from_numpy(candidates).to(placed.device)
        prior = torch.from_numpy(self.log_prior[candidates].astype(np.float32)).to(placed.device)
        return Problem(
            seen=placed.at(seen, width),
            weight=weight,
            vectors=self.prefix.embed(kinds).detach(),
            log_prior=prior,
            text=placed.texts,
            forward=forward,
            noise=self.noise,
        )


@dataclass(frozen=True, eq=False)
class MapForward:
    """Through the learnt picture of the release, in the coordinates where its noise is independent of variance one."""

    reader: Reader
    log_prior: Floats

    @classmethod
    def of(cls, reader: Reader, own: OwnTexts) -> MapForward:
        """The picture of ``reader`` with its whitening."""
        return cls(reader, log_frequencies(own.study.inner_tokens, len(own.table)))

    @property
    def mixes(self) -> bool:
        """Each row is read for itself."""
        return False

    def problem(self, placed: Placed, candidates: Ints) -> Problem:
        """The whitened expected rows of the candidates are mixed, each row for itself."""
        gains = torch.from_numpy(placed.sample.gains.astype(np.float32)).to(placed.device)
        seen = torch.from_numpy(self.reader.queries(placed.sample).astype(np.float32)).to(placed.device)
        vectors = torch.from_numpy(self.reader.space.of_ids(candidates)).to(placed.device)
        prior = torch.from_numpy(self.log_prior[candidates].astype(np.float32)).to(placed.device)
        if vectors.ndim == 3 and vectors.shape[1] < vectors.shape[2]:
            seen, vectors = in_their_span(seen, vectors)
        return Problem(
            seen=placed.at(seen),
            weight=placed.at(gains.square())[:, :, 0],
            vectors=vectors,
            log_prior=prior,
            text=placed.texts,
            forward=placed.at,
            noise=1.0,
        )


def in_their_span(seen: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (N, d) and their k < d candidates (N, k, d) in k + 1 coordinates, all distances among them kept.

    A mixture of the candidates never leaves their span; one more coordinate holds what of the row lies outside it.
    """
    wide, row = vectors.double(), seen.double()
    sizes, axes = torch.linalg.eigh(torch.bmm(wide, wide.transpose(1, 2)))
    # Candidates that say the same span less; what is left of such a direction is rounding.
    real = sizes > _RANK * sizes[:, -1:]
    lengths = torch.where(real, sizes, 0).sqrt()
    inverse = torch.where(real, 1 / lengths.clamp(min=torch.finfo(row.dtype).tiny), 0)
    along = inverse * torch.bmm(torch.bmm(wide, row.unsqueeze(2)).transpose(1, 2), axes).squeeze(1)
    outside = (row.square().sum(dim=1) - along.square().sum(dim=1)).clamp(min=0).sqrt()
    rows = torch.cat([along, outside.unsqueeze(1)], dim=1)
    return rows.to(seen.dtype), torch.nn.functional.pad(axes * lengths.unsqueeze(1), (0, 1)).to(vectors.dtype)
