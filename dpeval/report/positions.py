"""Where noise is best put: every measure by position and ε, as tables of the report, as figure data, and as a plot.

Only where a defense of a run was tried at several positions; without noise (the undefended model, tapped there) comes
last.

>>> from dpeval.report.example import tiny_run
>>> section(tiny_run()), render_positions(tiny_run())
([], 'data,model,defense,measure,goal,null,position,epsilon,value,low,high,n\\n')
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeval.report.cells import prose
from dpeval.report.layout import Block, block_name, blocks, headline
from dpeval.report.marks import STATUS_WORDS
from dpeval.report.numbers import measured, plain
from dpeval.report.table import NOTHING, Table
from dpeval.results import CellResult, DefenseResult, RunResult, Status
from dpeval.types import Estimate, Measured

FIELDS = ("data", "model", "defense", "measure", "goal", "null", "position", "epsilon", "value", "low", "high", "n")
CLEAR = math.inf
"""Stands for no noise among the values of ε."""
UTILITY = "accuracy (test)"
FILES = ("positions.csv", "positions.json", "positions.svg")


@dataclass(frozen=True)
class Entry:
    """One measure of one defense at one position and ε."""

    measure: str
    goal: str
    position: str
    epsilon: float
    value: Measured | str
    """A word where the cell has no number."""
    null: float | None = None


@dataclass(frozen=True)
class Sweep:
    """What one kind of defense gave on one data set and model."""

    block: Block
    use: str
    """The defense, with the settings that tell it from the run's other sweeps of it."""
    entries: tuple[Entry, ...]

    @property
    def positions(self) -> tuple[str, ...]:
        """In the order of the matrix."""
        return tuple(dict.fromkeys(e.position for e in self.entries))

    @property
    def epsilons(self) -> tuple[float, ...]:
        """From the smallest; no noise last."""
        return tuple(sorted({e.epsilon for e in self.entries}))

    @property
    def measures(self) -> tuple[str, ...]:
        """Utility first, then the attacks."""
        return tuple(dict.fromkeys(e.measure for e in self.entries))

    def at(self, measure: str, position: str, epsilon: float) -> Entry | None:
        """The entry there, if there is one."""
        key = (measure, position, epsilon)
        return next((e for e in self.entries if (e.measure, e.position, e.epsilon) == key), None)


def sweeps(result: RunResult) -> tuple[Sweep, ...]:
    """One for each block and kind of defense that was tried at two positions or more."""
    found = []
    for block in blocks(result):
        for name, swept in _kinds(block).items():
            if len({_position(d) for d in swept}) > 1:
                found.append(Sweep(block, name, tuple(_entries(block, swept, result))))
    return tuple(found)


def _kinds(block: Block) -> dict[str, list[DefenseResult]]:
    """Defenses that differ in position and ε alone, under one name."""
    swept = [d for d in block.defenses if _epsilon(d) is not None and _position(d)]
    out: dict[str, list[DefenseResult]] = {}
    for d in swept:
        of_use = [other.settings for other in swept if other.use == d.use]
        told = {k: v for k, v in _others(d).items() if any(other.get(k) != v for other in of_use)}
        out.setdefault(", ".join([d.use, *(f"{k} = {v}" for k, v in told.items())]), []).append(d)
    return out


def _others(defense: DefenseResult) -> dict[str, Any]:
    return {k: v for k, v in sorted(defense.settings.items()) if k not in ("position", "epsilon")}


def section(result: RunResult) -> list[str]:
    """The tables as markdown paragraphs; none where no defense was tried at several positions."""
    out: list[str] = []
    for sweep in sweeps(result):
        place = block_name(result, sweep.block)
        out.append(f"### {prose(sweep.use)} by position and ε{': ' + prose(place) if place else ''}")
        for measure in sweep.measures:
            null = next((e.null for e in sweep.entries if e.measure == measure and e.null is not None), None)
            guess = "" if null is None else f" (a guess: {null:.3f})"
            out += [f"**{prose(measure)}**{guess}", table_of(sweep, measure).markdown()]
    return [] if not out else ["## Positions", *out]


def table_of(sweep: Sweep, measure: str) -> Table:
    """One measure: a row for each position, a column for each ε."""
    headers = ("position", *(_column(epsilon) for epsilon in sweep.epsilons))
    rows = tuple(
        (position, *(_shown(sweep.at(measure, position, epsilon)) for epsilon in sweep.epsilons))
        for position in sweep.positions
    )
    return Table(headers, rows, numeric=tuple(range(1, len(headers))))


def render_positions(result: RunResult) -> str:
    """Figure data: a row for each measure, position and ε that has a number; ε is ``inf`` for no noise."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(figure_data(result))
    return out.getvalue()


def figure_data(result: RunResult) -> list[dict[str, Any]]:
    """The same rows as mappings; no noise is ε ``"inf"``."""
    return [
        {
            "data": sweep.block.data, "model": sweep.block.model, "defense": sweep.use, "measure": e.measure,
            "goal": e.goal, "null": e.null, "position": e.position,
            "epsilon": "inf" if e.epsilon == CLEAR else e.epsilon,
            "value": e.value.value, "low": e.value.low, "high": e.value.high, "n": e.value.n,
        }
        for sweep in sweeps(result)
        for e in sweep.entries
        if isinstance(e.value, Estimate)
    ]  # fmt: skip


def write_positions(result: RunResult, folder: Path) -> tuple[Path, ...]:
    """``positions.csv``, ``.json`` and ``.svg`` in ``folder``; nothing where no defense was tried at several."""
    found = sweeps(result)
    if not found:
        return ()
    csv_file, json_file, plot_file = (folder / name for name in FILES)
    csv_file.write_text(render_positions(result), encoding="utf-8")
    json_file.write_text(json.dumps(figure_data(result), indent=1) + "\n", encoding="utf-8")
    plot_file.write_text(plot(found), encoding="utf-8")
    return csv_file, json_file, plot_file


def plot(found: Sequence[Sweep]) -> str:
    """An SVG: a panel for each measure of each sweep, a line with its interval for each ε."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    panels = [(sweep, measure) for sweep in found for measure in sweep.measures]
    widest = max(len(sweep.positions) for sweep in found)
    with mpl.rc_context({"svg.hashsalt": "dpeval", "svg.fonttype": "none"}):
        figure = Figure(figsize=(max(6.0, 0.4 * widest), 3.2 * len(panels)), layout="constrained")
        for axes, (sweep, measure) in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
            _panel(axes, sweep, measure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def _panel(axes: Any, sweep: Sweep, measure: str) -> None:
    for epsilon in sweep.epsilons:
        at = [(i, sweep.at(measure, position, epsilon)) for i, position in enumerate(sweep.positions)]
        points = [(i, e.value) for i, e in at if e is not None and isinstance(e.value, Estimate)]
        if points:
            x, values = [i for i, _ in points], [v for _, v in points]
            spread = [[v.value - v.low for v in values], [v.high - v.value for v in values]]
            axes.errorbar(
                x, [v.value for v in values], yerr=spread, marker="o", ms=3, lw=1, capsize=2, label=_column(epsilon)
            )
    null = next((e.null for e in sweep.entries if e.measure == measure and e.null is not None), None)
    if null is not None:
        axes.axhline(null, color="grey", ls=":", lw=1)
    axes.set_xticks(range(len(sweep.positions)), sweep.positions, rotation=90, fontsize=7)
    axes.set_title(f"{sweep.use}: {measure}", fontsize=9)
    axes.legend(fontsize=7)


def _entries(block: Block, swept: Sequence[DefenseResult], result: RunResult) -> Iterator[Entry]:
    majority, plain_model = result.utility_baseline.get(block.data), block.undefended
    for d in swept:
        yield Entry(UTILITY, "utility", _position(d), float(_epsilon(d) or 0), _utility(d), majority)
    if plain_model is not None:
        for position in dict.fromkeys(_position(d) for d in swept):
            yield Entry(UTILITY, "utility", position, CLEAR, _utility(plain_model), majority)
    for cell in block.cells:
        for d in swept:
            if cell.defense == d.label and cell.tap in (None, _position(d)):
                yield _of_cell(cell, _position(d), float(_epsilon(d) or 0))
        if plain_model is not None and cell.defense == plain_model.label:
            for position in dict.fromkeys(_position(d) for d in swept):
                if cell.tap in (None, position):
                    yield _of_cell(cell, position, CLEAR)


def _of_cell(cell: CellResult, position: str, epsilon: float) -> Entry:
    value = headline(cell) if cell.status is Status.OK else STATUS_WORDS[cell.status]
    return Entry(
        f"{cell.attack}: {cell.headline}" if cell.headline else cell.attack,
        cell.goal,
        position,
        epsilon,
        value,
        cell.null,
    )


def _utility(defense: DefenseResult) -> Measured | str:
    return STATUS_WORDS[defense.status] if defense.status in (Status.FAILED, Status.UNFIT) else defense.utility


def _position(defense: DefenseResult) -> str:
    return str(defense.settings.get("position") or "")


def _epsilon(defense: DefenseResult) -> float | None:
    settings: Mapping[str, Any] = defense.settings
    value = settings.get("epsilon")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _column(epsilon: float) -> str:
    return "no noise" if epsilon == CLEAR else f"ε = {plain(epsilon)}"


def _shown(entry: Entry | None) -> str:
    if entry is None:
        return NOTHING
    return entry.value if isinstance(entry.value, str) else measured(entry.value, entry.null)
