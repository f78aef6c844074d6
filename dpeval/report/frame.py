"""A run as a pandas table: one row for each cell and measure, in the order of the matrix.

Claims are a text column: numbers ε of different kinds must not be sorted together, so no column holds them.

>>> from dpeval.report.example import tiny_run
>>> table(tiny_run())[["defense", "attack", "measure", "value", "low", "high"]]
  defense         attack measure  value  low  high
0    none  mia-threshold     auc   0.74  0.7  0.78
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpeval.report.glossary import null_of
from dpeval.report.layout import Block, blocks
from dpeval.report.numbers import guarantee
from dpeval.results import CellResult, DefenseResult, RunResult
from dpeval.types import Claim, Estimate, Measured, Undefined

COLUMNS = (
    "data", "model", "defense", "attack", "goal", "tap", "status", "reason", "measure", "headline", "value", "low",
    "high", "n", "models", "undefined", "null", "p_value", "p_holm", "distinguishable", "reading", "claim", "verdict",
    "accuracy", "accuracy_low", "accuracy_high", "train_seconds", "peak_bytes", "attack_seconds",
)  # fmt: skip
TESTED = ("p_value", "p_holm", "distinguishable", "reading")
"""What is known of the headline measure only."""


def table(result: RunResult) -> pd.DataFrame:
    """One row for each cell and measure; a cell that has none (failed, unfit) keeps one row with its reason."""
    rows = [row for block in blocks(result) for cell in block.cells for row in _rows(block, cell)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(block: Block, cell: CellResult) -> list[dict[str, Any]]:
    shared = _cell(cell) | _defense(block.defense(cell.defense))
    if not cell.measures:
        return [shared | {"headline": False} | _measured(Undefined(cell.reason))]
    return [shared | _named(cell, name) | _measured(value) for name, value in cell.measures.items()]


def _cell(cell: CellResult) -> dict[str, Any]:
    names = ("data", "model", "defense", "attack", "goal", "tap", "reason")
    return {name: getattr(cell, name) for name in names} | {"status": str(cell.status), "attack_seconds": cell.seconds}


def _named(cell: CellResult, name: str) -> dict[str, Any]:
    if name != cell.headline:
        return {"measure": name, "headline": False, "null": null_of(name, cell.goal)}
    return {"measure": name, "headline": True, "null": cell.null} | {key: getattr(cell, key) for key in TESTED}


def _defense(defense: DefenseResult | None) -> dict[str, Any]:
    if defense is None:
        return {}
    utility = _measured(defense.utility)
    return {
        "claim": guarantee(defense.claim) if isinstance(defense.claim, Claim) else defense.claim.reason,
        "verdict": str(defense.verdict.ruling),
        "accuracy": utility["value"],
        "accuracy_low": utility["low"],
        "accuracy_high": utility["high"],
        "train_seconds": defense.cost.seconds if defense.cost else None,
        "peak_bytes": defense.cost.peak_bytes if defense.cost else None,
    }


def _measured(value: Measured) -> dict[str, Any]:
    if isinstance(value, Estimate):
        return {"value": value.value, "low": value.low, "high": value.high, "n": value.n, "models": value.models}
    return {"value": math.nan, "low": math.nan, "high": math.nan, "undefined": value.reason}
