"""Several runs side by side. Numbers stand in one table only where data and model were the same, by fingerprint.

>>> render_comparison([])
Traceback (most recent call last):
    ...
dpeval.errors.ConfigError: a comparison needs two runs or more, got 0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from dpeval.errors import ConfigError
from dpeval.measure.multiple import holm
from dpeval.measure.separate import difference_of, separate_p_value
from dpeval.report.cells import prose
from dpeval.report.layout import Block, Column, blocks, solid
from dpeval.report.marks import GUESS, legend, watermark
from dpeval.report.matrix import entry, guess
from dpeval.report.numbers import count, measured, percent
from dpeval.report.provenance import comparison_row
from dpeval.report.rulings import claim_tables
from dpeval.report.table import NOTHING, Table
from dpeval.results import CellResult, RunResult
from dpeval.types import Estimate

NOT_SHARED = (
    "No two of these runs share data and model by fingerprint, so no number of one may be compared with a number of "
    "another."
)
SHARED = (
    "Runs of the same data and model. Entries of one row are told apart where the p-value of their difference, "
    "adjusted for the {} comparisons of this page (Holm 1979), is at most {}. The runs are taken for independent: "
    "where they share records or seeds they vary together, and differences smaller than those found here may be real. "
    "Defenses in one run are paired by record and seed in its own report."
)


@dataclass(frozen=True)
class Placed:
    """One block of one run, with the number of the run (from 1)."""

    run: int
    result: RunResult
    block: Block


@dataclass(frozen=True)
class Row:
    """One quantity in every run: how it is shown, and what may be compared."""

    label: str
    what: str
    shown: tuple[str, ...]
    values: tuple[Estimate | None, ...]

    @property
    def pairs(self) -> list[tuple[Estimate, Estimate]]:
        """Each two known values of one level, the earlier run first."""
        known = [v for v in self.values if v is not None]
        return [(a, b) for a, b in combinations(known, 2) if a.level == b.level]


def render_comparison(results: Sequence[RunResult]) -> str:
    """Markdown: the runs, then a table for each data set and model that several of them share.

    Raises:
        ConfigError: fewer than two runs.
    """
    if len(results) < 2:
        raise ConfigError(f"a comparison needs two runs or more, got {len(results)}")
    shared = [group for group in _groups(results) if len(group) > 1]
    parts = ["# Comparison of runs", *_marks(results), _runs(results).markdown()]
    rows = [list(_rows(group)) for group in shared]
    apart = _told_apart([row for some in rows for row in some])
    level = max(result.level for result in results)
    said = SHARED.format(count(sum(len(row.pairs) for some in rows for row in some)), percent(1 - level))
    parts += [said, _legend(results)] if shared else [NOT_SHARED]
    for group, some in zip(shared, rows, strict=True):
        parts += _group(group, some, apart)
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


def _group(group: list[Placed], rows: Sequence[Row], apart: dict[Row, bool]) -> list[str]:
    first, two = group[0].block, len(group) == 2
    minus = (f"run {group[1].run} minus run {group[0].run}",) if two else ()
    headers = ("defense", "what", *(f"run {p.run}" for p in group), *minus, "told apart")
    cells = tuple(
        (row.label, row.what, *row.shown, *((_minus(row),) if two else ()), _apart(row, apart)) for row in rows
    )
    title = f"## {prose(first.data)}, {prose(first.model)}"
    claims = claim_tables([placed.block for placed in group], [placed.run for placed in group])
    return [title, Table(headers, cells).markdown(), *_settings(group), *claims]


def _minus(row: Row) -> str:
    return measured(difference_of(row.pairs[0][1], row.pairs[0][0]), 0.0) if row.pairs else NOTHING


def _told_apart(rows: Sequence[Row]) -> dict[Row, bool]:
    """For each row whether any two of its entries differ after adjustment for all pairs of all rows."""
    tested = [(row, one, other) for row in rows for one, other in row.pairs]
    adjusted = holm([separate_p_value(one, other) for _, one, other in tested])
    out: dict[Row, bool] = {}
    for (row, one, _), p in zip(tested, adjusted, strict=True):
        out[row] = out.get(row, False) or p <= 1 - one.level
    return out


def _apart(row: Row, apart: dict[Row, bool]) -> str:
    return {True: "yes", False: "no", None: NOTHING}[apart.get(row)]


def _settings(group: list[Placed]) -> list[str]:
    """A warning that names the labels whose settings are not the same in all runs."""
    found = {label: [d for p in group if (d := p.block.defense(label)) is not None] for label in _labels(group)}
    differing = [label for label, some in found.items() if any(d.settings != some[0].settings for d in some)]
    return [f"Settings differ between these runs: {prose(', '.join(differing))}."] if differing else []


def _columns(group: list[Placed]) -> tuple[Column, ...]:
    return tuple(dict.fromkeys(column for placed in group for column in placed.block.columns))


def _labels(group: list[Placed]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for placed in group for label in placed.block.labels))


def _rows(group: list[Placed]) -> Iterator[Row]:
    yield from _utility_rows(group)
    for column in _columns(group):
        yield from _attack_rows(group, column)


def _utility_rows(group: list[Placed]) -> Iterator[Row]:
    for label in _labels(group):
        found = [placed.block.defense(label) for placed in group]
        shown = tuple(NOTHING if d is None else measured(d.utility) for d in found)
        values = tuple(d.utility if d is not None and isinstance(d.utility, Estimate) else None for d in found)
        yield Row(label, "accuracy (test)", shown, values)


def _attack_rows(group: list[Placed], column: Column) -> Iterator[Row]:
    yield Row(GUESS, column.label, tuple(guess(placed.block, column) for placed in group), ())
    for label in _labels(group):
        cells = [placed.block.cell(label, column) for placed in group]
        if any(cell is not None for cell in cells):
            one_measure = len(_headlines(cells)) == 1
            values = tuple(_known(cell) if one_measure else None for cell in cells)
            yield Row(label, _what(column, cells), tuple(map(entry, cells)), values)


def _known(cell: CellResult | None) -> Estimate | None:
    return None if cell is None else solid(cell)


def _headlines(cells: Sequence[CellResult | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cell.headline for cell in cells if cell is not None and cell.headline))


def _what(column: Column, cells: Sequence[CellResult | None]) -> str:
    names = _headlines(cells)
    return f"{column.label}: {' / '.join(names)}" if names else column.label
