"""The sets of records on which attacks on predictions are audited, each with a blind attacker of its own (guard V1).

There are up to three of one data set: the candidates as drawn; the same with perturbed non-members, for a published
protocol; and the canaries.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpeval.collect.gather import Gathered, is_member
from dpeval.jobs import Job, Trial, as_attack, candidates_of, is_published_protocol
from dpeval.matrix import Cell
from dpeval.measure.blind import Blind, BlindRun, measure_blind

PUBLISHED = (
    "published protocol, shown for comparison only: the non-members' texts were perturbed after the split and the "
    "members' were not, so that what is told apart is edited from unedited text"
)


class Kind(StrEnum):
    """How the records of an audit set came about."""

    CANDIDATES = "candidates"
    PUBLISHED = "perturbed non-members"
    CANARIES = "canaries"


@dataclass(frozen=True)
class AuditSet:
    """The records of one kind of one data set."""

    data: int
    kind: Kind

    def name(self, data_name: str) -> str:
        """What a report calls it."""
        return data_name if self.kind is Kind.CANDIDATES else f"{data_name} ({self.kind})"


def audit_set_of(cell: Cell) -> AuditSet | None:
    """What the attack of a cell is audited on; ``None`` for attacks on embeddings."""
    attack = as_attack(cell.attack)
    if cell.tap is not None:
        return None
    if attack.goal == "extraction":
        return AuditSet(cell.data, Kind.CANARIES)
    return AuditSet(cell.data, Kind.PUBLISHED if is_published_protocol(attack) else Kind.CANDIDATES)


def blind_attackers(gathered: Gathered) -> dict[AuditSet, Blind]:
    """The blind attacker of every audit set that a cell uses, over all seeds."""
    wanted: dict[AuditSet, Trial] = {}
    for cell in gathered.plan.cells:
        found = audit_set_of(cell)
        if found is not None and cell.problem is None:
            wanted.setdefault(found, cell.trial)
    level = gathered.experiment.report.level
    runs = {one: [_blind_run(job, one, trial) for job in _jobs(gathered, one.data)] for one, trial in wanted.items()}
    return {one: measure_blind(found, level=level) for one, found in runs.items() if found}


def _jobs(gathered: Gathered, data: int) -> list[Job]:
    """One job for each seed: all defenses of a data set are attacked on the same records."""
    return list({job.seed: job for job in gathered.plan.jobs if job.data == data and job.measured}.values())


def _blind_run(job: Job, one: AuditSet, trial: Trial) -> BlindRun:
    audited = candidates_of(job, trial)
    # A record that is edited for one seed and not for the next is two texts, told apart by their ids.
    ids = tuple(f"{job.seed}:{key}" for key in audited.ids) if one.kind is Kind.PUBLISHED else audited.ids
    return BlindRun(ids, audited.texts, is_member(job, audited.ids), audited.labels, audited.groups)
