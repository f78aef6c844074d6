"""Each two defenses compared on the same seeds and records, under each attack and on accuracy.

Defenses of one run share their splits and training seeds, so most of what makes two values uncertain is common to both
and cancels: two intervals may overlap widely where the paired difference is certain, and the other way round. The
p-values are adjusted for their number (Holm 1979), apart from those of the cells against guessing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

import numpy as np

from dpeval.collect.gather import Answered, Gathered, Trained
from dpeval.collect.measures import CellMeasures
from dpeval.matrix import Cell
from dpeval.measure.influence import Part, difference, ratio_part
from dpeval.measure.intervals import Scale, estimate, significance
from dpeval.measure.multiple import holm
from dpeval.results import CellResult, PairedResult, Status
from dpeval.types import Undefined

Seeded: TypeAlias = Mapping[int, Part]
"""The headline of one defense, by training seed."""
UTILITY = "accuracy"


@dataclass(frozen=True, eq=False)
class _Entry:
    """One defense in one column of the matrix."""

    data: str
    model: str
    attack: str | None
    tap: str | None
    measure: str
    defense: str
    parts: Seeded

    @property
    def column(self) -> tuple[str, str, str | None, str | None]:
        return self.data, self.model, self.attack, self.tap


def paired_results(
    gathered: Gathered, measured: Mapping[Cell, CellMeasures], cells: Sequence[CellResult], level: float
) -> tuple[PairedResult, ...]:
    """Every pair of defenses in every column, in the order of the matrix; only cells that are in order take part."""
    entries = [*_attacked(gathered, measured, cells), *_useful(gathered)]
    columns: dict[tuple[str, str, str | None, str | None], list[_Entry]] = {}
    for entry in entries:
        columns.setdefault(entry.column, []).append(entry)
    found = [_compared(a, b, level) for some in columns.values() for a, b in combinations(some, 2)]
    return adjusted(found, 1 - level)


def adjusted(found: Sequence[PairedResult], alpha: float) -> tuple[PairedResult, ...]:
    """The same with Holm's p-values, over all that have one."""
    tested = [i for i, one in enumerate(found) if one.p_value is not None]
    values = dict(zip(tested, holm([one.p_value for one in found if one.p_value is not None]), strict=True))
    return tuple(
        replace(one, p_holm=values[i], differs=values[i] <= alpha) if i in values else one
        for i, one in enumerate(found)
    )


def _attacked(
    gathered: Gathered, measured: Mapping[Cell, CellMeasures], cells: Sequence[CellResult]
) -> Iterator[_Entry]:
    for cell, result in zip(gathered.plan.cells, cells, strict=True):
        found = measured.get(cell)
        if found is None or not found.parts or result.status is not Status.OK:
            continue
        seeds = [job.seed for job, _ in gathered.of_cell(cell).folders(cell.trial.name)]
        yield _Entry(
            result.data, result.model, result.attack, result.tap, result.headline, result.defense,
            dict(zip(seeds, found.parts, strict=True)),
        )  # fmt: skip


def _useful(gathered: Gathered) -> Iterator[_Entry]:
    for data, model in gathered.materials.pairs():
        names = gathered.names(data, model)
        for named in gathered.experiment.defenses:
            parts = accuracy_parts(gathered.trained(named, data, model))
            if parts:
                yield _Entry(*names, None, None, UTILITY, named.label, parts)


def accuracy_parts(trained: Trained) -> dict[int, Part]:
    """Accuracy on the test part of each seed, with the influence of each record; empty where a seed has none."""
    found = {}
    for job, folder in trained.folders("test"):
        answered = Answered.read(folder)
        if not answered.known_ids:
            return {}
        found[job.seed] = ratio_part(answered.correct, np.ones(len(answered.known_ids)), answered.known_ids)
    return found


def _compared(one: _Entry, other: _Entry, level: float) -> PairedResult:
    base = PairedResult(
        data=one.data, model=one.model, attack=one.attack, tap=one.tap, measure=one.measure, first=one.defense,
        second=other.defense, difference=Undefined("the two were not measured on the same seeds and records"),
    )  # fmt: skip
    parts = paired_parts(one.parts, other.parts)
    if not parts:
        return base
    found = estimate(parts, level=level, scale=Scale.DIFFERENCE)
    return replace(base, difference=found, p_value=significance(parts, 0.0, scale=Scale.DIFFERENCE))


def paired_parts(one: Seeded, other: Seeded) -> list[Part]:
    """``one - other`` for each seed; empty unless both have the same seeds and, in each, the same records."""
    if one.keys() != other.keys() or any(one[s].units != other[s].units for s in one):
        return []
    return [difference(one[seed], other[seed]) for seed in one]
