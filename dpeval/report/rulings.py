"""Claims of several runs side by side, one table for each kind of claim, with what became of each.

>>> from dpeval.report.example import tiny_run
>>> from dpeval.report.layout import blocks
>>> claim_tables(blocks(tiny_run()), [1])
[]
"""

from __future__ import annotations

from collections.abc import Sequence

from dpeval.report.cells import prose
from dpeval.report.layout import Block
from dpeval.report.marks import ruling_word
from dpeval.report.numbers import delta, epsilon, kind, lower_bound, percent
from dpeval.report.table import NOTHING, Table
from dpeval.results import DefenseResult
from dpeval.types import Claim


def claim_tables(runs: Sequence[Block], numbers: Sequence[int]) -> list[str]:
    """Headings and tables; ``runs`` holds the block of each run by its number, all of the same data and model."""
    claims = [d.claim for block in runs for d in block.defenses if isinstance(d.claim, Claim)]
    kinds = {claim.kind: claim for claim in claims}
    out: list[str] = []
    for claim in kinds.values():
        out += [f"### ε {prose(kind(claim))}", _table(runs, numbers, claim).markdown()]
    return out


def _table(runs: Sequence[Block], numbers: Sequence[int], like: Claim) -> Table:
    labels = dict.fromkeys(d.label for block in runs for d in block.defenses if _is_like(d, like))
    rows = [(label, *(_entry(block.defense(label), like) for block in runs)) for label in labels]
    return Table(("defense", *(f"run {i}" for i in numbers)), tuple(rows))


def _is_like(defense: DefenseResult | None, like: Claim) -> bool:
    return defense is not None and isinstance(defense.claim, Claim) and defense.claim.kind == like.kind


def _entry(defense: DefenseResult | None, like: Claim) -> str:
    if defense is None or not isinstance(defense.claim, Claim) or not _is_like(defense, like):
        return NOTHING
    claim, verdict = defense.claim, defense.verdict
    seen = "" if verdict.bound is None else f", measured ε ≥ {lower_bound(verdict.bound)} ({percent(verdict.level)})"
    return f"ε = {epsilon(claim.epsilon)}, δ = {delta(claim.delta)}{seen}: {ruling_word(verdict.ruling)}"
