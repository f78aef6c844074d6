"""Several runs side by side. Numbers stand in one table only where data and model were the same, by fingerprint.

>>> render_comparison([])
Traceback (most recent call last):
    ...
dpeval.errors.ConfigError: a comparison needs two runs or more, got 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpeval.errors import ConfigError
from dpeval.report.cells import prose
from dpeval.report.layout import Block, Column, blocks, overlap, solid
from dpeval.report.marks import GUESS, legend, watermark
from dpeval.report.matrix import entry, guess
from dpeval.report.numbers import measured
from dpeval.report.provenance import comparison_row
from dpeval.report.rulings import claim_tables
from dpeval.report.table import NOTHING, Table
from dpeval.results import CellResult, RunResult
from dpeval.types import Estimate

NOT_SHARED = (
    "No two of these runs share data and model by fingerprint, so no number of one may be compared with a number of "
    "another."
)
SHARED = "Runs of the same data and model. Two entries are told apart only where their intervals do not overlap."


@dataclass(frozen=True)
class Placed:
    """One block of one run, with the number of the run (from 1)."""

    run: int
    result: RunResult
    block: Block


def render_comparison(results: Sequence[RunResult]) -> str:
    """Markdown: the runs, then a table for each data set and model that several of them share.

    Raises:
        ConfigError: fewer than two runs.
    """
    if len(results) < 2:
        raise ConfigError(f"a comparison needs two runs or more, got {len(results)}")
    shared = [group for group in _groups(results) if len(group) > 1]
    parts = ["# Comparison of runs", *_marks(results), _runs(results).markdown()]
    parts += [SHARED, _legend(results)] if shared else [NOT_SHARED]
    for group in shared:
        parts += _group(group)
    parts += [f"Only in run {placed.run}, so not compared: {prose(placed.block.data)}, {prose(placed.block.model)}."
              for group in _groups(results) if len(group) == 1 for placed in group]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _marks(results: Sequence[RunResult]) -> list[str]:
    marks = [(i, watermark(result)) for i, result in enumerate(results, 1)]
    # What is missing is not listed here.
    said = [(i, mark.replace("listed below", "listed in its own report")) for i, mark in marks if mark]
    return [f"> **Run {i}: {prose(mark)}**" for i, mark in said]


def _legend(results: Sequence[RunResult]) -> str:
    """What the marks in the tables mean; what holds for some of the runs only is said of these."""
    holds: dict[str, list[int]] = {}
    for i, result in enumerate(results, 1):
        for line in legend(result):
            holds.setdefault(line, []).append(i)
    everywhere = [prose(line) for line, runs in holds.items() if len(runs) == len(results)]
    some = [
        f"in run {' and '.join(map(str, runs))}, {prose(line)}"
        for line, runs in holds.items()
        if len(runs) < len(results)
    ]
    return "\n".join(f"- {line}" for line in (*everywhere, *some))


def _runs(results: Sequence[RunResult]) -> Table:
    headers = ("run", "name", "status", "dpeval", "seeds", "created", "matrix SHA-256")
    return Table(
        headers, tuple((str(i), r.name, r.status, *comparison_row(r.provenance)) for i, r in enumerate(results, 1))
    )


def _groups(results: Sequence[RunResult]) -> list[list[Placed]]:
    """Blocks of equal data and model fingerprints, over all runs."""
    found: dict[tuple[str, str], list[Placed]] = {}
    for i, result in enumerate(results, 1):
        for block in blocks(result):
            found.setdefault(_prints(result, block), []).append(Placed(i, result, block))
    return list(found.values())


def _prints(result: RunResult, block: Block) -> tuple[str, str]:
    data = next((d.fingerprint for d in result.data if d.name == block.data), "")
    model = next((m.fingerprint for m in result.models if m.name == block.model), "")
    # Without a fingerprint nothing shows that two are the same: such a block is alone.
    return (data or f"{id(result)} {block.data}", model or f"{id(result)} {block.model}")


def _group(group: list[Placed]) -> list[str]:
    first = group[0].block
    headers = ("defense", "what", *(f"run {p.run}" for p in group), "told apart")
    rows = [*_utility_rows(group), *(row for column in _columns(group) for row in _attack_rows(group, column))]
    title = f"## {prose(first.data)}, {prose(first.model)}"
    claims = claim_tables([placed.block for placed in group], [placed.run for placed in group])
    return [title, Table(headers, tuple(rows)).markdown(), *_settings(group), *claims]


def _settings(group: list[Placed]) -> list[str]:
    """A warning that names the labels whose settings are not the same in all runs."""
    found = {label: [d for p in group if (d := p.block.defense(label)) is not None] for label in _labels(group)}
    differing = [label for label, some in found.items() if any(d.settings != some[0].settings for d in some)]
    return [f"Settings differ between these runs: {prose(', '.join(differing))}."] if differing else []


def _columns(group: list[Placed]) -> tuple[Column, ...]:
    return tuple(dict.fromkeys(column for placed in group for column in placed.block.columns))


def _labels(group: list[Placed]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for placed in group for label in placed.block.labels))


def _utility_rows(group: list[Placed]) -> list[tuple[str, ...]]:
    rows = []
    for label in _labels(group):
        found = [placed.block.defense(label) for placed in group]
        shown = [NOTHING if d is None else measured(d.utility) for d in found]
        values = [d.utility if d is not None and isinstance(d.utility, Estimate) else None for d in found]
        rows.append((label, "accuracy (test)", *shown, _apart(values)))
    return rows


def _attack_rows(group: list[Placed], column: Column) -> list[tuple[str, ...]]:
    rows = [(GUESS, column.label, *(guess(placed.block, column) for placed in group), NOTHING)]
    for label in _labels(group):
        cells = [placed.block.cell(label, column) for placed in group]
        if any(cell is not None for cell in cells):
            rows.append(
                (label, _what(column, cells), *(entry(cell) for cell in cells), _apart([_known(c) for c in cells]))
            )
    return rows


def _known(cell: CellResult | None) -> Estimate | None:
    return None if cell is None else solid(cell)


def _what(column: Column, cells: Sequence[CellResult | None]) -> str:
    names = dict.fromkeys(cell.headline for cell in cells if cell is not None and cell.headline)
    return f"{column.label}: {' / '.join(names)}" if names else column.label


def _apart(values: Sequence[Estimate | None]) -> str:
    known = [v for v in values if v is not None]
    if len(known) < 2:
        return NOTHING
    return "no" if all(overlap(a, b) for a in known for b in known) else "yes"
