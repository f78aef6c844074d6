"""Sentences of the summary: which defense leaked what under which attack, and which differences mean nothing.

Sentences are raw text; the caller makes them safe for the place where they stand.

>>> from dpeval.report.example import tiny_run
>>> from dpeval.report.layout import blocks
>>> print(*defense_sentences(blocks(tiny_run())[0], "none"))
leaked under 1 of 1 attack: mia-threshold (auc 0.74 [0.70, 0.78] against 0.500 by guessing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpeval.report.layout import Block, Column, headline, ok, overlap, solid
from dpeval.report.matrix import guess
from dpeval.report.numbers import count, measured, number, plural
from dpeval.report.pairs import Pairs, place
from dpeval.report.power import would_have_detected
from dpeval.results import CellResult, Status
from dpeval.types import Estimate

NONE = Pairs(())


def defense_sentences(block: Block, label: str) -> tuple[str, ...]:
    """What the attacks that mean something found on one defense; one sentence a kind of finding."""
    planned = [c for c in block.cells if c.defense == label]
    cells = ok(planned)
    if not cells:
        return ("was met by no attack that gave a valid result.",)
    leaking = [c for c in cells if c.distinguishable == "yes" and not _below(c)]
    silent = [c for c in cells if c.distinguishable == "no"]
    void = sum(c.status not in (Status.OK, Status.UNFIT) for c in planned)
    attacks = plural(len(cells), "attack")
    more = f" ({count(void)} more gave no valid result)" if void else ""
    first = f"{_finding(len(leaking), len(silent))} of {attacks}{more}"
    rest = (
        ("No difference from guessing", _silence, silent),
        ("Worse than guessing (an inverted score?)", _shown, [c for c in cells if _below(c)]),
        ("Undecided for want of data", _shown, [c for c in cells if c.distinguishable == "insufficient"]),
    )
    return (
        _sentence(first, [_leak(c) for c in leaking]),
        *(_sentence(what, [say(c) for c in some]) for what, say, some in rest if some),
    )


def _finding(leaking: int, silent: int) -> str:
    if leaking:
        return f"leaked under {leaking}"
    return f"showed no leak under {silent}" if silent else "has a decided result under none"


def comparison(block: Block, column: Column, pairs: Pairs = NONE) -> str | None:
    """Who leaked most under one attack and who cannot be told apart; ``None`` where fewer than two can be compared.

    Told apart by the paired comparison; where a run has none, by intervals that do not overlap.
    """
    known = [(c.defense, value) for c in block.column(column) if (value := solid(c)) is not None]
    if len(known) < 2:
        return None
    measure = next(c.headline for c in block.column(column) if c.headline)
    start = f"{measure}, random guess {guess(block, column)}."
    return f"{start} {_ranked(dict(known), pairs)}" if pairs else _overlapping(start, known)


def _ranked(values: Mapping[str, Estimate], pairs: Pairs) -> str:
    ranks = pairs.ranks([(name, value.value) for name, value in values.items()])
    if all((r.first, r.last) == (1, len(ranks)) for r in ranks):
        return (
            f"No two were told apart (paired by seed and record): {_values([(r.name, values[r.name]) for r in ranks])}."
        )
    shown = "; ".join(f"{place(r)} {r.name} {measured(values[r.name])}" for r in ranks)
    return f"From the largest down, = for places shared by those who were not told apart (paired): {shown}."


def _overlapping(start: str, known: Sequence[tuple[str, Estimate]]) -> str:
    top_name, top = max(known, key=lambda pair: pair[1].value)
    tied = [pair for pair in known if pair[0] != top_name and overlap(pair[1], top)]
    below = [pair for pair in known if not overlap(pair[1], top)]
    start = f"{start} Largest: {top_name} {measured(top)}."
    if not below:
        return f"{start} No other was shown to differ from it: all intervals overlap with its own."
    ties = f" Not shown to differ from it (intervals overlap): {_values(tied)}." if tied else ""
    return f"{start}{ties} Below it: {_values(below)}{_among(below)}."


def _among(below: Sequence[tuple[str, Estimate]]) -> str:
    if len(below) < 2:
        return ""
    alike = all(overlap(a[1], b[1]) for a in below for b in below)
    return "; not shown to differ from one another" if alike else "; of these, overlapping intervals are ties"


def _values(pairs: Sequence[tuple[str, Estimate]]) -> str:
    return ", ".join(f"{name} {measured(value)}" for name, value in pairs)


def _sentence(start: str, parts: Sequence[str]) -> str:
    return f"{start}: {'; '.join(parts)}." if parts else f"{start}."


def _shown(cell: CellResult) -> str:
    return f"{_name(cell)} ({cell.headline} {measured(headline(cell), cell.null)})"


def _leak(cell: CellResult) -> str:
    against = "" if cell.null is None else f" against {number(cell.null, 3)} by guessing"
    return f"{_name(cell)} ({cell.headline} {measured(headline(cell), cell.null)}{against})"


def _silence(cell: CellResult) -> str:
    value = measured(headline(cell), cell.null)
    return f"{_name(cell)} ({cell.headline} {value}; {_alone(cell)}{would_have_detected(cell)})"


def _alone(cell: CellResult) -> str:
    """Where a reader would take the interval for a finding that the adjustment does not bear out."""
    value = headline(cell)
    # Elsewhere the test is of a paired gain, and the headline's own interval decides nothing.
    if cell.goal not in ("membership", "extraction") or cell.null is None or not isinstance(value, Estimate):
        return ""
    return "its own interval leaves guessing out, but not after the adjustment; " if value.excludes(cell.null) else ""


def _name(cell: CellResult) -> str:
    return Column(cell.attack, cell.goal, cell.tap).label


def _below(cell: CellResult) -> bool:
    value = solid(cell)
    return value is not None and cell.null is not None and cell.distinguishable == "yes" and value.value < cell.null
