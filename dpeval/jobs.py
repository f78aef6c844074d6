"""The units of work: one release to train, and everything that is then asked of it.

A :class:`Job` is frozen and carries all it needs, so that any process can do it and the result depends on nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from dpeval.config import Named
from dpeval.data.perturb import perturbed
from dpeval.identity import key_of, plugin_identity
from dpeval.models.config import ModelConfig
from dpeval.plugin import Attack, Defense, MembershipAttack
from dpeval.types import Failed, Records, Split

Role = Literal["", "positive", "negative"]
JobKey: TypeAlias = tuple[int, int, str, int]


@dataclass(frozen=True)
class Trial:
    """One attack at one tap (``None`` for attacks on predictions), as a cell of the matrix or as a control."""

    attack: Named
    tap: str | None
    role: Role = ""

    @property
    def name(self) -> str:
        """A name that is unique within its job."""
        return "|".join([self.attack.label, self.tap or "", self.role])


@dataclass(frozen=True)
class Job:
    """Train (or fetch) one release and run its trials."""

    defense: Named
    data: int
    model: int
    seed: int
    split: Split
    num_labels: int
    num_attribute_values: int
    trials: tuple[Trial, ...]
    inversion_targets: Records
    """Whose embeddings are intercepted to recover their text: members first, then non-members."""
    attribute_targets: Records
    """Whose embeddings are intercepted to infer their attribute: every candidate that has one."""
    control: bool = False
    audit: bool = False
    """Whether to test a local claim of this release by repeated queries."""
    shadow: bool = False
    """Whether the release is a shadow: trained for attacks to learn from, never measured itself."""
    shadows: tuple[Job, ...] = ()
    """The shadow releases that the attacks of this job may ask for, in order."""

    @property
    def name(self) -> str:
        """How progress and errors call this job."""
        if self.shadow:
            return f"{self.defense.label} · shadow {-self.seed}"
        return f"{self.defense.label} · seed {self.seed}"

    @property
    def measured(self) -> bool:
        """Whether the release fills rows of the report: it is neither a control nor a shadow."""
        return not (self.control or self.shadow)

    @property
    def key(self) -> JobKey:
        """What tells this job from the others of its run."""
        return (self.data, self.model, self.defense.label, self.seed)


@dataclass(frozen=True)
class Bench:
    """Where and how a worker works; nothing here changes a result."""

    store: Path
    base: Path
    models: tuple[ModelConfig, ...]
    plugin_files: tuple[Path, ...] = ()
    device: str = "cpu"
    threads: int = 1
    only_cached: bool = False
    failed_shadows: Mapping[JobKey, str] = field(default_factory=dict)
    """Why shadow releases could not be trained: the attacks that need them fail with these words."""


@dataclass(frozen=True)
class JobReport:
    """Where the results of a job lie, what failed, and how much was reused."""

    job: Job
    entries: Mapping[str, Path] = field(default_factory=dict)
    """By name: ``release``, ``train``, ``test``, ``audit`` and each trial's name."""
    failures: Mapping[str, Failed] = field(default_factory=dict)
    made: int = 0
    reused: int = 0


def digest(records: Records, *, attributes: bool = False) -> str:
    """SHA-256 of ids in order, texts and labels, and the attributes where they matter."""
    sha = hashlib.sha256()
    columns = [records.ids, records.texts, records.labels, *([records.attributes] if attributes else [])]
    for row in zip(*columns, strict=True):
        sha.update(repr(row).encode("utf-8", "surrogatepass"))
    return sha.hexdigest()[:32]


def release_identity(job: Job, model_fingerprint: str) -> dict[str, Any]:
    """Everything that can change the trained release."""
    return {
        "defense": plugin_identity(job.defense.plugin),
        "members": digest(job.split.trained),
        "labels": job.num_labels,
        "model": model_fingerprint,
        "seed": job.seed,
    }


def trial_identity(job: Job, trial: Trial, release: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that can change what an attack returns."""
    audited = targets_of(job, trial) if trial.tap else candidates_of(job, trial)
    shadows = shadows_of(job, trial)
    extra = {"shadows": [key_of(release_identity(s, str(release["model"]))) for s in shadows]} if shadows else {}
    return {
        "release": dict(release),
        "attack": plugin_identity(trial.attack.plugin),
        "tap": trial.tap,
        "role": trial.role,
        "audited": digest(audited),
        "auxiliary": digest(job.split.auxiliary, attributes=True),
        "attribute values": job.num_attribute_values,
        **extra,
    }


def shadows_of(job: Job, trial: Trial) -> tuple[Job, ...]:
    """The shadow releases that an attack may ask for: as many as it declares, or as there are."""
    return job.shadows[: as_attack(trial.attack).shadows]


def candidates_of(job: Job, trial: Trial) -> Records:
    """Whom an attack on predictions is asked about, those trained on first: shuffle before showing them to it."""
    attack = as_attack(trial.attack)
    if attack.goal == "extraction":
        return job.split.planted + job.split.withheld
    if is_published_protocol(attack):
        return job.split.members + perturbed(job.split.nonmembers, job.seed)
    return job.split.members + job.split.nonmembers


def is_published_protocol(attack: Attack) -> bool:
    """Whether the attack runs in a published protocol of doubtful worth, with perturbed non-members."""
    return isinstance(attack, MembershipAttack) and attack.sound != attack


def targets_of(job: Job, trial: Trial) -> Records:
    """Whose embeddings an embedding attack intercepts."""
    return job.inversion_targets if as_attack(trial.attack).goal == "inversion" else job.attribute_targets


def predict_identity(records: Records, release: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that can change the predictions on ``records``."""
    return {"release": dict(release), "records": digest(records), "draw": 0}


def as_defense(named: Named) -> Defense:
    """The defense of a named plug-in."""
    if not isinstance(named.plugin, Defense):
        raise TypeError(f"{named.label} is not a defense")
    return named.plugin


def as_attack(named: Named) -> Attack:
    """The attack of a named plug-in."""
    if not isinstance(named.plugin, Attack):
        raise TypeError(f"{named.label} is not an attack")
    return named.plugin
