"""The fast way to train a head alone: the frozen encoder's pooled vectors are computed once and kept.

They are the encoder's outputs in evaluation mode, which is the mode that frozen parts have in training too, so the
result is that of the slow way up to rounding.

>>> head = Head(nn.Dropout(0.0), nn.Linear(2, 3))
>>> tuple(head(torch.zeros(4, 2)).shape)
(4, 3)
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor, nn

from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import EncodedTexts, to_device
from dpeval.models.taps import capture
from dpeval.types import Records, Text


class Source(Hashable, Protocol):
    """Where texts and classifiers come from: a checkpoint, or one seen through a prompt. Hashed by identity."""

    @property
    def hidden_size(self) -> int:
        """Width of the vector that the head gets."""
        ...

    @property
    def max_length(self) -> int:
        """Longest text in tokens."""
        ...

    def encode(self, records: Records) -> EncodedTexts:
        """The records as token ids."""
        ...

    def build(self, num_labels: int, seed: int) -> TextClassifier:
        """A fresh classifier."""
        ...


class Head(nn.Module):
    """What a text classifier does with its pooled vectors; shares the modules it is given."""

    def __init__(self, dropout: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.dropout, self.head = dropout, head

    def forward(self, pooled: Tensor) -> Tensor:
        """Logits (B, classes) of pooled vectors (B, d)."""
        logits: Tensor = self.head(self.dropout(pooled))
        return logits


@lru_cache(maxsize=4)
def pooled_features(source: Source, num_labels: int, texts: tuple[Text, ...], device: torch.device) -> Tensor:
    """Pooled vectors (n, d) of the public encoder; kept for a next run on the same texts (another ε, say)."""
    records = Records(tuple(map(str, range(len(texts)))), texts, (0,) * len(texts))
    classifier = source.build(num_labels, 0).to(device)
    features = torch.zeros(len(texts), source.hidden_size, device=device)
    with torch.inference_mode():
        for rows, batch in source.encode(records).evaluation_batches(source.max_length):
            features[rows] = capture(classifier, to_device(batch, device), "output")[: len(rows), 0]
    return features
