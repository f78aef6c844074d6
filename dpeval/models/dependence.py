"""What depends on what across a tap: the shape that is released, and which parameters lie before and after.

Told by running the model on two tokens, not by names: a parameter lies before the tap if the tapped tensor has a
gradient in it, after the tap if the logits have one once that tensor is given. A shared one lies on both sides.

>>> Shape(rows=64, width=384).rows
64
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import Batch
from dpeval.models.taps import capture, forward_from


@dataclass(frozen=True)
class Shape:
    """Rows and columns of one text's released tensor."""

    rows: int
    width: int


def released_shape(model: TextClassifier, tap: str, length: int) -> Shape:
    """The shape at ``tap`` when texts have ``length`` tokens; one row for a pooled position."""
    with torch.no_grad():
        probe = capture(model, _probe(model), tap)
    return Shape(rows=1 if probe.shape[1] == 1 else length, width=probe.shape[2])


def is_pooled(checkpoint: Checkpoint, tap: str) -> bool:
    """Whether one row is released for a whole text at ``tap``; False for a tap that this model does not know."""
    if tap in checkpoint.positions():
        return tap == "output"
    if checkpoint.lacks(tap) is not None:
        return False
    return released_shape(checkpoint.build(2, seed=0), tap, 2).rows == 1


def parameters_before(model: TextClassifier, tap: str) -> set[str]:
    """Names of the parameters that the tapped tensor depends on, frozen or not."""
    return _used(model, lambda: capture(model, _probe(model), tap))


def parameters_after(model: TextClassifier, tap: str) -> set[str]:
    """Names of the parameters that the logits depend on once the tapped tensor is given, frozen or not."""
    shape = released_shape(model, tap, 2)
    return _used(model, lambda: forward_from(model, tap, torch.ones(1, shape.rows, shape.width, device=model.device)))


def _probe(model: TextClassifier) -> Batch:
    ids = torch.tensor([[0, 1]], device=model.device)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _used(model: TextClassifier, run: Callable[[], Tensor]) -> set[str]:
    named = list(model.named_parameters())
    trainable = [p.requires_grad for _, p in named]
    try:
        model.requires_grad_(True)
        with torch.enable_grad():
            grads = torch.autograd.grad(run().sum(), [p for _, p in named], allow_unused=True)
    finally:
        for (_, parameter), flag in zip(named, trainable, strict=True):
            parameter.requires_grad_(flag)
    return {name for (name, _), grad in zip(named, grads, strict=True) if grad is not None}
