"""Saves of a trained classifier only what differs from the public checkpoint, and restores it exactly.

A release that trained a head is a few kilobytes; one that trained everything holds everything.

>>> _differs(torch.zeros(2), torch.zeros(2)), _differs(torch.zeros(2), None)
(False, True)
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dpeval.errors import StoreError
from dpeval.models.classifier import TextClassifier
from dpeval.models.config import ModelConfig


class Builder(Protocol):
    """What builds the public classifier: a checkpoint, or one seen through a prompt."""

    @property
    def config(self) -> ModelConfig:
        """Where its files are."""
        ...

    def build(self, num_labels: int, seed: int) -> TextClassifier:
        """A fresh classifier."""
        ...


def save_changed(classifier: TextClassifier, checkpoint: Builder, file: Path) -> None:
    """Write the tensors of ``classifier`` that differ from ``checkpoint``'s; StoreError where modules differ."""
    public = checkpoint.build(classifier.num_labels, seed=0).state_dict()
    own = classifier.state_dict()
    if set(own) != set(public):
        odd = sorted(set(own) ^ set(public))
        raise StoreError(
            f"the classifier's modules are not those of {checkpoint.config.source}: {odd[0]} and {len(odd) - 1} more; "
            "merge adapters into the weights before releasing"
        )
    changed = {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in own.items()
        if _differs(tensor.detach().cpu(), public[name])
    }
    save_file(changed, str(file))


def load_changed(classifier: TextClassifier, file: Path) -> None:
    """Put the tensors of ``file`` into ``classifier``, built from the same checkpoint."""
    state = classifier.state_dict()
    stored = load_file(str(file))
    unknown = sorted(set(stored) - set(state))
    if unknown:
        raise StoreError(f"{file}: holds {unknown[0]}, which the checkpoint's classifier does not have")
    classifier.load_state_dict(state | stored)


def _differs(one: Tensor, other: Tensor | None) -> bool:
    return other is None or one.dtype != other.dtype or one.shape != other.shape or not torch.equal(one, other)
