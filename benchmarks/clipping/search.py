"""The paper's protocol: the largest batch that fits under a memory cap, and the throughput at a common logical batch.

Li et al. (2022, section 5 and appendix): mock sequences of length 100, binary search over the batch size.
"""

from __future__ import annotations

from .driver import RefusedError, Row, Turns, in_turn, worker
from .shapes import PAPER

LENGTH = 100


def largest_batch(shape: str, method: str, cap: float, highest: int, threads: int) -> int:
    """The largest number of rows whose step stays under ``cap`` bytes over the model's own; 0 where none does."""
    with worker(shape, method, LENGTH, threads) as process:
        process.answer()
        process.step(1, 1)
        fits, fails = 0, highest + 1
        trial = min(8, highest)
        while fails - fits > 1:
            if max(process.step(trial, trial)["peak"] for _ in range(2)) <= cap:
                fits = trial
            else:
                fails = trial
            trial = min(2 * fits, (fits + fails) // 2) if fits else (fits + fails) // 2
            trial = max(trial, fits + 1)
    return fits


def search(name: str, methods: list[str], cap: float, highest: int, threads: int) -> dict[str, Row]:
    """The largest batch of each method on the named model."""
    found: dict[str, Row] = {}
    for method in methods:
        try:
            found[method] = {"batch": largest_batch(PAPER[name], method, cap, highest, threads)}
        except RefusedError as refusal:
            found[method] = {"refused": str(refusal)}
    return found


def throughput(name: str, batches: dict[str, Row], logical: int, turns: Turns, threads: int) -> dict[str, Row]:
    """Examples a second at the common logical batch, each method with the largest micro-batch that fits."""
    orders = {m: (logical, min(row["batch"], logical)) for m, row in batches.items() if row.get("batch")}
    rows = in_turn(PAPER[name], LENGTH, orders, turns, threads)
    for row in rows.values():
        if "wall" in row:
            row["throughput"] = logical / row["wall"]
    return rows
