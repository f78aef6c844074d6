"""No defense: plain fine-tuning, the reference for accuracy and for what every attack can reach.

>>> Undefended(epochs=1).adapt
'full'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import to_device
from dpeval.models.fit import Recipe, fit, fit_rows
from dpeval.models.release import TextRelease
from dpeval.models.taps import capture, forward_from
from dpeval.plugin import Context, Defense, Release, Task
from dpeval.types import NoClaim


@dataclass(frozen=True, kw_only=True)
class Undefended(Defense):
    """Fine-tunes the encoder and a new head, or the head alone, without any protection."""

    source: ClassVar[str] = "Devlin et al. 2019, arXiv:1810.04805, section 4 (fine-tuning)"

    adapt: Literal["full", "head"] = "full"
    epochs: int = 3
    batch_size: int = 16
    learning_rate: float = 1e-4
    """Of the pretrained layers."""
    head_learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        Recipe(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            head_learning_rate=self.head_learning_rate,
        )

    def train(self, task: Task, ctx: Context) -> Release:
        """Fine-tune on the members."""
        classifier = task.checkpoint.build(task.num_labels, ctx.seed).to(ctx.device)
        if self.adapt == "head":
            self._fit_head(classifier, task, ctx)
        else:
            fit(
                classifier, task.train, checkpoint=task.checkpoint, epochs=self.epochs, batch_size=self.batch_size,
                learning_rate=self.learning_rate, head_learning_rate=self.head_learning_rate, ctx=ctx,
            )  # fmt: skip
        return TextRelease.of(classifier, task.checkpoint, claim=NoClaim("no defense is applied"), seed=ctx.seed)

    def _fit_head(self, classifier: TextClassifier, task: Task, ctx: Context) -> None:
        classifier.encoder.requires_grad_(False)
        pooled = _pooled(classifier, task, ctx)

        def forward(rows: Sequence[int], _epoch: int) -> Tensor:
            return forward_from(classifier, "output", pooled[list(rows)])

        recipe = Recipe(epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.head_learning_rate)
        fit_rows(forward, task.train.labels, [1] * len(pooled), classifier, recipe, ctx)


def _pooled(classifier: TextClassifier, task: Task, ctx: Context) -> Tensor:
    """The pooled vector of each member, shape (N, 1, d); the frozen encoder runs once."""
    out = torch.empty(len(task.train), 1, task.checkpoint.hidden_size, device=ctx.device)
    texts = task.checkpoint.encode(task.train)
    with torch.no_grad():
        for rows, batch in texts.evaluation_batches(task.checkpoint.max_length):
            out[rows] = capture(classifier, to_device(batch, ctx.device), "output")[: len(rows)]
    return out
