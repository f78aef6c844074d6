"""Masked texts, and the head that predicts what was masked.

>>> masked = MaskedTexts(EncodedTexts(ids=[[2, 7, 8, 3]], types=None, pad_id=0), 4, frozenset({2, 3}), 0.99)
>>> masked.batch([0], torch.Generator().manual_seed(0))[0]["input_ids"].tolist()
[[2, 4, 4, 3]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.encoding import Batch, EncodedTexts
from dpeval.types import Records


class EveryRow(nn.Module):
    """In the place of pooling: keeps all rows."""

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """``hidden``, shape (B, n, d)."""
        del mask
        return hidden


class Through(nn.Linear):
    """In the place of a head: hands on what it gets."""

    def __init__(self, width: int) -> None:
        super().__init__(width, 1, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """``hidden`` itself."""
        return hidden


class TokenHead(nn.Module):
    """Logits over the vocabulary, tied to the input embeddings: dense, GELU, norm, table, as in BERT."""

    def __init__(self, width: int, table: nn.Embedding, draw: torch.Generator) -> None:
        super().__init__()
        size = table.weight.shape[1]
        self.dense = nn.Linear(width, size, device="meta").to_empty(device="cpu")
        with torch.no_grad():
            self.dense.weight.normal_(0.0, width**-0.5, generator=draw)
            self.dense.bias.zero_()
        self.norm = nn.LayerNorm(size)
        self.bias = nn.Parameter(torch.zeros(table.weight.shape[0]))
        self.tables = (table,)
        """In a tuple, so that its parameter is counted once, in the encoder."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Shape (…, d) to (…, vocabulary)."""
        features = self.norm(nn.functional.gelu(self.dense(hidden)))
        return nn.functional.linear(features, self.tables[0].weight, self.bias)


@dataclass(frozen=True, eq=False)
class MaskedTexts:
    """Texts as tokens, with what masks them."""

    texts: EncodedTexts
    mask_id: int
    special: frozenset[int]
    rate: float

    @classmethod
    def of(cls, texts: Sequence[str], checkpoint: Checkpoint, rate: float) -> MaskedTexts:
        """Of ``texts``, as ``checkpoint`` reads them."""
        ids = tuple(str(i) for i in range(len(texts)))
        encoded = checkpoint.encode(Records(ids, tuple(texts), (0,) * len(texts)))
        return cls(encoded, int(checkpoint.tokenizer.mask_token_id), checkpoint.special_ids, rate)

    def batch(self, rows: Sequence[int], draw: torch.Generator) -> tuple[Batch, Tensor, Tensor]:
        """A batch with masked tokens, the true tokens, and where they were masked; shapes (B, L)."""
        batch = self.texts.batch(rows)
        true = batch["input_ids"]
        chosen = self._chosen(true, batch["attention_mask"], draw)
        return batch | {"input_ids": true.masked_fill(chosen, self.mask_id)}, true, chosen

    def _chosen(self, ids: Tensor, mask: Tensor, draw: torch.Generator) -> Tensor:
        """Each ordinary token with probability ``rate``, and at least one of each text that has any."""
        ordinary = mask.bool() & ~torch.isin(ids, torch.tensor(sorted(self.special)))
        score = torch.rand(ids.shape, generator=draw).masked_fill(~ordinary, 2.0)
        first = score == score.min(dim=1, keepdim=True).values
        return ordinary & ((score < self.rate) | first)
