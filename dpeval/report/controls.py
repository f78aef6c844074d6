"""The controls: whether each attack breaks what it must break, and whether the records alone give membership away.

>>> from dpeval.report.example import tiny_run
>>> section(tiny_run())[0]
'## Controls'
"""

from __future__ import annotations

from dpeval.report.marks import GUESS
from dpeval.report.numbers import counted, number
from dpeval.report.table import NOTHING, Table
from dpeval.results import ControlResult, RunResult
from dpeval.types import Measured

INTRO = (
    "Every attack is tried on something that it must break and on something that it must not. For attacks on "
    "predictions: an over-fitted undefended model, and a model that never saw the records. For attacks on embeddings: "
    "the clear embedding of the base model, and the embedding of another text. An attack that fails here says nothing "
    "about a defense. On several models, one for each seed, it has to succeed on every one, and the value shown is "
    "that of its worst; [controls] seeds sets on how many seeds controls are trained and attacked. An attribute attack "
    "has to beat guessing here, whatever covariates tell."
)
BLIND = (
    "The blind attacker tells members from non-members by the texts alone, without any model. Where it succeeds, the "
    "two groups differ by themselves and no membership result on them means anything."
)

NO_BLIND = "No blind attacker was run; without membership attacks none is needed."


def section(result: RunResult) -> list[str]:
    """Both kinds of control as tables."""
    out = ["## Controls"]
    out += [INTRO, _controls(result).markdown()] if result.controls else ["No attack was validated by controls."]
    return [*out, "### Blind baseline", *([BLIND, _blind(result).markdown()] if result.blind else [NO_BLIND])]


def _controls(result: RunResult) -> Table:
    headers = (
        "attack",
        "tap",
        "data",
        "model",
        "measure",
        "random guess",
        "must break",
        "must not break",
        "validated",
        "why",
    )
    rows = tuple(_row(control) for control in result.controls)
    return Table(headers, rows, numeric=(5, 6, 7)).without_empty_columns()


def _row(control: ControlResult) -> tuple[str, ...]:
    return (
        control.attack,
        control.tap or NOTHING,
        control.data,
        control.model,
        control.measure,
        NOTHING if control.null is None else number(control.null, 3),
        _worst_of(control.positive, control.null, control.models[0]),
        _worst_of(control.negative, control.null, control.models[1]),
        "yes" if control.validated else "no",
        control.reason or NOTHING,
    )


def _worst_of(value: Measured, null: float | None, models: int) -> str:
    """The value with the number of models that it is the worst of."""
    shown = counted(value, null)
    return shown if models == 1 else shown.replace("1 model)", f"the worst of {models} models)")


def _blind(result: RunResult) -> Table:
    first = (GUESS, number(0.5, 3), NOTHING, NOTHING)
    rows = ((b.data, counted(b.auc, 0.5), "INVALID" if b.invalid else "usable", b.reading) for b in result.blind)
    return Table(("data", "auc without a model", "membership cells", "reading"), (first, *rows), numeric=(1,))
