"""The defense ``dp-adam``: a classifier fine-tuned with differential privacy for each training record.

>>> DPAdam(epsilon=3.0).delta_for(1000)
0.0005
>>> DPAdam(noise_multiplier=1.0).epsilon is None
True
>>> DPAdam(epsilon=3.0, noise_multiplier=1.0)
Traceback (most recent call last):
    ...
ValueError: dp-adam: epsilon and noise_multiplier exclude each other; got epsilon=3.0 and noise_multiplier=1.0
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from dpeval.errors import ModelError
from dpeval.models.checkpoint import Checkpoint
from dpeval.plugin import Context, Defense, Task
from dpeval.privacy.claims import Detail
from dpeval.types import Dataset, Records
from dpeval_defenses.dp_adam.accounting import Accounting, Plan
from dpeval_defenses.dp_adam.adapt import Adapted, adapt_classifier, parse_adapt
from dpeval_defenses.dp_adam.checks import check_settings
from dpeval_defenses.dp_adam.clipping import ClippedGradients
from dpeval_defenses.dp_adam.features import Source
from dpeval_defenses.dp_adam.infilling import Infilling, infilling_for
from dpeval_defenses.dp_adam.noise import Noise, SecureNoise, SeededNoise
from dpeval_defenses.dp_adam.problem import problem_of
from dpeval_defenses.dp_adam.prompted import PromptedRelease
from dpeval_defenses.dp_adam.rates import default_rates
from dpeval_defenses.dp_adam.release import DPAdamRelease
from dpeval_defenses.dp_adam.resume import finish_in
from dpeval_defenses.dp_adam.sampler import FixedSizeSampler, PoissonSampler, Sampler
from dpeval_defenses.dp_adam.settings import Schedule, TrainSettings
from dpeval_defenses.dp_adam.trainer import PerExampleLoss, PrivateTrainer, finish
from dpeval_defenses.dp_adam.unfit import why_unfit


@dataclass(frozen=True, kw_only=True)
class DPAdam(Defense):
    """DP-Adam with exact per-example clipping: each training record, with its label, is protected in the weights.

    The trainer is trusted and sees the data; whoever gets the model is the adversary. Embeddings and predictions at
    inference are computed in the clear: this defense protects training records, not the texts that users send later.
    Dropout stays as the checkpoint has it while training (each example draws its own mask) and is off afterwards.
    """

    source: ClassVar[str] = "Li, Tramèr, Liang and Hashimoto 2022, arXiv 2110.05679"
    version: ClassVar[int] = 2

    epsilon: float | None = None
    """The target; the noise is chosen so that the ε of the steps taken is at most this. 8 unless noise is given."""
    noise_multiplier: float | None = None
    """The deviation of the noise in units of ``clip``, instead of ``epsilon``; 0 trains without any guarantee."""
    delta: float | None = None
    """By default 1/(2N) for N training records."""
    clip: float = 0.1
    """The largest norm that one record's gradient keeps."""
    epochs: int = 3
    """Passes over the data, ⌈N / batch_size⌉ steps each."""
    steps: int | None = None
    """The number of steps, instead of ``epochs``."""
    batch_size: int = 256
    """The expected number of records in a step; from N on, every step takes all records."""
    micro_batch: int = 32
    """At most so many records go through the model at once; a step may take many times more."""
    learning_rate: float | None = None
    """By default one that suits ``adapt``: 5e-4 for full, last-K and rgp, 1e-3 for lora and bitfit, 0.1 for a head."""
    head_learning_rate: float | None = None
    """By default the same as a given ``learning_rate``; where none is given, 0.1 for a new head (see ``rates``)."""
    weight_decay: float = 0.0
    """Decoupled from the gradient."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    schedule: Schedule = "linear"
    """How the learning rate goes on after its warm-up: linear or cosine down to zero, or constant."""
    warmup: float = 0.0
    """The share of the steps in which the learning rate rises to its full value."""
    adapt: str = "full"
    """What trains: full, lora, prefix, bitfit, last-K (the last K layers), head, or rgp; a new head always does."""
    lora_rank: int = 8
    prefix_length: int = 10
    rgp_rank: int = 1
    """Rank of the gradient carriers of reparametrised gradient perturbation (Yu et al. 2021)."""
    objective: Literal["head", "infilling"] = "head"
    """head: a new linear head; infilling: a masked language model fills a word in, one word for each class."""
    template: str | None = None
    """With infilling, a text with {text} (pairs: {first}, {second}) and one [MASK]; by default the paper's."""
    label_words: tuple[str, ...] = ()
    """With infilling, a word of one token for each class, in the order of the classes; by default the paper's."""
    accountant: Literal["pld", "rdp", "gdp-clt"] = "pld"
    """pld: tight bound; rdp: looser bound; gdp-clt: an approximation, labelled as one."""
    adjacency: Literal["add-or-remove-one", "replace-one"] = "add-or-remove-one"
    sampling: Literal["poisson", "fixed"] = "poisson"
    """fixed: exactly ``batch_size`` records a step; needs accountant rdp and adjacency replace-one."""
    clipping: Literal["book-keeping", "two-pass", "per-layer"] = "book-keeping"
    secure_noise: bool = False
    """Noise and draws from the operating system's entropy; such a run cannot be repeated."""

    def __post_init__(self) -> None:
        if self.epsilon is not None and self.noise_multiplier is not None:
            raise ValueError(
                "dp-adam: epsilon and noise_multiplier exclude each other; "
                f"got epsilon={self.epsilon} and noise_multiplier={self.noise_multiplier}"
            )
        if self.epsilon is None and self.noise_multiplier is None:
            object.__setattr__(self, "epsilon", 8.0)
        check_settings(self)
        parse_adapt(self.adapt)
        self.accounting.check()

    @property
    def rates(self) -> tuple[float, float]:
        """The learning rates of what is pretrained and of the head."""
        body, head = self.learning_rate, self.head_learning_rate
        if body is None:
            usual = default_rates(
                parse_adapt(self.adapt).kind,
                new_head=self.objective == "head",
                optimizer=self.optimizer,
                clip=self.clip,
            )
            return usual[0], usual[1] if head is None else head
        return body, body if head is None else head

    @property
    def accounting(self) -> Accounting:
        """The part of the settings that decides ε."""
        return Accounting(
            epsilon=self.epsilon, noise_multiplier=self.noise_multiplier, delta=self.delta, clip=self.clip,
            epochs=self.epochs, steps=self.steps, batch_size=self.batch_size, accountant=self.accountant,
            adjacency=self.adjacency, sampling=self.sampling,
        )  # fmt: skip

    def delta_for(self, num_train: int) -> float:
        """δ for ``num_train`` records."""
        return self.accounting.delta_for(num_train)

    def unfit(self, checkpoint: Checkpoint, num_train: int) -> str | None:
        """Why these settings cannot be trained on this model and so many records, or ``None``."""
        return self.accounting.unfit(num_train) or why_unfit(
            checkpoint, parse_adapt(self.adapt), prefix_length=self.prefix_length, rgp_rank=self.rgp_rank,
            prompt=self.objective == "infilling", template=self.template, words=self.label_words,
        )  # fmt: skip

    def unfit_data(self, dataset: Dataset, checkpoint: Checkpoint) -> str | None:
        """Why these settings cannot be trained on these records, or ``None``."""
        if self.objective == "head":
            return None
        try:
            self._source(checkpoint, dataset.records, len(dataset.label_names))
        except (ModelError, ValueError) as error:
            return str(error)
        return None

    def train(self, task: Task, ctx: Context) -> DPAdamRelease:
        """Fine-tune the public checkpoint on ``task.train``; the claim is that of the steps really taken.

        Where ``ctx`` offers a scratch folder, a training that was stopped goes on from there, to the same end.
        """
        plan = self.accounting.plan(len(task.train))
        source = self._source(task.checkpoint, task.train, task.num_labels)
        classifier = source.build(task.num_labels, int(ctx.rng("dp-adam", "head").integers(2**31)))
        classifier.to(ctx.device)
        adapted = adapt_classifier(
            classifier, parse_adapt(self.adapt), rank=self.lora_rank, prefix_length=self.prefix_length,
            generator=ctx.generator("dp-adam", "adapters"), rgp_rank=self.rgp_rank,
        )  # fmt: skip
        trainer = self._trainer(*problem_of(classifier, adapted, task, source, ctx.device), adapted, plan, ctx)
        _run(trainer, plan.steps, ctx)
        adapted.finish()
        claim = self.accounting.claim(
            plan, steps_taken=trainer.steps_taken, trained=adapted.trained_parameters,
            repeatable=not self.secure_noise, also=(*_wording(source), *self._grouping(trainer.sensitivity)),
        )  # fmt: skip
        kept: dict[str, Any] = {"trained_parameters": adapted.trained_parameters, "log": tuple(trainer.log)}
        if isinstance(source, Infilling):
            return PromptedRelease(classifier.eval(), task.checkpoint, claim, prompt=source, **kept)
        return DPAdamRelease(classifier.eval(), task.checkpoint, claim, **kept)

    def _source(self, checkpoint: Checkpoint, records: Records, num_labels: int) -> Source:
        if self.objective == "head":
            return checkpoint
        return infilling_for(checkpoint, records, num_labels, self.template, self.label_words)

    def _trainer(
        self, model: torch.nn.Module, loss: PerExampleLoss, adapted: Adapted, plan: Plan, ctx: Context
    ) -> PrivateTrainer:
        return PrivateTrainer(
            model,
            loss,
            self._sampler(plan.num_records, plan.sampling_rate, ctx),
            self._noise(ctx),
            self._settings(plan.steps, plan.noise_multiplier, ctx),
            engine=functools.partial(ClippedGradients, mode=self.clipping),
            carrier=adapted.carrier,
        )

    def _grouping(self, sensitivity: float) -> tuple[Detail, ...]:
        if self.clipping != "per-layer":
            return ()
        return (("clipping", "each module to its own bound"), ("norm of all bounds together", sensitivity))

    def _sampler(self, num_records: int, rate: float, ctx: Context) -> Sampler:
        entropy = secrets.randbits(128) if self.secure_noise else _entropy(ctx, "draws")
        if self.sampling == "fixed":
            return FixedSizeSampler(num_records, min(self.batch_size, num_records), entropy)
        return PoissonSampler(num_records, rate, entropy)

    def _noise(self, ctx: Context) -> Noise:
        return SecureNoise() if self.secure_noise else SeededNoise(_entropy(ctx, "noise"))

    def _settings(self, steps: int, noise_multiplier: float, ctx: Context) -> TrainSettings:
        return TrainSettings(
            steps=steps, max_norm=self.clip, noise_multiplier=noise_multiplier,
            learning_rate=self.rates[0], head_learning_rate=self.rates[1],
            weight_decay=self.weight_decay, optimizer=self.optimizer, schedule=self.schedule,
            warmup=round(self.warmup * steps),
            micro_batch=self.micro_batch, dropout_entropy=_entropy(ctx, "dropout"),
        )  # fmt: skip


def _run(trainer: PrivateTrainer, steps: int, ctx: Context) -> None:
    """All steps, with checkpoints in the scratch folder if there is one."""
    scratch: Path | None = getattr(ctx, "scratch", None)

    def progress(left: Iterable[int]) -> Iterable[int]:
        return ctx.progress(left, what="dp-adam", total=steps - trainer.steps_taken)

    if scratch is None:
        finish(trainer, progress)
    else:
        finish_in(scratch / "dp-adam", trainer, progress)


def _wording(source: Source) -> tuple[Detail, ...]:
    if not isinstance(source, Infilling):
        return ()
    return (("template", source.template), ("label words", ", ".join(source.label_words)))


def _entropy(ctx: Context, name: str) -> int:
    """128 bits from the run's seed, for one purpose."""
    return int.from_bytes(ctx.rng("dp-adam", name).bytes(16), "little")
