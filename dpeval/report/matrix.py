"""The attack × defense matrix: one row a defense, one column an attack at a tap, with utility and cost beside.

The same table is printed by ``dpeval run`` and stands in the report.

>>> from dpeval.report.example import tiny_run
>>> from dpeval.report.layout import blocks
>>> print(matrix(tiny_run(), blocks(tiny_run())[0]).text())
defense           mia-threshold: auc    accuracy (test)    training time    peak memory  claim
--------------  --------------------  -----------------  ---------------  -------------  --------
(random guess)                 0.500   0.500 (majority)                –              –  –
none             0.74 [0.70, 0.78] *  0.75 [0.71, 0.79]       1 min 01 s        1.0 GiB  no claim
"""

from __future__ import annotations

from dpeval.report.cells import prose
from dpeval.report.layout import Block, Column, block_name, blocks, headline
from dpeval.report.marks import GUESS, MARKS, STATUS_WORDS, legend, ruling_word, stamp
from dpeval.report.numbers import measured, memory_of, number, percent, seconds_of
from dpeval.report.table import NOTHING, Table
from dpeval.results import CellResult, DefenseResult, RunResult, Status

BESIDE = ("accuracy (test)", "training time", "peak memory", "claim", "dominated by")


def section(result: RunResult) -> list[str]:
    """The matrix as markdown paragraphs, one table for each data set and model."""
    out = [f"## Attack × defense matrix{stamp(result)}"]
    for block in blocks(result):
        name = block_name(result, block)
        out += [f"### {prose(name)}"] if name else []
        out += [matrix(result, block).markdown()]
    return [*out, "\n".join(f"- {prose(line)}" for line in legend(result))]


def matrix(result: RunResult, block: Block) -> Table:
    """The table of one block: a row for random guess, one for each defense, and an entry for each planned cell."""
    headers = ("defense", *(_header(block, c) for c in block.columns), *BESIDE)
    rows = [_guess_row(result, block), *(_row(block, label) for label in block.labels)]
    whole = Table(headers, tuple(rows), numeric=tuple(range(1, len(headers) - 2)))
    return whole.without_empty_columns()


def entry(cell: CellResult | None, defense: DefenseResult | None = None) -> str:
    """What the matrix shows of one cell: a number only where it means something."""
    if cell is None:
        return STATUS_WORDS[Status.FAILED] if defense and defense.status is Status.FAILED else NOTHING
    if cell.status is not Status.OK:
        return STATUS_WORDS[cell.status]
    return measured(headline(cell), cell.null) + MARKS.get(cell.distinguishable, "")


def guess(block: Block, column: Column) -> str:
    """What an attacker without skill reaches in a column; a range where it differs between the cells."""
    nulls = sorted({number(c.null, 3) for c in block.column(column) if c.null is not None})
    return NOTHING if not nulls else nulls[0] if len(nulls) == 1 else f"{nulls[0]} to {nulls[-1]}"


def _header(block: Block, column: Column) -> str:
    names = dict.fromkeys(c.headline for c in block.column(column) if c.headline)
    return f"{column.label}: {' / '.join(names)}" if names else column.label


def _row(block: Block, label: str) -> tuple[str, ...]:
    defense = block.defense(label)
    entries = (entry(block.cell(label, column), defense) for column in block.columns)
    return (label, *entries, *_beside(defense))


def _beside(defense: DefenseResult | None) -> tuple[str, ...]:
    if defense is None:
        return (NOTHING,) * len(BESIDE)
    broken = defense.status in (Status.FAILED, Status.UNFIT)
    return (
        STATUS_WORDS[defense.status] if broken else measured(defense.utility),
        seconds_of(defense.cost),
        memory_of(defense.cost),
        NOTHING if broken else ruling_word(defense.verdict.ruling),
        defense.dominated_by or NOTHING,
    )


def _guess_row(result: RunResult, block: Block) -> tuple[str, ...]:
    majority = result.utility_baseline.get(block.data)
    utility = NOTHING if majority is None else f"{number(majority, 3)} (majority)"
    return (GUESS, *(guess(block, c) for c in block.columns), utility, *(NOTHING,) * (len(BESIDE) - 1))


def caption(result: RunResult, block: Block) -> str:
    """What the table is about, for places that have no headings."""
    return f"{block.data} · {block.model} · {len(result.provenance.seeds)} seeds · {percent(result.level)} intervals"
