"""The defense plug-in: where the noise goes, how much, and what is trained.

>>> DPForward(training="frozen-fresh", epochs=5).num_releases
5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from dpeval.errors import LeakError
from dpeval.models.bypass import check_release_point
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.dependence import released_shape
from dpeval.models.fit import Forward, Recipe, fit_rows
from dpeval.models.release import TextRelease
from dpeval.plugin import Context, Defense, Release, Task
from dpeval.privacy.steps import default_delta
from dpeval_defenses.dp_forward.accounting import claim_of, plan_noise
from dpeval_defenses.dp_forward.noise import NoisyRelease
from dpeval_defenses.dp_forward.training import (
    NoisyTensors,
    cached_forward,
    clear_forward,
    clear_tensors,
    freeze_before,
    freeze_but_last,
)


@dataclass(frozen=True, kw_only=True)
class DPForward(Defense):
    """Each text leaves the device once, as a noised tensor: sequence-level local privacy for any two texts."""

    source: ClassVar[str] = "Du et al. 2023 (DP-Forward), arXiv:2309.06746"

    position: str = "output"
    """Where the noise is: ``embedding``, ``encoder.I.mha|add_norm_1|ffn|add_norm_2``, ``output``, or a module path."""
    epsilon: float = 8.0
    """Of all releases of one text in training together."""
    delta: float | None = None
    """By default 1/(2N) for N training records."""
    clip: float = 1.0
    """Frobenius norm C of a text's tensor; the sensitivity is 2C."""
    normalise: bool = True
    """Scale to norm C exactly, or only down to at most C."""
    training: Literal["frozen", "frozen-fresh", "trained"] = "frozen"
    """``frozen``: the part before the noise is the public one and each training text is noised once. ``frozen-fresh``:
    noised anew in each epoch, all epochs together within ε. ``trained``: the part before the noise learns from clear
    texts, and the claim covers only the texts sent to the finished model.
    """
    layers_before: int | None = None
    """With ``trained``: how many layers before the noise learn, counted back from it; by default everything."""
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 1e-4
    """Of the pretrained layers after the noise."""
    head_learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if not self.epsilon > 0 or not self.clip > 0:
            raise ValueError(f"expected epsilon > 0 and clip > 0, got {self.epsilon} and {self.clip}")
        if self.delta is not None and not 0 < self.delta < 1:
            raise ValueError(f"delta: expected a number between 0 and 1, got {self.delta}")
        if self.layers_before is not None and not (self.layers_before >= 0 and self.training == "trained"):
            got = f"{self.layers_before} with training = {self.training!r}"
            raise ValueError(f'layers_before: expected 0 or more with training = "trained", got {got}')
        self._recipe()

    @property
    def num_releases(self) -> int:
        """How often each training text is released."""
        return self.epochs if self.training == "frozen-fresh" else 1

    def releases_at(self) -> str | None:
        """The position of the noise."""
        return self.position

    def unfit(self, checkpoint: Checkpoint, num_train: int) -> str | None:
        """The position must exist and must not be one that clear text goes round."""
        del num_train
        why = checkpoint.lacks(self.position)
        if why is None and self.layers_before and "encoder.0.add_norm_2" not in checkpoint.positions():
            return f"layers_before = {self.layers_before}: the layers of this model are not known by name"
        if why is not None or self.position in checkpoint.positions():
            return why
        try:
            check_release_point(checkpoint.build(2, seed=0), self.position, checkpoint)
        except LeakError as error:
            return str(error)
        return None

    def train(self, task: Task, ctx: Context) -> Release:
        """Train what follows the noise on noised tensors; state what that is worth."""
        classifier = task.checkpoint.build(task.num_labels, ctx.seed).to(ctx.device)
        check_release_point(classifier, self.position, task.checkpoint)
        delta = default_delta(len(task.train)) if self.delta is None else self.delta
        plan = plan_noise(epsilon=self.epsilon, delta=delta, clip=self.clip, releases=self.num_releases)
        transform = NoisyRelease(clip=self.clip, sigma=plan.sigma, normalise=self.normalise)
        forward = self._forward(classifier, transform, task, ctx)
        fit_rows(forward, task.train.labels, self._lengths(task), classifier, self._recipe(), ctx)
        rows = released_shape(classifier, self.position, task.checkpoint.max_length).rows
        claim = claim_of(plan, training=self.training, position=self.position, rows=rows, clip=self.clip)
        return TextRelease.of(
            classifier, task.checkpoint, claim=claim, tap=self.position, transform=transform, seed=ctx.seed
        )  # fmt: skip

    def _recipe(self) -> Recipe:
        return Recipe(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            head_learning_rate=self.head_learning_rate,
        )

    def _lengths(self, task: Task) -> Sequence[int]:
        return task.checkpoint.encode(task.train).lengths if self.training == "trained" else [1] * len(task.train)

    def _forward(self, classifier: TextClassifier, transform: NoisyRelease, task: Task, ctx: Context) -> Forward:
        checkpoint, tap = task.checkpoint, self.position
        texts = checkpoint.encode(task.train)
        if self.training == "trained":
            if self.layers_before is not None:
                freeze_but_last(classifier, tap, self.layers_before)

            def end_to_end(rows: Sequence[int], epoch: int) -> Tensor:
                generators = [ctx.generator("training noise", task.train.ids[row], epoch) for row in rows]
                return clear_forward(classifier, tap, texts, transform, checkpoint, generators, rows)

            return end_to_end
        clear = clear_tensors(classifier, texts, tap, checkpoint.max_length)
        freeze_before(classifier, tap)
        rows = released_shape(classifier, tap, checkpoint.max_length).rows
        tensors = NoisyTensors(task.train, clear, transform, rows, self.training == "frozen-fresh", ctx)
        return lambda rows, epoch: cached_forward(classifier, tap, tensors, rows, epoch)
