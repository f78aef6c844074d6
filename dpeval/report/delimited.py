"""A run as comma-separated values: every measure of every cell, or the points of the ROC curves for a figure.

>>> from dpeval.report.example import tiny_run
>>> render_csv(tiny_run()).splitlines()[0][:40]
'data,model,defense,attack,goal,tap,statu'
>>> render_roc(tiny_run())
'data,model,defense,attack,fpr,tpr\\n'
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pandas as pd

from dpeval.report.frame import table
from dpeval.results import RunResult, Status

ROC = ("data", "model", "defense", "attack", "fpr", "tpr")


def render_csv(result: RunResult) -> str:
    """:func:`~dpeval.report.frame.table`, with a column ``run_status`` in front where the run is not complete."""
    frame = table(result)
    if result.status != "complete":
        frame.insert(0, "run_status", result.status)
    return frame.to_csv(index=False, lineterminator="\n")


def compare_csv(results: Sequence[RunResult]) -> str:
    """The rows of several runs, one after the other, with the number (from 1), name and status of their run."""
    frames = []
    for i, result in enumerate(results, 1):
        frame = table(result)
        for name, value in (("run_status", result.status), ("run_name", result.name), ("run", i)):
            frame.insert(0, name, value)
        frames.append(frame.astype(object))
    return pd.concat(frames, ignore_index=True).to_csv(index=False, lineterminator="\n")


def render_roc(result: RunResult) -> str:
    """A row for each point of each ROC curve: FPR evenly spaced in its logarithm, TPR the mean over the seeds.

    Curves of cells that mean nothing (invalid, not validated) are left out.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(ROC)
    for cell in result.cells:
        if cell.status is Status.OK:
            writer.writerows((cell.data, cell.model, cell.defense, cell.attack, fpr, tpr) for fpr, tpr in cell.roc)
    return out.getvalue()
