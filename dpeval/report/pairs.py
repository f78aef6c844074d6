"""Who was told from whom: the paired comparisons of a run, looked up by defense, and ranks that show ties as ties.

>>> from dpeval.results import PairedResult
>>> one = PairedResult(data="d", model="m", attack="mia", tap=None, measure="auc", first="a", second="b",
...                    difference=Estimate(0.2, 0.1, 0.3, n=90), p_holm=0.001, differs=True)
>>> pairs = Pairs((one,))
>>> pairs.told_apart("a", "b"), pairs.of("b", "a").value
(True, -0.2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpeval.measure.multiple import Rank, tied_ranks
from dpeval.report.layout import Block, Column
from dpeval.results import PairedResult, RunResult
from dpeval.types import Estimate, Measured, Undefined


@dataclass(frozen=True)
class Pairs:
    """The paired comparisons of one column: one attack at one tap, or accuracy."""

    found: tuple[PairedResult, ...]

    def __bool__(self) -> bool:
        return any(isinstance(p.difference, Estimate) for p in self.found)

    def result(self, one: str, other: str) -> PairedResult | None:
        """The comparison of two defenses, whichever was first."""
        return next((p for p in self.found if {p.first, p.second} == {one, other}), None)

    def told_apart(self, one: str, other: str) -> bool:
        """Whether the two were shown to differ, after adjustment for all comparisons of the run."""
        pair = self.result(one, other)
        return pair is not None and pair.differs

    def of(self, one: str, other: str) -> Measured:
        """``one - other``."""
        pair = self.result(one, other)
        if pair is None:
            return Undefined("the two were not compared")
        if pair.first == one or isinstance(pair.difference, Undefined):
            return pair.difference
        d = pair.difference
        return Estimate(-d.value, -d.high, -d.low, n=d.n, level=d.level, models=d.models)

    def ranks(self, entries: Sequence[tuple[str, float]]) -> list[Rank]:
        """Places from the largest value down; who was not told apart shares places."""
        return tied_ranks(entries, self.told_apart)


def pairs_of(result: RunResult, block: Block, column: Column | None) -> Pairs:
    """The comparisons of a column of a block; ``None`` for accuracy."""
    wanted = (None, None) if column is None else (column.attack, column.tap)
    return Pairs(
        tuple(
            p for p in result.paired if (p.data, p.model) == (block.data, block.model) and (p.attack, p.tap) == wanted
        )
    )


def place(rank: Rank) -> str:
    """``2``, or ``1-3 =`` where the place is shared.

    >>> place(Rank("a", 2, 2)), place(Rank("a", 1, 3))
    ('2', '1-3 =')
    """
    return str(rank.first) if rank.first == rank.last else f"{rank.first}-{rank.last} ="
