"""Plain training of a text classifier, the same in every run: batches of like length, AdamW, linear decay.

Dropout draws from torch's global generator, which is seeded from the context for the duration and put back.

>>> linear_decay(0, 10), linear_decay(5, 10)
(1.0, 0.5)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import to_device
from dpeval.plugin import Context
from dpeval.types import Records

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Per-example losses (B,) from logits (B, classes) and labels (B,)."""
Forward: TypeAlias = Callable[[Sequence[int], int], Tensor]
"""Logits of the training examples at the given rows, in the given epoch."""

CHUNK = 16


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How long and how fast to train."""

    epochs: int
    batch_size: int
    learning_rate: float
    """Of the pretrained layers, at the first step."""
    head_learning_rate: float | None = None
    """Of the new head; by default that of the other layers."""
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError(f"expected epochs >= 1 and batch_size >= 1, got {self.epochs} and {self.batch_size}")
        if not (self.learning_rate > 0 and (self.head_learning_rate is None or self.head_learning_rate > 0)):
            rates = f"{self.learning_rate} and {self.head_learning_rate}"
            raise ValueError(f"expected learning rates > 0, got {rates}")


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log-likelihood of each label, shape (B,)."""
    return nn.functional.cross_entropy(logits, labels, reduction="none")


def linear_decay(step: int, steps: int) -> float:
    """The share of the learning rate at ``step``: from one to zero in a straight line."""
    return 1.0 - step / steps


def fit(
    classifier: TextClassifier,
    train: Records,
    *,
    checkpoint: Checkpoint,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    ctx: Context,
    weight_decay: float = 0.0,
    head_learning_rate: float | None = None,
    loss: Loss = cross_entropy,
) -> tuple[float, ...]:
    """Train all parameters that require gradients; leaves the classifier in evaluation mode; mean loss per epoch."""
    texts = checkpoint.encode(train)
    classifier.to(ctx.device)

    def forward(rows: Sequence[int], _epoch: int) -> Tensor:
        logits: Tensor = classifier(**to_device(texts.batch(rows), ctx.device))
        return logits

    recipe = Recipe(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        head_learning_rate=head_learning_rate,
        weight_decay=weight_decay,
    )
    return fit_rows(forward, train.labels, texts.lengths, classifier, recipe, ctx, loss=loss)


def fit_rows(
    forward: Forward,
    labels: Sequence[int],
    lengths: Sequence[int],
    classifier: TextClassifier,
    recipe: Recipe,
    ctx: Context,
    *,
    loss: Loss = cross_entropy,
) -> tuple[float, ...]:
    """The training loop behind :func:`fit`, for any way of getting logits from row numbers.

    ``lengths`` groups rows of like length into batches; give equal ones where that does not matter.
    """
    _check(labels, classifier.num_labels)
    targets = torch.tensor(labels, dtype=torch.long, device=ctx.device)
    optimizer = torch.optim.AdamW(_groups(classifier, recipe), weight_decay=recipe.weight_decay)
    steps = recipe.epochs * -(-len(labels) // recipe.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: linear_decay(step, steps))
    history = []
    with _training(classifier, ctx):
        for epoch in ctx.progress(range(recipe.epochs), "training", recipe.epochs):
            total = 0.0
            for rows in batches_of_like_length(lengths, recipe.batch_size, ctx.rng("order", epoch)):
                optimizer.zero_grad(set_to_none=True)
                losses = loss(forward(rows, epoch), targets[rows])
                losses.mean().backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
                total += float(losses.detach().sum())
            history.append(total / len(labels))
    return tuple(history)


def batches_of_like_length(lengths: Sequence[int], batch_size: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """All rows once, in random batches; within chunks of some batches, rows of like length come together."""
    order = rng.permutation(len(lengths))
    batches: list[list[int]] = []
    for start in range(0, len(order), CHUNK * batch_size):
        chunk = sorted(order[start : start + CHUNK * batch_size].tolist(), key=lambda row: lengths[row])
        batches += [chunk[i : i + batch_size] for i in range(0, len(chunk), batch_size)]
    yield from (batches[i] for i in rng.permutation(len(batches)))


@contextmanager
def _training(classifier: TextClassifier, ctx: Context) -> Iterator[None]:
    """Training mode with dropout seeded from ``ctx``; then evaluation mode and the global generators as they were."""
    devices = [ctx.device] if ctx.device.type == "cuda" else []
    classifier.train()
    try:
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(ctx.rng("dropout").integers(2**63)))
            yield
    finally:
        classifier.eval()


def _groups(model: TextClassifier, recipe: Recipe) -> list[dict[str, object]]:
    head = {id(p) for p in model.head.parameters()}
    body = [p for p in model.parameters() if p.requires_grad and id(p) not in head]
    groups: list[dict[str, object]] = [{"params": body, "lr": recipe.learning_rate}] if body else []
    return [*groups, {"params": list(model.head.parameters()), "lr": recipe.head_learning_rate or recipe.learning_rate}]


def _check(labels: Sequence[int], classes: int) -> None:
    if not labels:
        raise ValueError("fit: expected at least one training record, got none")
    bad = sorted({label for label in labels if not 0 <= label < classes})
    if bad:
        raise ValueError(f"fit: expected labels 0..{classes - 1}, got {bad[:5]}")
