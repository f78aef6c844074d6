"""What a run would do: each stage of each job, with its identity, and whether it is in the store.

Shared by ``dpeval plan`` and ``dpeval explain``; trains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpeval.jobs import Job, predict_identity, release_identity, trial_identity
from dpeval.materials import Materials
from dpeval.matrix import Plan
from dpeval.models.checkpoint import Checkpoint
from dpeval.store import Entry, Store


@dataclass(frozen=True, eq=False)
class Stage:
    """One thing to be done or found done."""

    job: Job
    stage: str
    name: str
    identity: Mapping[str, Any]
    entry: Entry | None

    @property
    def cached(self) -> bool:
        """Whether the store has it."""
        return self.entry is not None


def stages(planned: Plan, materials: Materials, store: Store) -> Iterator[Stage]:
    """Every stage of every job but the audits, which depend on the trained release."""
    for job in (*planned.shadows, *planned.jobs):
        checkpoint = materials.checkpoints[job.model]
        if not isinstance(checkpoint, Checkpoint):
            continue
        release = release_identity(job, checkpoint.fingerprint)
        wanted = [("release", "training", release)]
        if job.measured:
            wanted += [("predict", part, predict_identity(getattr(job.split, role), release))
                       for part, role in (("train predictions", "members"), ("test predictions", "test"))]  # fmt: skip
        wanted += [("attack", _shown(trial.name), trial_identity(job, trial, release)) for trial in job.trials]
        for stage, name, identity in wanted:
            yield Stage(job, stage, name, identity, store.get(stage, identity))


def _shown(name: str) -> str:
    attack, tap, role = name.split("|")
    return attack + (f" at {tap}" if tap else "") + (f" ({role} control)" if role else "")
