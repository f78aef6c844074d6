"""Sentences of the summary on what the sizes of a run can and cannot show (validity guards V3 and V24).

>>> from dpeval.report.example import tiny_run
>>> print(size_sentences(tiny_run())[0].partition("; ")[2])
3 training seeds for each defense.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpeval.measure.detection import POWER
from dpeval.report.layout import Block, block_name, blocks, headline, ok
from dpeval.report.numbers import count, epsilon, lower_bound, number, percent, plural
from dpeval.report.power import detectable
from dpeval.results import DataSummary, RunResult
from dpeval.types import Claim, Undefined


def size_sentences(result: RunResult) -> tuple[str, ...]:
    """Sizes, detection limits, measures that need more records, and what no audit here could refute."""
    lines = [_sizes(data, result) for data in result.data]
    lines += _seeds(result)
    lines += [line for block in blocks(result) for line in _limits(result, block)]
    return (*lines, *_gated(result), *_refutable(result))


def _sizes(data: DataSummary, result: RunResult) -> str:
    roles = ", ".join(f"{size_of(data, role)} {role}" for role in data.roles)
    seeds = plural(len(result.provenance.seeds), "training seed")
    of = "" if data.ranges or len(result.provenance.seeds) < 2 else " (in the first seed's split)"
    return f"{data.name}: {roles}{of}; {seeds} for each defense."


def size_of(data: DataSummary, role: str) -> str:
    """How many records a role has: a range where the seeds differ.

    >>> data = DataSummary(name="d", fingerprint="", records=9, roles={"test": 4}, labels={}, ranges={"test": (4, 5)})
    >>> size_of(data, "test")
    '4 to 5'
    """
    least, most = data.ranges.get(role, (data.roles[role],) * 2)
    return count(least) if least == most else f"{count(least)} to {count(most)}"


def _seeds(result: RunResult) -> list[str]:
    few = len(result.provenance.seeds) < 3
    text = "Fewer than three training seeds: how much results vary between trainings is hardly known."
    return [text] if few else []


def _limits(result: RunResult, block: Block) -> Iterator[str]:
    place = block_name(result, block)
    for column in block.columns:
        cells = ok(block.column(column))
        limits = sorted(x for c in cells if (x := detectable(c)) is not None)
        if limits:
            name = column.label + (f" ({place})" if place else "")
            span = " to ".join(dict.fromkeys(number(x, 3) for x in (limits[0], limits[-1])))
            yield f"{name} would have detected {cells[0].headline} of at least {span}; smaller leaks may go unseen."


def _gated(result: RunResult) -> Iterator[str]:
    """Measures that the data do not define, each reason once."""
    missing = dict.fromkeys(
        (c.goal, name, value.reason)
        for c in ok(result.cells)
        for name, value in c.measures.items()
        if isinstance(value, Undefined) and value != headline(c)
    )
    for goal, name, reason in missing:
        yield f"{name} ({goal}) is not given: {reason}."


def _refutable(result: RunResult) -> Iterator[str]:
    for d in result.defenses:
        ceiling, limit = d.verdict.ceiling, d.verdict.smallest_refutable
        if ceiling is None or not isinstance(d.claim, Claim):
            continue
        tested = d.claim.epsilon if d.verdict.claimed is None else d.verdict.claimed
        claimed = f"its claim of ε = {epsilon(tested)} per {d.claim.unit.value}"
        start = f"{d.label}: had every guess been right, the lower bound on ε would have been {lower_bound(ceiling)}"
        if tested >= ceiling:
            yield f"{start}: this experiment could not have refuted {claimed}."
        elif limit is None or math.isinf(limit):
            yield f"{start}: guesses nearly all right would have refuted {claimed}; a weaker leak goes unseen."
        else:
            yield (
                f"{start}; {claimed} would have been refuted with {percent(POWER)} power if the true ε were "
                f"{number(limit)} and the attack the best possible, planned without error; a weaker leak goes unseen."
            )
