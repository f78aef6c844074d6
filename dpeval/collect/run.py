"""Puts a run together: blind baseline, controls, cells, claims, defenses, data and models."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence

from dpeval.collect.audit_sets import AuditSet, blind_attackers
from dpeval.collect.cells import cell_results, comparisons, measured_cells
from dpeval.collect.claims import audits_of
from dpeval.collect.controls import control_results
from dpeval.collect.defenses import claims_of, defense_results, weakest
from dpeval.collect.dominance import with_dominance
from dpeval.collect.gather import Gathered
from dpeval.collect.paired import paired_results
from dpeval.collect.utility import majority_accuracy
from dpeval.config import Experiment, Named
from dpeval.data.canaries import canary_notes
from dpeval.data.split import split_notes
from dpeval.identity import canonical
from dpeval.jobs import Job, JobReport, as_attack
from dpeval.materials import Materials
from dpeval.matrix import Plan
from dpeval.measure.blind import Blind
from dpeval.models.checkpoint import Checkpoint
from dpeval.results import (
    AttackSummary,
    BlindResult,
    CellResult,
    DataSummary,
    DefenseResult,
    ModelSummary,
    Provenance,
    RunResult,
    Status,
)
from dpeval.types import Dataset, Note, PrivacyClaim


def collect(
    experiment: Experiment, materials: Materials, plan: Plan, reports: Sequence[JobReport], about: Provenance
) -> RunResult:
    """The result of a run whose jobs are done."""
    gathered = Gathered(experiment, materials, plan, tuple(reports))
    alpha = 1 - experiment.report.level
    blind = blind_attackers(gathered)
    measured = measured_cells(gathered, blind)
    controls = control_results(gathered, plan.cells, alpha)
    cells = cell_results(gathered, measured, controls, blind)
    paired = paired_results(gathered, measured, cells, experiment.report.level)
    audits = audits_of(gathered, _claims(gathered), measured, alpha)
    defenses = with_dominance(defense_results(gathered, audits), cells, paired)
    return RunResult(
        name=experiment.name,
        status=_status(experiment, defenses, cells),
        note=experiment.report.note,
        data=tuple(_data(gathered, i, d) for i, d in enumerate(materials.datasets) if isinstance(d, Dataset)),
        models=tuple(_model(gathered, i, c) for i, c in enumerate(materials.checkpoints) if isinstance(c, Checkpoint)),
        defenses=defenses,
        cells=tuple(cells),
        attacks=tuple(_attack(named) for named in experiment.attacks),
        controls=tuple(controls.found.values()),
        blind=tuple(_blind_result(gathered, one, found) for one, found in blind.items()),
        utility_baseline=_majorities(gathered),
        provenance=about,
        level=experiment.report.level,
        comparisons=comparisons(measured),
        paired=paired,
    )


def _claims(gathered: Gathered) -> dict[tuple[str, int, int], PrivacyClaim]:
    return {
        (named.label, data, model): weakest(claims_of(gathered.trained(named, data, model)))
        for data, model in gathered.materials.pairs()
        for named in gathered.experiment.defenses
    }


def _status(experiment: Experiment, defenses: Sequence[DefenseResult], cells: Sequence[CellResult]) -> str:
    if experiment.limit is not None:
        return "smoke"
    failed = Status.FAILED in {d.status for d in defenses} | {c.status for c in cells}
    return "partial" if failed else "complete"


def _jobs(gathered: Gathered, data: int) -> dict[int, Job]:
    """One job for each seed, for what all jobs of a data set share: the split."""
    return {job.seed: job for job in gathered.plan.jobs if job.data == data and not job.control}


def _blind_result(gathered: Gathered, one: AuditSet, found: Blind) -> BlindResult:
    reason = found.reason
    return BlindResult(
        data=one.name(gathered.materials.data_names[one.data]),
        auc=found.auc,
        invalid=found.invalid,
        reading=f"{reason[0].upper()}{reason[1:]}.",
    )


def _majorities(gathered: Gathered) -> Mapping[str, float]:
    found = {}
    for data, name in enumerate(gathered.materials.data_names):
        jobs = list(_jobs(gathered, data).values())
        if jobs:
            found[name] = sum(majority_accuracy(j.split.members, j.split.test) for j in jobs) / len(jobs)
    return found


def _attack(named: Named) -> AttackSummary:
    attack = as_attack(named)
    story = (inspect.getdoc(type(attack)) or "").split("\n\n")[0].replace("\n", " ")
    settings = {k: v for k, v in canonical(attack).items() if k != "type"}
    return AttackSummary(
        label=named.label, use=named.use, goal=attack.goal, access=attack.access.value, source=attack.source,
        story=story, settings=settings,
    )  # fmt: skip


def _data(gathered: Gathered, number: int, dataset: Dataset) -> DataSummary:
    jobs = list(_jobs(gathered, number).values())
    job = jobs[0] if jobs else None
    sizes = [_roles(job) for job in jobs]
    first = sizes[0] if sizes else {}
    counts = Counter(dataset.records.labels)
    truncated = [c.truncation(dataset.records) for c in gathered.materials.checkpoints if isinstance(c, Checkpoint)]
    return DataSummary(
        name=gathered.materials.data_names[number],
        fingerprint=dataset.fingerprint,
        records=len(dataset.records),
        roles=first,
        ranges={role: (min(n[role] for n in sizes), max(n[role] for n in sizes)) for role in first},
        labels={name: counts[i] for i, name in enumerate(dataset.label_names)},
        attribute=dataset.attribute_name,
        attribute_values=len(dataset.attribute_values),
        attribute_records=sum(a is not None for a in dataset.records.attributes),
        notes=(
            *dataset.notes,
            *((*split_notes(dataset, job.split), *canary_notes(job.split)) if job else ()),
            *(note for note in truncated if isinstance(note, Note)),
        ),
    )


def _roles(job: Job) -> dict[str, int]:
    split = job.split
    return {
        "members": len(split.members), "non-members": len(split.nonmembers), "auxiliary": len(split.auxiliary),
        "test": len(split.test),
    }  # fmt: skip


def _model(gathered: Gathered, number: int, checkpoint: Checkpoint) -> ModelSummary:
    return ModelSummary(
        name=gathered.materials.model_names[number],
        fingerprint=checkpoint.fingerprint,
        parameters=sum(p.numel() for p in checkpoint.build(2, 0).parameters()),
        max_length=checkpoint.max_length,
        pooling=checkpoint.pooling,
        notes=checkpoint.notes,
    )
