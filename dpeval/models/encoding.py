"""Texts as token ids, and batches of them with a real padding mask.

>>> texts = EncodedTexts(ids=[[2, 7, 3], [2, 3]], types=None, pad_id=0)
>>> texts.batch([0, 1])["attention_mask"].tolist()
[[1, 1, 1], [1, 1, 0]]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

Batch: TypeAlias = dict[str, Tensor]
"""``input_ids`` and ``attention_mask``, int64 of shape (B, L); ``token_type_ids`` where the model takes them."""

EVALUATION_ROWS = 8
EVALUATION_STEP = 8


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """Token ids of texts, special tokens included; padding is always on the right."""

    ids: Sequence[Sequence[int]]
    types: Sequence[Sequence[int]] | None
    pad_id: int

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each text."""
        return [len(row) for row in self.ids]

    def batch(self, rows: Sequence[int], length: int | None = None) -> Batch:
        """The texts at ``rows``, padded to ``length`` (by default the longest of them); at least two columns."""
        longest = max(2, *(len(self.ids[i]) for i in rows))
        width = longest if length is None else length
        if width < longest:
            raise ValueError(f"batch: expected length >= {longest} for these texts, got {length}")
        batch = {
            "input_ids": _padded([self.ids[i] for i in rows], width, self.pad_id),
            "attention_mask": _padded([[1] * len(self.ids[i]) for i in rows], width, 0),
        }
        if self.types is not None:
            batch["token_type_ids"] = _padded([self.types[i] for i in rows], width, 0)
        return batch

    def evaluation_batches(self, max_length: int) -> Iterator[tuple[list[int], Batch]]:
        """Batches ``(rows, batch)`` whose *shape* depends on each text alone: no answer depends on its neighbours.

        Every batch has :data:`EVALUATION_ROWS` rows and a length rounded up; missing rows repeat the last text. Matrix
        products of one shape treat each row alike, so a text's result is the same to the bit in any company. The caller
        keeps the first ``len(rows)`` results.
        """
        buckets: dict[int, list[int]] = {}
        for row, length in enumerate(self.lengths):
            buckets.setdefault(
                min(-(-length // EVALUATION_STEP) * EVALUATION_STEP, max(max_length, length)), []
            ).append(row)
        for length, members in sorted(buckets.items()):
            for start in range(0, len(members), EVALUATION_ROWS):
                rows = members[start : start + EVALUATION_ROWS]
                filled = rows + [rows[-1]] * (EVALUATION_ROWS - len(rows))
                yield rows, self.batch(filled, length)


def _padded(rows: Sequence[Sequence[int]], width: int, fill: int) -> Tensor:
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], dtype=torch.long)


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on ``device``."""
    return {name: tensor.to(device) for name, tensor in batch.items()}
