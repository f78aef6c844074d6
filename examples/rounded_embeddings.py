"""A defense in a file of its own: what leaves the device is rounded to a few levels. Run with ``--plugin``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from dpeval.models.fit import fit
from dpeval.models.release import TextRelease
from dpeval.models.transform import Transform
from dpeval.plugin import Context, Defense, Release, Task
from dpeval.types import NoClaim


@dataclass(frozen=True)
class Rounding(Transform):
    """Divides by the largest entry and rounds to ``levels`` steps each side: 1 keeps little more than signs."""

    levels: int

    def apply(self, x: torch.Tensor, generators: Sequence[torch.Generator]) -> torch.Tensor:
        """The rounded tensor; no randomness is used."""
        del generators
        scale = x.abs().amax(dim=(1, 2), keepdim=True).clamp(min=1e-12) / self.levels
        return (x / scale).round() * scale


@dataclass(frozen=True, kw_only=True)
class RoundedEmbeddings(Defense):
    """Fine-tunes as usual; the embedding at ``position`` leaves the device rounded."""

    source: ClassVar[str] = "Zhuang et al. 2024, arXiv:2402.12784 (quantised embeddings against inversion)"
    position: str = "output"
    levels: int = 2
    epochs: int = 3

    def train(self, task: Task, ctx: Context) -> Release:
        """Fine-tune, then release behind the rounding."""
        model = task.checkpoint.build(task.num_labels, ctx.seed)
        fit(
            model,
            task.train,
            checkpoint=task.checkpoint,
            epochs=self.epochs,
            batch_size=16,
            learning_rate=1e-4,
            ctx=ctx,
        )
        claim = NoClaim("rounding promises nothing formal")
        return TextRelease.of(
            model, task.checkpoint, claim=claim, tap=self.position, transform=Rounding(self.levels), seed=ctx.seed
        )

    def releases_at(self) -> str:
        """Where the rounded tensor leaves."""
        return self.position
