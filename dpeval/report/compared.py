"""Defenses side by side under each attack and on accuracy, paired by seed and record; and at matched utility.

>>> from dpeval.report.example import tiny_run
>>> section(tiny_run())
[]
"""

from __future__ import annotations

from collections.abc import Iterator

from dpeval.report.cells import prose
from dpeval.report.layout import Block, Column, block_name, blocks, solid
from dpeval.report.marks import stamp
from dpeval.report.numbers import count, measured, p_value
from dpeval.report.pairs import Pairs, pairs_of, place
from dpeval.report.table import NOTHING, Table
from dpeval.results import DefenseResult, RunResult
from dpeval.types import Claim, Estimate

INTRO = (
    "Differences are paired by training seed and record: what both defenses share cancels. p is adjusted for the {} "
    "paired comparisons of the run (Holm 1979). Places marked = are shared: their holders were not told apart."
)
MATCHED = (
    "At matched utility: of the defenses that were not shown to be less accurate than the one in the row, the one that "
    "leaks least. A defense that leaks little because it learnt little is beaten here by one that learnt as little."
)
NO_MATCH = "At matched utility no defense of this block has a rival that leaks less."


def section(result: RunResult) -> list[str]:
    """Tables for each block in which two defenses were compared; empty where none were."""
    out: list[str] = []
    for block in blocks(result):
        tables = list(_tables(result, block))
        if not tables:
            continue
        name = block_name(result, block)
        out += [f"### {prose(name)}"] if name else []
        out += [*tables, *_matched(result, block), *_untuned(result, block)]
    tests = sum(p.p_value is not None for p in result.paired)
    return [f"## Defenses compared{stamp(result)}", INTRO.format(count(tests)), *out] if out else []


def _tables(result: RunResult, block: Block) -> Iterator[str]:
    utility = pairs_of(result, block, None)
    if utility:
        values = {d.label: d.utility for d in block.defenses if isinstance(d.utility, Estimate)}
        yield _table("accuracy (test)", values, utility, _reference(block, values)).markdown()
    for column in block.columns:
        pairs = pairs_of(result, block, column)
        leaks = leaks_of(block, column)
        if pairs and len(leaks) > 1:
            yield _table(_title(block, column), leaks, pairs, _reference(block, leaks)).markdown()


def leaks_of(block: Block, column: Column) -> dict[str, Estimate]:
    """The headline of each defense in one column, where it means something."""
    return {c.defense: value for c in block.column(column) if (value := solid(c)) is not None}


def _title(block: Block, column: Column) -> str:
    names = dict.fromkeys(c.headline for c in block.column(column) if c.headline)
    return f"{column.label}: {' / '.join(names)}"


def _reference(block: Block, values: dict[str, Estimate]) -> str:
    """The undefended model where it is among them, else the first."""
    plain = block.undefended
    return plain.label if plain is not None and plain.label in values else next(iter(values))


def _table(title: str, values: dict[str, Estimate], pairs: Pairs, reference: str) -> Table:
    ranks = pairs.ranks([(name, value.value) for name, value in values.items()])
    headers = ("place", "defense", title, f"minus {reference}", "p (Holm)", "not told apart from")
    rows = []
    for rank in ranks:
        name = rank.name
        own = name == reference
        found = None if own else pairs.result(name, reference)
        ties = [other for other in values if other != name and not pairs.told_apart(name, other)]
        rows.append(
            (
                place(rank), name, measured(values[name]), NOTHING if own else measured(pairs.of(name, reference), 0.0),
                p_value(found.p_holm if found else None), ", ".join(ties) or NOTHING,
            )
        )  # fmt: skip
    return Table(headers, tuple(rows), numeric=(2, 3, 4))


def _matched(result: RunResult, block: Block) -> list[str]:
    rows = tuple(row for d in block.defenses for row in _rivals(result, block, d))
    if not pairs_of(result, block, None):
        return []
    headers = ("defense", "attack", "leaks", "rival", "leaks", "difference, paired", "told apart")
    return [MATCHED, Table(headers, rows, numeric=(2, 4, 5)).markdown()] if rows else [NO_MATCH]


def matches(result: RunResult, block: Block, defense: DefenseResult) -> list[str]:
    """The defenses not shown to be less accurate than this one."""
    utility, out = pairs_of(result, block, None), []
    if not isinstance(defense.utility, Estimate):
        return []
    for other in block.defenses:
        if other.label == defense.label or utility.result(other.label, defense.label) is None:
            continue
        less = utility.of(other.label, defense.label)
        if not (isinstance(less, Estimate) and less.value < 0 and utility.told_apart(other.label, defense.label)):
            out.append(other.label)
    return out


def _rivals(result: RunResult, block: Block, defense: DefenseResult) -> Iterator[tuple[str, ...]]:
    rivals = matches(result, block, defense)
    for column in block.columns:
        leaks = leaks_of(block, column)
        mine, theirs = leaks.get(defense.label), {name: leaks[name] for name in rivals if name in leaks}
        if mine is None or not theirs:
            continue
        least = min(theirs, key=lambda name: theirs[name].value)
        if theirs[least].value >= mine.value:
            continue
        pairs = pairs_of(result, block, column)
        yield (
            defense.label, _title(block, column), measured(mine), least, measured(theirs[least]),
            measured(pairs.of(least, defense.label), 0.0), "yes" if pairs.told_apart(least, defense.label) else "no",
        )  # fmt: skip


def untuned(block: Block) -> list[str]:
    """Defenses with a claim of which one setting was tried at their ε: a tuned one may be better (guard V20)."""
    claims = [(d, d.claim) for d in block.defenses if isinstance(d.claim, Claim)]
    return [
        d.label
        for d, claim in claims
        if sum(other.use == d.use and c.kind == claim.kind and f"{c.epsilon:.2g}" == f"{claim.epsilon:.2g}"
               for other, c in claims) == 1
    ]  # fmt: skip


def _untuned(result: RunResult, block: Block) -> list[str]:
    names = untuned(block)
    if not names:
        return []
    trials = result.provenance.trials.get(block.data)
    seen = f" This run folder has seen {count(trials)} distinct trainings on these data." if trials else ""
    listed = prose(", ".join(names))
    return [f"Untuned, since one setting was tried at their ε; they may do better than shown: {listed}.{seen}"]
