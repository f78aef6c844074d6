"""Runs methods in processes of their own, step by step in turn, and boils down what they cost.

Three warm-ups, then ratios to the plain step of the same turn, so that a slow moment of the machine falls on all.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .shapes import SHAPES

WARM_UPS, FEWEST = 3, 3
"""Steps that are not counted, and steps that are counted even when the time is up."""
Row = dict[str, Any]


class RefusedError(Exception):
    """A method does not take a model; the message is its own."""


@dataclass(frozen=True)
class Turns:
    """How often all methods have their turn: at most so many times, fewer when the time is up."""

    most: int
    deadline: float


@dataclass
class Worker:
    """A process with one method and one model."""

    process: subprocess.Popen[str]

    def answer(self) -> Row:
        """The next line of the process."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RefusedError(f"the process ended with status {self.process.wait()}")
        row: Row = json.loads(line)
        if "error" in row:
            raise RefusedError(row["error"])
        return row

    def step(self, rows: int, at_once: int) -> Row:
        """One step: its wall and processor seconds and its peak of memory."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"rows": rows, "at_once": at_once}) + "\n")
        self.process.stdin.flush()
        return self.answer()


@contextlib.contextmanager
def worker(shape: str, method: str, steps: int, threads: int) -> Iterator[Worker]:
    """A worker whose first answer is still to be read: it builds its model meanwhile."""
    command = [sys.executable, "-m", "benchmarks.clipping.worker", shape, method, str(steps), str(threads)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore",
                   "MKL_NUM_THREADS": str(threads)}  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, env=environment, cwd=Path(__file__).parents[2])  # fmt: skip
    try:
        yield Worker(process)
    finally:
        process.terminate()
        process.wait()


def compare(shape: str, methods: list[str], turns: Turns, threads: int) -> dict[str, Row]:
    """The first protocol: every method on the shape's own batch, one step each in turn."""
    size = SHAPES[shape]
    return in_turn(shape, size.steps, dict.fromkeys(methods, (size.rows, size.rows)), turns, threads)


def in_turn(shape: str, steps: int, orders: dict[str, tuple[int, int]], turns: Turns, threads: int) -> dict[str, Row]:
    """One row for each method: medians and ratios over ``turns``, or the reason why it was refused."""
    found: dict[str, Row] = {}
    measured: dict[str, list[Row]] = {}
    with contextlib.ExitStack() as stack:
        workers = {method: stack.enter_context(worker(shape, method, steps, threads)) for method in orders}
        for method in orders:
            try:
                found[method], measured[method] = {"floor": workers[method].answer()["floor"]}, []
            except RefusedError as refusal:
                found[method] = {"refused": str(refusal)}
                del workers[method]
        for turn in range(WARM_UPS + turns.most):
            if turn >= WARM_UPS + FEWEST and time.monotonic() > turns.deadline:
                break
            for method in _rotated(list(workers), turn):
                try:
                    row = workers[method].step(*orders[method])
                except RefusedError as refusal:
                    found[method] = {"refused": str(refusal)}
                    del workers[method], measured[method]
                    continue
                if turn >= WARM_UPS:
                    measured[method].append(row)
    base = measured["non-private"]
    for method, rows in measured.items():
        found[method].update(_boiled_down(rows, base))
    return found


def _rotated(methods: list[str], by: int) -> list[str]:
    k = by % len(methods)
    return methods[k:] + methods[:k]


def _boiled_down(rows: list[Row], base: list[Row]) -> Row:
    """Medians of seconds and of paired ratios with their quartiles, and the peaks of memory."""
    out: Row = {"steps": len(rows), "peak": max(r["peak"] for r in rows)}
    for key in ("wall", "cpu"):
        ratios = sorted(a[key] / b[key] for a, b in zip(rows, base, strict=True))
        out[key] = statistics.median(r[key] for r in rows)
        out[key + "_ratio"] = statistics.median(ratios)
        out[key + "_quartiles"] = [ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]]
    out["memory_ratio"] = out["peak"] / max(r["peak"] for r in base)
    return out
