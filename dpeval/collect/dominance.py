"""Marks a defense that another beats at no cost: better in something for certain, and worse in nothing (guard V20)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dpeval.collect.cells import cells_of
from dpeval.results import CellResult, DefenseResult, Status
from dpeval.types import Estimate, Measured


def with_dominance(defenses: Sequence[DefenseResult], cells: Sequence[CellResult]) -> tuple[DefenseResult, ...]:
    """The defenses with ``dominated_by`` filled in; only those of one data set and model are compared."""
    return tuple(dataclasses.replace(d, dominated_by=_dominator(d, defenses, cells)) for d in defenses)


def _dominator(one: DefenseResult, others: Sequence[DefenseResult], cells: Sequence[CellResult]) -> str | None:
    for other in others:
        same_place = (other.data, other.model) == (one.data, one.model) and other.label != one.label
        if same_place and _dominates(other, one, cells):
            return other.label
    return None


def _dominates(better: DefenseResult, worse: DefenseResult, cells: Sequence[CellResult]) -> bool:
    pairs = _shared(better, worse, cells)
    if not pairs or not (isinstance(better.utility, Estimate) and isinstance(worse.utility, Estimate)):
        return False
    utility, leaks = (
        (better.utility, worse.utility),
        [(leak_of_worse, leak_of_better) for leak_of_better, leak_of_worse in pairs],
    )
    compared = [utility, *leaks]
    return all(a.value >= b.value for a, b in compared) and any(a.low > b.high for a, b in compared)


def _shared(one: DefenseResult, two: DefenseResult, cells: Sequence[CellResult]) -> list[tuple[Estimate, Estimate]]:
    first, second = (
        {
            (c.attack, c.tap): c.measures.get(c.headline)
            for c in cells_of(cells, d.label, d.data, d.model)
            if c.status is Status.OK
        }
        for d in (one, two)
    )
    return [(a, b) for key in first if key in second if (a := _known(first[key])) and (b := _known(second[key]))]


def _known(value: Measured | None) -> Estimate | None:
    return value if isinstance(value, Estimate) else None
