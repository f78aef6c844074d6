"""Causal language models, on the target part only: the loss of each text is the mean over its own target tokens.

The mean that a transformers model returns for ``labels`` is over all target tokens of a batch. That couples the texts:
one text changes the weight of every other, and clipping bounds nothing (a sensitivity of 1.33 C was measured). Here
each text is divided by the number of its own targets, which is what one record's loss can be (Li et al. 2022, §4).

A private run on a table-to-text task, from token ids of prompts and targets::

    texts = TargetTexts.of(prompts, targets, pad_id=tokenizer.pad_token_id, end_id=tokenizer.eos_token_id)
    sampler = PoissonSampler(len(texts), expected_rate(256, len(texts)), entropy=secrets.randbits(128))
    settings = TrainSettings(steps=100, max_norm=0.1, noise_multiplier=sigma, learning_rate=2e-3, micro_batch=16)
    log = train_private(model, causal_loss(model, texts), sampler, SecureNoise(), settings)

``examples/private_generation.py`` does it from data to claim.

>>> logits = torch.zeros(2, 3, 8)
>>> target_loss(logits, torch.tensor([[-100, 5, 6], [-100, -100, 7]])).exp().tolist()
[8.0, 8.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dpeval.types import Ints
from dpeval_defenses.dp_adam.trainer import PerExampleLoss

IGNORED = -100


def target_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy (B,) of each text's next tokens, from logits (B, L, V) and labels (B, L).

    Labels are token ids at their own places, -100 where there is no target; a text without targets has loss 0. The
    first place is never predicted.
    """
    if logits.ndim != 3 or labels.shape != logits.shape[:2]:
        shapes = f"{tuple(logits.shape)}, {tuple(labels.shape)}"
        raise ValueError(f"target_loss: expected logits (B, L, V) and labels (B, L), got {shapes}")
    # The labels are moved, not the logits: slicing the logits would copy a tensor of B x L x V.
    wanted = torch.cat([labels[:, 1:], labels.new_full((len(labels), 1), IGNORED)], dim=1)
    losses = nn.functional.cross_entropy(
        logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED, reduction="none"
    ).view(wanted.shape)
    return losses.sum(dim=1) / (wanted != IGNORED).sum(dim=1).clamp(min=1)


@dataclass(frozen=True, eq=False)
class TargetTexts:
    """Token ids of prompts followed by targets; only the targets count. Padding is on the right."""

    ids: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]
    """Where each text's target begins."""
    pad_id: int

    @classmethod
    def of(
        cls,
        prompts: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        pad_id: int,
        end_id: int | None = None,
        max_length: int | None = None,
    ) -> TargetTexts:
        """Join prompts and targets, with ``end_id`` after each target; what exceeds ``max_length`` is cut off the end.

        ValueError where a prompt is empty (nothing to predict the first target from) or a target is cut away whole.
        """
        if len(prompts) != len(targets):
            raise ValueError(f"TargetTexts: {len(prompts)} prompts but {len(targets)} targets")
        end = () if end_id is None else (end_id,)
        joined = tuple((*p, *t, *end)[:max_length] for p, t in zip(prompts, targets, strict=True))
        for i, (prompt, text) in enumerate(zip(prompts, joined, strict=True)):
            if not 0 < len(prompt) < len(text):
                raise ValueError(
                    f"TargetTexts: text {i} has a prompt of {len(prompt)} tokens and {len(text)} tokens in all; "
                    "expected at least one of the prompt and one of the target within max_length"
                )
        return cls(joined, tuple(map(len, prompts)), pad_id)

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """``input_ids``, ``attention_mask`` and ``labels``, each (B, L), of the texts at ``rows``."""
        width = max(len(self.ids[i]) for i in rows)
        ids = torch.full((len(rows), width), self.pad_id)
        labels = torch.full((len(rows), width), IGNORED)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for row, i in enumerate(rows):
            text, start = torch.tensor(self.ids[i]), self.starts[i]
            ids[row, : len(text)], mask[row, : len(text)] = text, 1
            labels[row, start : len(text)] = text[start:]
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def causal_loss(model: Any, texts: TargetTexts) -> PerExampleLoss:
    """What ``PrivateTrainer`` takes as its loss, for a transformers causal LM on ``texts``."""
    device = next(model.parameters()).device

    def loss(positions: Ints) -> Tensor:
        batch = {name: tensor.to(device) for name, tensor in texts.batch(positions.tolist()).items()}
        labels = batch.pop("labels")
        return target_loss(model(**batch, use_cache=False).logits, labels)

    return loss
