"""Texts of random tokens that try a release point: alike in nothing that the point must hide.

>>> _row([5, 6], width=4, pad=0, left=True)
([0, 0, 5, 6], [0, 0, 1, 1])
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.encoding import Batch, to_device

LENGTH = 24


def same_shape_texts(checkpoint: Checkpoint, device: torch.device) -> list[Batch]:
    """Three texts of one batch shape with every token in view: two that fill it, one of half the length."""
    draw = torch.Generator().manual_seed(0)
    width = min(LENGTH, checkpoint.max_length)
    batches = []
    for length in (width, width, max(2, width // 2)):
        ids = torch.full((1, width), checkpoint.pad_id)
        ids[0, :length] = _tokens(checkpoint, length, draw)
        batches.append(_batch(checkpoint, ids, torch.ones_like(ids), draw, device))
    return batches


def differing_texts(checkpoint: Checkpoint, device: torch.device) -> list[Batch]:
    """Four texts that differ in tokens, length, batch width, padding (none, right, left), mask and token types."""
    draw = torch.Generator().manual_seed(1)
    width = min(LENGTH, checkpoint.max_length)
    batches = []
    for length, columns, left in ((width, width, False), (width // 2, width, False), (2, width, True), (3, 4, False)):
        tokens = _tokens(checkpoint, min(length, columns), draw).tolist()
        ids, mask = _row(tokens, width=columns, pad=checkpoint.pad_id, left=left)
        batches.append(_batch(checkpoint, torch.tensor([ids]), torch.tensor([mask]), draw, device))
    return batches


def _row(tokens: list[int], *, width: int, pad: int, left: bool) -> tuple[list[int], list[int]]:
    padding, seen = [pad] * (width - len(tokens)), [1] * len(tokens)
    hidden = [0] * len(padding)
    return (padding + tokens, hidden + seen) if left else (tokens + padding, seen + hidden)


def _tokens(checkpoint: Checkpoint, length: int, draw: torch.Generator) -> Tensor:
    return torch.randint(0, checkpoint.vocab_size, (length,), generator=draw)


def _batch(checkpoint: Checkpoint, ids: Tensor, mask: Tensor, draw: torch.Generator, device: torch.device) -> Batch:
    types = {"token_type_ids": torch.randint(0, 2, ids.shape, generator=draw)} if checkpoint.takes_types else {}
    return to_device({"input_ids": ids, "attention_mask": mask, **types}, device)
