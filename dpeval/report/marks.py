"""The words that stand for a status, the watermark of runs that must not be quoted, and the legend of the matrix.

>>> STATUS_WORDS[Status.NOT_VALIDATED]
'not validated'
"""

from __future__ import annotations

from dpeval.report.numbers import percent
from dpeval.results import Ruling, RunResult, Status

STATUS_WORDS = {
    Status.OK: "ok",
    Status.INVALID: "INVALID",
    Status.NOT_VALIDATED: "not validated",
    Status.UNFIT: "unfit",
    Status.FAILED: "FAILED",
}
STATUS_MEANINGS = {
    Status.INVALID: (
        "an attacker that never sees the model tells members from non-members here, so the number says nothing about "
        "the model"
    ),
    Status.NOT_VALIDATED: (
        "the attack did not break what it must break, or broke what it must not (see Controls), so its failure says "
        "nothing about the defense"
    ),
    Status.UNFIT: "the combination makes no sense or cannot run",
    Status.FAILED: "the work ended with an error",
}
DIFFERS, UNDECIDED = "*", "?"
MARKS = {"yes": f" {DIFFERS}", "insufficient": f" {UNDECIDED}"}
GUESS = "(random guess)"
"""The label of the baseline row that every table of attack measures has."""


def ruling_word(ruling: Ruling) -> str:
    """What became of a claim; the one that matters in capitals."""
    return str(ruling).upper() if ruling is Ruling.REFUTED else str(ruling)


SMOKE = "SMOKE RUN: a limited run to see that everything works. Its numbers must not be quoted."
PARTIAL = "PARTIAL: something failed; what is missing is listed below and marked in the tables."


def watermark(result: RunResult) -> str | None:
    """The sentence that a run which is not complete carries above every table of results."""
    return {"smoke": SMOKE, "partial": PARTIAL}.get(result.status)


def stamp(result: RunResult) -> str:
    """The same for a heading, so that no part of a smoke run can be shown without it."""
    return " (SMOKE: do not quote)" if result.status == "smoke" else ""


def legend(result: RunResult) -> tuple[str, ...]:
    """What a reader of the matrix needs, one sentence each."""
    shown = {c.status for c in result.cells} | {d.status for d in result.defenses}
    words = [f"{STATUS_WORDS[s]}: {meaning}." for s, meaning in STATUS_MEANINGS.items() if s in shown]
    return (
        *_always(result),
        *words,
        "–: not in the matrix, or not measured.",
    )


def _always(result: RunResult) -> list[str]:
    numbers = (
        f"Numbers are estimates with {percent(result.level)} confidence intervals over records and training seeds; "
        "higher means more leakage, except for accuracy, time and memory."
    )
    marks = (
        f"{DIFFERS}: differs from random guess after adjustment for {result.comparisons} comparisons (Holm). "
        f"{UNDECIDED}: too little data to decide. No mark: no difference was shown, which is not the same as no leak."
    )
    return [numbers, marks]
