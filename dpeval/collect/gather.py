"""Joins what the jobs stored with what only the core knows: who was a member, which tokens and attributes were true."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpeval.arrays import load_arrays, load_result, load_seconds
from dpeval.config import Experiment, Named
from dpeval.jobs import Job, JobReport, Trial
from dpeval.materials import Materials
from dpeval.matrix import Cell, Plan
from dpeval.models.checkpoint import Checkpoint
from dpeval.types import AttackResult, Dataset, Failed, Floats, Records


@dataclass(frozen=True, eq=False)
class Trained:
    """The reports of one defense on one data set and model, one for each seed."""

    reports: tuple[JobReport, ...]

    def failure(self, *names: str) -> Failed | None:
        """The first failure of any of the named stages."""
        return next((r.failures[n] for n in names for r in self.reports if n in r.failures), None)

    def folders(self, name: str) -> Iterator[tuple[Job, Path]]:
        """(job, folder) of a stage for each seed that has it."""
        for report in self.reports:
            if name in report.entries:
                yield report.job, report.entries[name]

    def results(self, trial: Trial) -> list[tuple[Job, AttackResult]]:
        """What the attack returned, for each seed."""
        return [(job, load_result(folder)) for job, folder in self.folders(trial.name)]

    def seconds(self, trial: Trial) -> float | None:
        """Mean time of the attack."""
        times = [load_seconds(folder) for _, folder in self.folders(trial.name)]
        return sum(times) / len(times) if times else None


@dataclass(frozen=True, eq=False)
class Gathered:
    """Everything a run produced, by cell."""

    experiment: Experiment
    materials: Materials
    plan: Plan
    reports: tuple[JobReport, ...]
    known: dict[tuple[int, int, tuple[str, ...]], object] = field(default_factory=dict, compare=False, repr=False)
    """What was worked out of a data set and seed (and targets) for one cell and serves the others."""

    def trained(self, defense: Named, data: int, model: int) -> Trained:
        """The reports of a defense."""
        return Trained(
            tuple(r for r in self.reports if (r.job.defense, r.job.data, r.job.model) == (defense, data, model))
        )

    def of_cell(self, cell: Cell) -> Trained:
        """The reports that fill a cell."""
        return self.trained(cell.defense, cell.data, cell.model)

    def control(self, trial: Trial, data: int, model: int) -> Trained:
        """The control job that ran ``trial``."""
        return Trained(
            tuple(
                r
                for r in self.reports
                if r.job.control and (r.job.data, r.job.model) == (data, model) and trial in r.job.trials
            )
        )

    def dataset(self, data: int) -> Dataset | None:
        """The data set, if it could be loaded."""
        found = self.materials.datasets[data]
        return found if isinstance(found, Dataset) else None

    def checkpoint(self, model: int) -> Checkpoint | None:
        """The checkpoint, if it could be loaded."""
        found = self.materials.checkpoints[model]
        return found if isinstance(found, Checkpoint) else None

    @cached_property
    def names(self) -> Callable[[int, int], tuple[str, str]]:
        """(data, model) numbers to names."""
        return lambda data, model: (self.materials.data_names[data], self.materials.model_names[model])


def is_member(job: Job, ids: Sequence[str]) -> NDArray[np.bool_]:
    """The coin of each id, be it a record or a canary."""
    members = set(job.split.trained.ids)
    return np.array([key in members for key in ids], dtype=np.bool_)


def groups_of(records: Records, ids: Sequence[str]) -> tuple[int, ...]:
    """The near-duplicate group of each id."""
    where = dict(zip(records.ids, records.groups, strict=True))
    return tuple(where[key] for key in ids)


@dataclass(frozen=True, eq=False)
class Answered:
    """Predictions on records with their labels, joined."""

    ids: tuple[str, ...]
    log_probs: Floats
    labels: NDArray[np.int64]

    @classmethod
    def read(cls, folder: Path) -> Answered:
        """From a stored ``predict`` entry."""
        arrays = load_arrays(folder)
        return cls(tuple(str(i) for i in arrays["ids"]), arrays["log_probs"], arrays["labels"])

    @property
    def correct(self) -> Floats:
        """1 where the most likely class is the label, shape ``(n,)``; records without a known label are left out."""
        known = self.labels >= 0
        right: Floats = (self.log_probs.argmax(axis=1) == self.labels)[known].astype(np.float64)
        return right

    @property
    def known_ids(self) -> tuple[str, ...]:
        """Ids of the records that have a known label."""
        return tuple(key for key, label in zip(self.ids, self.labels, strict=True) if label >= 0)
