"""Sentences of the summary about cells that mean nothing, and why. None is left out.

>>> from dpeval.report.example import tiny_run
>>> voids(tiny_run())
()
"""

from __future__ import annotations

from dataclasses import dataclass

from dpeval.report.layout import block_name, blocks, cell_name, headline
from dpeval.report.marks import STATUS_MEANINGS, STATUS_WORDS
from dpeval.report.numbers import plural
from dpeval.results import RunResult, Status
from dpeval.types import Undefined


@dataclass(frozen=True)
class Void:
    """Cells or defenses that share a status: what it means, and each reason with those it holds for."""

    word: str
    meaning: str
    count: str
    reasons: tuple[tuple[str, tuple[str, ...]], ...]


def voids(result: RunResult) -> tuple[Void, ...]:
    """Everything of the run that carries no information, grouped by status and reason."""
    found = [_of(result, status) for status in STATUS_MEANINGS]
    return tuple(v for v in (*found, _undefined(result)) if v.reasons)


def _of(result: RunResult, status: Status) -> Void:
    defenses = [
        (f"defense {d.label}{_place(result, d.data, d.model)}", d.reason) for d in result.defenses if d.status is status
    ]
    cells = [(cell_name(result, c), c.reason) for c in result.cells if c.status is status]
    counts = [plural(len(x), noun) for x, noun in ((defenses, "defense"), (cells, "cell")) if x]
    return Void(STATUS_WORDS[status], STATUS_MEANINGS[status], ", ".join(counts), _by_reason([*defenses, *cells]))


def _undefined(result: RunResult) -> Void:
    """Cells in order whose headline the data do not define."""
    empty = [(cell_name(result, c), value.reason) for c in result.cells if c.status is Status.OK
             and isinstance(value := headline(c), Undefined)]  # fmt: skip
    return Void("undefined", "these data do not define the measure", plural(len(empty), "cell"), _by_reason(empty))


def _by_reason(pairs: list[tuple[str, str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    reasons = dict.fromkeys(reason for _, reason in pairs)
    return tuple((why or "no reason was recorded", tuple(n for n, r in pairs if r == why)) for why in reasons)


def _place(result: RunResult, data: str, model: str) -> str:
    named = next((block_name(result, b) for b in blocks(result) if (b.data, b.model) == (data, model)), "")
    return f" ({named})" if named else ""
