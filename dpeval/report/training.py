"""How the private training went: noise against signal, for every defense that logged its steps.

The figures come from the members' gradients without noise. They are for the experimenter and no part of any claim.

>>> from dpeval.report.example import tiny_run
>>> section(tiny_run())
[]
"""

from __future__ import annotations

from dpeval.report.cells import prose
from dpeval.report.layout import block_name, blocks
from dpeval.report.numbers import plain
from dpeval.report.table import NOTHING, Table
from dpeval.results import DefenseResult, RunResult

MARK = "effective noise multiplier"
"""The figure that every log of a private training has."""
COLUMNS = {
    "steps": "Steps",
    "records drawn per step": "Records per step",
    MARK: "σ_eff = σ/q",
    "noise multiplier over expected batch": "σ/(qN)",
    "signal to noise": "Signal/noise",
    "signal to noise, first third": "first third",
    "signal to noise, last third": "last third",
    "mean gradient norm": "Gradient norm",
    "share clipped": "Clipped",
    "empty draws": "Empty draws",
    "records dropped for infinite gradients": "Dropped",
}
INTRODUCTION = (
    "Signal/noise is the norm of the summed clipped gradients over the norm of the noise added to it, step by step, "
    "averaged over the steps of each third and of the whole training; the gradient norm is that of one record before "
    "clipping. **Not private**: computed from the members' gradients without noise, and covered by no claim."
)


def section(result: RunResult) -> list[str]:
    """The section, or nothing where no defense trained in private steps."""
    out: list[str] = []
    for block in blocks(result):
        logged = [d for d in block.defenses if is_logged(d)]
        if logged:
            title = block_name(result, block)
            out += [f"### {prose(title)}"] if title else []
            rows = tuple((d.label, *(_shown(d, name) for name in COLUMNS)) for d in logged)
            numeric = tuple(range(1, len(COLUMNS) + 1))
            out.append(Table(("Defense", *COLUMNS.values()), rows, numeric).without_empty_columns().markdown())
    return ["## How the private training went", INTRODUCTION, *out] if out else []


def is_logged(defense: DefenseResult) -> bool:
    """Whether the section shows this defense's diagnostics."""
    return MARK in defense.diagnostics


def _shown(defense: DefenseResult, name: str) -> str:
    value = defense.diagnostics.get(name)
    return NOTHING if value is None else plain(float(f"{value:.3g}"))
