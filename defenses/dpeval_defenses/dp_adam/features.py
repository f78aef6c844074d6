"""The fast way to train a head alone: the frozen encoder's pooled vectors are computed once and kept.

They are the encoder's outputs in evaluation mode, which is the mode that frozen parts have in training too, so the
result is that of the slow way up to rounding.

>>> head = Head(nn.Dropout(0.0), nn.Linear(2, 3))
>>> tuple(head(torch.zeros(4, 2)).shape)
(4, 3)
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.encoding import to_device
from dpeval.models.taps import capture
from dpeval.types import Records, Text


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
def pooled_features(checkpoint: Checkpoint, texts: tuple[Text, ...], device: torch.device) -> Tensor:
    """Pooled vectors (n, d) of the public encoder; kept for a next run on the same texts (another ε, say)."""
    records = Records(tuple(map(str, range(len(texts)))), texts, (0,) * len(texts))
    classifier = checkpoint.build(num_labels=1, seed=0).to(device)
    features = torch.zeros(len(texts), checkpoint.hidden_size, device=device)
    with torch.inference_mode():
        for rows, batch in checkpoint.encode(records).evaluation_batches(checkpoint.max_length):
            features[rows] = capture(classifier, to_device(batch, device), "output")[: len(rows), 0]
    return features
