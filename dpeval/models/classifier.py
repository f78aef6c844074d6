"""A transformers encoder with pooling and a linear head: texts in, class logits out.

Only plain modules, so that clipping engines, taps and parameter-efficient tuning see ordinary layers. Padding takes no
part in attention or pooling: a text's logits do not depend on its neighbours in the batch.

>>> pool = Pool("mean")
>>> pool(torch.tensor([[[2.0], [4.0], [9.0]]]), torch.tensor([[1, 1, 0]])).item()
3.0
"""

from __future__ import annotations

import inspect
from typing import Any, Literal

import torch
from torch import Tensor, nn

Pooling = Literal["mean", "cls", "last"]


class Pool(nn.Module):
    """One vector per text from the last hidden states, shape (B, n, d) to (B, d)."""

    def __init__(self, kind: Pooling) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Pool over the positions where ``mask`` (B, n) is 1."""
        if self.kind == "cls":
            return hidden[:, 0]
        if self.kind == "last":
            last = (mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)).argmax(dim=1)
            return hidden[torch.arange(len(hidden), device=hidden.device), last]
        weights = mask.to(hidden.dtype).unsqueeze(-1)
        return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


class TextClassifier(nn.Module):
    """``encoder`` (a transformers model without head), ``pool``, ``dropout``, ``head``; logits (B, classes)."""

    def __init__(self, encoder: nn.Module, pooling: Pooling, num_labels: int, generator: torch.Generator) -> None:
        super().__init__()
        config: Any = encoder.config
        self.encoder = encoder
        self.pool = Pool(pooling)
        self.dropout = nn.Dropout(_dropout(config))
        self.head = nn.Linear(config.hidden_size, num_labels, device="meta").to_empty(device="cpu")
        with torch.no_grad():
            self.head.weight.normal_(0.0, float(getattr(config, "initializer_range", 0.02)), generator=generator)
            self.head.bias.zero_()
        self.answers: dict[str, Any] = {}
        """What the encoder's modules answer with, filled by ``dpeval.models.taps`` in the first cut pass."""
        self._extra = {"use_cache": False} if "use_cache" in forward_names(encoder) else {}

    @property
    def num_labels(self) -> int:
        """Number of classes."""
        return int(self.head.out_features)

    @property
    def device(self) -> torch.device:
        """Where the head's weights are."""
        device: torch.device = self.head.weight.device
        return device

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """Logits (B, classes) of token ids (B, L); positions with mask 0 are padding."""
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        hidden = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, **types, **self._extra
        ).last_hidden_state
        logits: Tensor = self.head(self.dropout(self.pool(hidden, attention_mask)))
        return logits


def forward_names(model: nn.Module) -> frozenset[str]:
    """The argument names that the model's forward takes by itself (not through ``**kwargs``)."""
    return frozenset(inspect.signature(model.forward).parameters)


def _dropout(config: Any) -> float:
    for name in ("classifier_dropout", "seq_classif_dropout", "hidden_dropout_prob", "hidden_dropout", "resid_pdrop"):
        value = getattr(config, name, None)
        if isinstance(value, (int, float)):
            return float(value)
    return 0.1
