"""Marks a defense that another beats at no cost: better in something for certain, and worse in nothing (guard V20)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from dpeval.collect.cells import cells_of
from dpeval.results import CellResult, DefenseResult, PairedResult, Status
from dpeval.types import Estimate

Shown: TypeAlias = Mapping[tuple[str, str, str | None, str | None, str, str], bool]
"""(data, model, attack, tap, defense, other): whether the two were shown to differ, paired by seed and record."""


def with_dominance(
    defenses: Sequence[DefenseResult], cells: Sequence[CellResult], paired: Sequence[PairedResult]
) -> tuple[DefenseResult, ...]:
    """The defenses with ``dominated_by`` filled in; only those of one data set and model are compared."""
    shown = {(p.data, p.model, p.attack, p.tap, *pair): p.differs for p in paired
             for pair in ((p.first, p.second), (p.second, p.first))}  # fmt: skip
    return tuple(dataclasses.replace(d, dominated_by=_dominator(d, defenses, cells, shown)) for d in defenses)


def _dominator(
    one: DefenseResult, others: Sequence[DefenseResult], cells: Sequence[CellResult], shown: Shown
) -> str | None:
    for other in others:
        same_place = (other.data, other.model) == (one.data, one.model) and other.label != one.label
        if same_place and _dominates(other, one, cells, shown):
            return other.label
    return None


def _dominates(better: DefenseResult, worse: DefenseResult, cells: Sequence[CellResult], shown: Shown) -> bool:
    """No value is worse, and one is better for certain: by the paired comparison, adjusted for all of the run."""
    leaks = _shared(better, worse, cells)
    if not leaks or not (isinstance(better.utility, Estimate) and isinstance(worse.utility, Estimate)):
        return False
    place = (better.data, better.model)
    gains = [(better.utility.value - worse.utility.value, shown.get((*place, None, None, better.label, worse.label)))]
    gains += [
        (of_worse.value - of_better.value, shown.get((*place, *column, better.label, worse.label)))
        for column, (of_better, of_worse) in leaks.items()
    ]
    return all(gain >= 0 for gain, _ in gains) and any(gain > 0 and differs for gain, differs in gains)


def _shared(
    one: DefenseResult, two: DefenseResult, cells: Sequence[CellResult]
) -> dict[tuple[str, str | None], tuple[Estimate, Estimate]]:
    first, second = (_headlines(d, cells) for d in (one, two))
    return {key: (first[key], second[key]) for key in first if key in second}


def _headlines(defense: DefenseResult, cells: Sequence[CellResult]) -> dict[tuple[str, str | None], Estimate]:
    return {
        (c.attack, c.tap): value
        for c in cells_of(cells, defense.label, defense.data, defense.model)
        if c.status is Status.OK and isinstance(value := c.measures.get(c.headline), Estimate)
    }
