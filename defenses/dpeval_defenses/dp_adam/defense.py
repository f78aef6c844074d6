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
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import to_device
from dpeval.models.fit import cross_entropy
from dpeval.plugin import Context, Defense, Task
from dpeval.types import Ints, Records
from dpeval_defenses.dp_adam.accounting import Accounting
from dpeval_defenses.dp_adam.adapt import Adapted, adapt_classifier, parse_adapt
from dpeval_defenses.dp_adam.clipping import ClippedGradients
from dpeval_defenses.dp_adam.features import Head, pooled_features
from dpeval_defenses.dp_adam.noise import Noise, SecureNoise, SeededNoise
from dpeval_defenses.dp_adam.release import DPAdamRelease
from dpeval_defenses.dp_adam.sampler import FixedSizeSampler, PoissonSampler, Sampler
from dpeval_defenses.dp_adam.settings import TrainSettings
from dpeval_defenses.dp_adam.trainer import PerExampleLoss, train_private
from dpeval_defenses.dp_adam.unfit import why_unfit


@dataclass(frozen=True, kw_only=True)
class DPAdam(Defense):
    """DP-Adam with exact per-example clipping: each training record, with its label, is protected in the weights.

    The trainer is trusted and sees the data; whoever gets the model is the adversary. Embeddings and predictions at
    inference are computed in the clear: this defense protects training records, not the texts that users send later.
    Dropout stays as the checkpoint has it while training (each example draws its own mask) and is off afterwards.
    """

    source: ClassVar[str] = "Li, Tramèr, Liang and Hashimoto 2022, arXiv 2110.05679"
    version: ClassVar[int] = 1

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
    learning_rate: float = 5e-4
    head_learning_rate: float | None = None
    """A new head wants a larger rate than pretrained weights when steps are few; by default the same."""
    weight_decay: float = 0.0
    """Decoupled from the gradient."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    schedule: Literal["linear", "constant"] = "linear"
    adapt: str = "full"
    """What trains: full, lora, prefix, bitfit, last-K (the last K layers) or head; the head always does."""
    lora_rank: int = 8
    prefix_length: int = 10
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
        _check_numbers(self)
        parse_adapt(self.adapt)
        self.accounting.check()

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
            checkpoint, parse_adapt(self.adapt), prefix_length=self.prefix_length
        )

    def train(self, task: Task, ctx: Context) -> DPAdamRelease:
        """Fine-tune the public checkpoint on ``task.train``; the claim is that of the steps really taken."""
        plan = self.accounting.plan(len(task.train))
        classifier = task.checkpoint.build(task.num_labels, seed=int(ctx.rng("dp-adam", "head").integers(2**31)))
        classifier.to(ctx.device)
        adapted = adapt_classifier(
            classifier, parse_adapt(self.adapt), rank=self.lora_rank, prefix_length=self.prefix_length,
            generator=ctx.generator("dp-adam", "adapters"),
        )  # fmt: skip
        model, loss = self._problem(classifier, adapted, task, ctx)
        log = train_private(
            model,
            loss,
            self._sampler(len(task.train), plan.sampling_rate, ctx),
            self._noise(ctx),
            self._settings(plan.steps, plan.noise_multiplier, ctx),
            engine=functools.partial(ClippedGradients, mode=self.clipping),
            progress=functools.partial(ctx.progress, what="dp-adam", total=plan.steps),
        )
        adapted.finish()
        claim = self.accounting.claim(
            plan, steps_taken=len(log), trained=adapted.trained_parameters, repeatable=not self.secure_noise
        )
        return DPAdamRelease(
            classifier.eval(), task.checkpoint, claim, trained_parameters=adapted.trained_parameters, log=tuple(log)
        )

    def _problem(
        self, classifier: TextClassifier, adapted: Adapted, task: Task, ctx: Context
    ) -> tuple[torch.nn.Module, PerExampleLoss]:
        """What trains, and its loss; a head alone trains on the encoder's outputs, computed once."""
        if all(name.startswith("head.") for name in adapted.trained):
            return head_problem(classifier, task, ctx.device)
        return classifier, text_loss(classifier, task, ctx.device)

    def _sampler(self, num_records: int, rate: float, ctx: Context) -> Sampler:
        entropy = secrets.randbits(128) if self.secure_noise else _entropy(ctx, "draws")
        if self.sampling == "fixed":
            return FixedSizeSampler(num_records, min(self.batch_size, num_records), entropy)
        return PoissonSampler(num_records, rate, entropy)

    def _noise(self, ctx: Context) -> Noise:
        return SecureNoise() if self.secure_noise else SeededNoise(_entropy(ctx, "noise"))

    def _settings(self, steps: int, noise_multiplier: float, ctx: Context) -> TrainSettings:
        return TrainSettings(
            steps=steps, max_norm=self.clip, noise_multiplier=noise_multiplier, learning_rate=self.learning_rate,
            head_learning_rate=self.head_learning_rate,
            weight_decay=self.weight_decay, optimizer=self.optimizer, schedule=self.schedule,
            micro_batch=self.micro_batch, dropout_entropy=_entropy(ctx, "dropout"),
        )  # fmt: skip


def text_loss(classifier: TextClassifier, task: Task, device: torch.device) -> PerExampleLoss:
    """Cross-entropy of each text through the whole classifier. Positions count texts from the shortest to the longest,
    so that micro-batches hold texts of like length."""
    texts, targets = task.checkpoint.encode(task.train), _targets(task, device)
    by_length = np.argsort(texts.lengths, kind="stable")

    def loss(positions: Ints) -> torch.Tensor:
        rows = by_length[positions].tolist()
        return cross_entropy(classifier(**to_device(texts.batch(rows), device)), targets[rows])

    return loss


def head_problem(
    classifier: TextClassifier, task: Task, device: torch.device
) -> tuple[torch.nn.Module, PerExampleLoss]:
    """The head as a model of its own, and cross-entropy of each text from the frozen encoder's outputs."""
    model = Head(classifier.dropout, classifier.head)
    targets = _targets(task, device)
    by_length = np.argsort(task.checkpoint.encode(task.train).lengths, kind="stable")
    features = pooled_features(task.checkpoint, task.train.texts, device)

    def loss(positions: Ints) -> torch.Tensor:
        rows = by_length[positions].tolist()
        return cross_entropy(model(features[rows]), targets[rows])

    return model, loss


def _targets(task: Task, device: torch.device) -> torch.Tensor:
    _check_labels(task.train, task.num_labels)
    return torch.tensor(task.train.labels, dtype=torch.long, device=device)


def _check_labels(records: Records, num_labels: int) -> None:
    bad = sorted({label for label in records.labels if not 0 <= label < num_labels})
    if bad:
        raise ValueError(f"dp-adam: expected labels 0..{num_labels - 1}, got {bad[:5]}")


def _entropy(ctx: Context, name: str) -> int:
    """128 bits from the run's seed, for one purpose."""
    return int.from_bytes(ctx.rng("dp-adam", name).bytes(16), "little")


def _check_numbers(defense: DPAdam) -> None:
    """The rest of the numbers are checked where they are used."""
    for name in ("lora_rank", "prefix_length", "batch_size", "micro_batch", "epochs"):
        if getattr(defense, name) < 1:
            raise ValueError(f"dp-adam: expected {name} >= 1, got {getattr(defense, name)}")
    for name in ("clip", "learning_rate"):
        if not 0 < getattr(defense, name) < float("inf"):
            raise ValueError(f"dp-adam: expected {name} > 0, got {getattr(defense, name)}")
    if defense.head_learning_rate is not None and not 0 < defense.head_learning_rate < float("inf"):
        raise ValueError(f"dp-adam: expected head_learning_rate > 0, got {defense.head_learning_rate}")
    if not 0 <= defense.weight_decay < float("inf"):
        raise ValueError(f"dp-adam: expected weight_decay >= 0, got {defense.weight_decay}")
