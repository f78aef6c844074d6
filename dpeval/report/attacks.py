"""Detail by attack goal: every measure of every cell, with records, models, p-values, readings and warnings.

>>> from dpeval.report.example import tiny_run
>>> for line in sections(tiny_run()):
...     print(line.splitlines()[0][:45])
## Detail: membership
### mia-threshold
| defense        | status   |               a
- **none**: Members are told.
"""

from __future__ import annotations

from dpeval.report.best import largest_table
from dpeval.report.cells import prose, shorten
from dpeval.report.glossary import null_of
from dpeval.report.layout import Block, Column, block_name, blocks, headline
from dpeval.report.marks import GUESS, STATUS_WORDS, stamp
from dpeval.report.matrix import guess
from dpeval.report.numbers import count, duration, measured, number, p_value, plural
from dpeval.report.power import is_limit
from dpeval.report.table import NOTHING, Table
from dpeval.results import CellResult, RecordRisk, RunResult, Status
from dpeval.types import Estimate, Measured

AFTER = ("records", "models", "p", "p (Holm)", "differs from guess")
MOST = 20
"""Exposed ids shown of one cell."""
TEXT = 120
"""Characters shown of a text, where texts were asked for."""
RISK = (
    "The score counts standard deviations of non-members; p is the chance of a non-member scoring as high, for one "
    "record named beforehand."
)


def sections(result: RunResult) -> list[str]:
    """One section for each goal, in the order of the matrix."""
    out = []
    for goal in dict.fromkeys(c.goal for c in result.cells):
        out.append(f"## Detail: {prose(goal)}{stamp(result)}")
        for block in blocks(result):
            out += _goal(result, block, goal)
    return out


def _goal(result: RunResult, block: Block, goal: str) -> list[str]:
    cells = [c for c in block.cells if c.goal == goal]
    table = largest_table(cells)
    best = [
        "Largest value of each measure. Every row stands alone; being picked as the largest makes a value look larger.",
        table.markdown(),
    ]
    name = block_name(result, block)
    out = best if table.rows else []
    for column in (c for c in block.columns if c.goal == goal):
        title = column.label + (f" ({name})" if name else "")
        out = [*out, f"### {prose(title)}", detail(block, column).markdown(), *_said(block, column)]
    return out


def detail(block: Block, column: Column) -> Table:
    """Every measure of one attack at one tap: a row for random guess, then one for each defense."""
    cells = block.column(column)
    names = tuple(dict.fromkeys(name for c in cells for name in c.measures))
    headers = ("defense", "status", *names, *AFTER)
    first = (GUESS, NOTHING, *(_null(block, column, name) for name in names), *(NOTHING,) * len(AFTER))
    rows = (first, *(_row(cell, names) for cell in cells))
    return Table(headers, rows, numeric=tuple(range(2, len(headers) - 1)))


def _row(cell: CellResult, names: tuple[str, ...]) -> tuple[str, ...]:
    shown = (_value(cell, cell.measures[name], name) if name in cell.measures else NOTHING for name in names)
    value = headline(cell)
    sizes = (count(value.n), count(value.models)) if isinstance(value, Estimate) else (NOTHING, NOTHING)
    differs = cell.distinguishable if cell.status is Status.OK else NOTHING
    return (
        cell.defense,
        STATUS_WORDS[cell.status],
        *shown,
        *sizes,
        p_value(cell.p_value),
        p_value(cell.p_holm),
        differs,
    )


def _value(cell: CellResult, value: Measured, name: str) -> str:
    """A measure, with its own number of records where that is not the headline's."""
    if is_limit(name) and isinstance(value, Estimate):
        return number(value.value)
    null = cell.null if name == cell.headline else null_of(name, cell.goal)
    main = headline(cell)
    other = isinstance(value, Estimate) and isinstance(main, Estimate) and value.n != main.n
    return measured(value, null) + (f" (n = {count(value.n)})" if other and isinstance(value, Estimate) else "")


def _null(block: Block, column: Column, name: str) -> str:
    if any(c.headline == name for c in block.column(column)):
        return guess(block, column)
    baselines = [c.measures.get(f"baseline_{name}") for c in block.column(column)]
    known = sorted({number(b.value, 3) for b in baselines if isinstance(b, Estimate)})
    if known:
        return " to ".join(dict.fromkeys((known[0], known[-1])))
    null = null_of(name, column.goal)
    return NOTHING if null is None else number(null, 3)


def _said(block: Block, column: Column) -> list[str]:
    """The reading, warnings and most exposed records of each cell, as one list."""
    lines = [line for cell in block.column(column) for line in _cell_lines(cell)]
    return ["\n".join(lines)] if lines else []


def _cell_lines(cell: CellResult) -> list[str]:
    # The reading of a number that means nothing would be taken for a finding.
    said = cell.reading if cell.status is Status.OK else _why(cell)
    words = prose(_ended(said)) if said else "no reading was recorded."
    took = "" if cell.seconds is None else f" The attack took {duration(cell.seconds)}."
    lines = [f"- **{prose(cell.defense)}**: {words}{took}"]
    lines += [f"  - Warning: {prose(warning)}" for warning in cell.warnings]
    return lines + _exposed(cell)


def _why(cell: CellResult) -> str:
    """Status and reason of a cell that is not in order, without saying the status twice."""
    words = (STATUS_WORDS[cell.status], str(cell.status))
    said = cell.reason.casefold().startswith(tuple(word.casefold() for word in words))
    return cell.reason if said else f"{words[0]}: {cell.reason}"


def _ended(text: str) -> str:
    """A sentence with its full stop."""
    return text if text.rstrip().endswith((".", "!", "?", "…")) else f"{text.rstrip()}."


def _exposed(cell: CellResult) -> list[str]:
    if not cell.exposed:
        return []
    more = len(cell.exposed) - MOST
    rest = f" and {count(more)} more in the JSON file" if more > 0 else ""
    risks = {risk.id: risk for risk in cell.risks}
    shown = ", ".join(_risk(key, risks.get(key)) for key in cell.exposed[:MOST])
    note = f". {RISK}" if risks else "."
    return [f"  - Most exposed records, the most exposed first: {prose(shown)}{rest}{note}"]


def _risk(key: str, risk: RecordRisk | None) -> str:
    if risk is None:
        return key
    text = "" if risk.text is None else f", text: {shorten(risk.text, TEXT)!r}"
    return f"{key} (score {risk.excess:+.1f}, p {p_value(risk.p)}, {plural(risk.models, 'model')}{text})"
