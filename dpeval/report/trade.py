"""Sentences of the summary about utility: against the majority baseline, against ``none``, and dominated defenses.

>>> from dpeval.report.example import tiny_run
>>> from dpeval.report.layout import blocks
>>> block = blocks(tiny_run())[0]
>>> utility_sentence(tiny_run(), block, block.defenses[0])
'accuracy 0.75 [0.71, 0.79]; better than the majority answer; training took 1 min 01 s and 1.0 GiB.'
"""

from __future__ import annotations

from dpeval.report.layout import Block, overlap
from dpeval.report.numbers import measured, memory_of, number, seconds_of
from dpeval.report.pairs import pairs_of
from dpeval.results import DefenseResult, RunResult, Status
from dpeval.types import Estimate, Undefined

FEWEST = 30


def baseline_sentence(result: RunResult, block: Block) -> str | None:
    """What a model that learnt nothing reaches."""
    majority = result.utility_baseline.get(block.data)
    if majority is None:
        return None
    return f"Always answering the majority class of the members is right in {number(majority, 3)} of {block.data}."


def utility_sentence(result: RunResult, block: Block, defense: DefenseResult) -> str:
    """Accuracy and cost of one defense, and what the accuracy is worth."""
    if defense.status in (Status.FAILED, Status.UNFIT):
        return f"not trained ({defense.status})."
    if isinstance(defense.utility, Undefined):
        return f"accuracy {measured(defense.utility)}."
    parts = [
        _against_majority(defense.utility, result.utility_baseline.get(block.data)),
        _against_none(result, block, defense),
    ]
    cost = f"training took {seconds_of(defense.cost)} and {memory_of(defense.cost)}" if defense.cost else ""
    shown = f"accuracy {measured(defense.utility, result.utility_baseline.get(block.data))}"
    return "; ".join(p for p in (shown, *parts, cost) if p) + "."


def dominated_sentences(block: Block) -> tuple[tuple[str, str], ...]:
    """``(defense, sentence)`` for each dominated defense."""
    return tuple(
        (
            d.label,
            f"is dominated by {d.dominated_by}, which leaked no more by any measure and is strictly better in one.",
        )
        for d in block.defenses
        if d.dominated_by
    )


def _against_majority(utility: Estimate, majority: float | None) -> str:
    if majority is None:
        return ""
    if utility.n < FEWEST:
        return f"{utility.n} test records are too few to compare with the majority answer"
    if utility.low > majority:
        return "better than the majority answer"
    if utility.high < majority:
        return "worse than the majority answer"
    return "not shown to differ from the majority answer, so nothing shows that it learnt the task"


def _against_none(result: RunResult, block: Block, defense: DefenseResult) -> str:
    plain = block.undefended
    if plain is None or plain.label == defense.label or not isinstance(defense.utility, Estimate):
        return ""
    other, pairs = plain.utility, pairs_of(result, block, None)
    if pairs.result(defense.label, plain.label) is not None:
        found, apart, how = pairs.of(defense.label, plain.label), pairs.told_apart(defense.label, plain.label), "paired"
        higher = isinstance(found, Estimate) and found.value > 0
    elif isinstance(other, Estimate):
        apart, higher = not overlap(defense.utility, other), defense.utility.low > other.high
        how = "intervals do not overlap" if apart else "intervals overlap"
    else:
        apart, higher, how = False, False, "no accuracy"
    if not apart:
        return f"not shown to differ from {plain.label} ({how})"
    return f"{'above' if higher else 'below'} {plain.label} ({how})"
