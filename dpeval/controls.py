"""The two models by which every attack is itself tested: one that must be broken, one that must not.

An attack that cannot break an over-fitted undefended model on these data says nothing by failing elsewhere; one that
"breaks" a model that never saw the data is broken itself (validity guard V5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpeval.models.fit import fit
from dpeval.models.release import TextRelease
from dpeval.plugin import Context, Defense, Release, Task
from dpeval.types import NoClaim


@dataclass(frozen=True, kw_only=True)
class OverfitControl(Defense):
    """Positive control for membership: fully fine-tuned without protection, until it has memorised its members.

    Rounds of ``epochs`` go on, each with a larger learning rate, until the training loss is below ``memorised``: what
    over-fits one model leaves a smaller or larger one untouched.
    """

    source: ClassVar[str] = "Carlini et al. 2022, arXiv:2112.03570, §VI (over-fitting makes membership easy)"
    version: ClassVar[int] = 2
    epochs: int = 10
    batch_size: int = 16
    learning_rates: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3)
    memorised: float = 0.05

    def train(self, task: Task, ctx: Context) -> Release:
        """Fit until memorised."""
        classifier = task.checkpoint.build(task.num_labels, ctx.seed)
        for rate in self.learning_rates:
            losses = fit(
                classifier,
                task.train,
                checkpoint=task.checkpoint,
                epochs=self.epochs,
                batch_size=self.batch_size,
                learning_rate=rate,
                ctx=ctx,
            )
            if losses[-1] < self.memorised:
                break
        return TextRelease.of(classifier, task.checkpoint, claim=NoClaim("a control, not a defense"), seed=ctx.seed)


@dataclass(frozen=True, kw_only=True)
class UntrainedControl(Defense):
    """Negative control for membership and clear release for the embedding attacks: the public base, never trained."""

    source: ClassVar[str] = "Aerni et al. 2024, arXiv:2404.17399"

    def train(self, task: Task, ctx: Context) -> Release:
        """Build, do not train."""
        classifier = task.checkpoint.build(task.num_labels, ctx.seed)
        return TextRelease.of(classifier, task.checkpoint, claim=NoClaim("a control, not a defense"), seed=ctx.seed)
