"""Which results stand together: one block per data set and model, one column per attack and tap.

>>> Column("invert-nearest", "inversion", "output").label
'invert-nearest @ output'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpeval.results import CellResult, DefenseResult, RunResult, Status
from dpeval.types import Estimate, Measured, Undefined


@dataclass(frozen=True)
class Column:
    """One attack at one tap."""

    attack: str
    goal: str
    tap: str | None

    @property
    def label(self) -> str:
        """``attack @ tap``, or the attack alone where no tap is involved."""
        return self.attack if self.tap is None else f"{self.attack} @ {self.tap}"


@dataclass(frozen=True)
class Block:
    """The results of one data set and one model: only these stand in one table."""

    data: str
    model: str
    defenses: tuple[DefenseResult, ...]
    cells: tuple[CellResult, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Attacks and taps in the order of the matrix."""
        return tuple(dict.fromkeys(Column(c.attack, c.goal, c.tap) for c in self.cells))

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the defenses, with those that only the cells name at the end."""
        return tuple(dict.fromkeys([*(d.label for d in self.defenses), *(c.defense for c in self.cells)]))

    def column(self, column: Column) -> tuple[CellResult, ...]:
        """The cells of one column."""
        return tuple(c for c in self.cells if Column(c.attack, c.goal, c.tap) == column)

    def cell(self, defense: str, column: Column) -> CellResult | None:
        """The cell of one defense in one column, if the matrix has it."""
        return next((c for c in self.column(column) if c.defense == defense), None)

    def defense(self, label: str) -> DefenseResult | None:
        """The defense of that label."""
        return next((d for d in self.defenses if d.label == label), None)

    @property
    def undefended(self) -> DefenseResult | None:
        """The defense that the others are measured against."""
        return next((d for d in self.defenses if d.use == "none" and isinstance(d.utility, Estimate)), None)


def blocks(result: RunResult) -> tuple[Block, ...]:
    """The blocks of a run, in the order of the matrix."""
    keys = dict.fromkeys([(d.data, d.model) for d in result.defenses] + [(c.data, c.model) for c in result.cells])
    return tuple(
        Block(
            data,
            model,
            tuple(d for d in result.defenses if (d.data, d.model) == (data, model)),
            tuple(c for c in result.cells if (c.data, c.model) == (data, model)),
        )
        for data, model in keys
    )


def block_name(result: RunResult, block: Block) -> str:
    """``data, model``, as far as the run has several; empty when there is one block.

    The name goes into headings and captions as raw text.
    """
    several = blocks(result)
    parts = [block.data] if len({b.data for b in several}) > 1 else []
    parts += [block.model] if len({b.model for b in several}) > 1 else []
    return ", ".join(parts)


def headline(cell: CellResult) -> Measured:
    """The measure that the matrix shows of a cell."""
    return cell.measures.get(cell.headline, Undefined("not measured"))


def solid(cell: CellResult) -> Estimate | None:
    """The headline where it means something: the cell is in order and the measure defined."""
    value = headline(cell)
    return value if cell.status is Status.OK and isinstance(value, Estimate) else None


def ok(cells: Iterable[CellResult]) -> tuple[CellResult, ...]:
    """The cells whose numbers mean something."""
    return tuple(c for c in cells if c.status is Status.OK)


def cell_name(result: RunResult, cell: CellResult) -> str:
    """A cell in words, for sentences: attack, tap, defense and, where there are several, data and model."""
    place = block_name(result, Block(cell.data, cell.model, (), ()))
    column = Column(cell.attack, cell.goal, cell.tap).label
    return f"{column} on {cell.defense}" + (f" ({place})" if place else "")


def overlap(one: Estimate, other: Estimate) -> bool:
    """Whether two intervals share a value: then the two are shown as a tie."""
    return one.low <= other.high and other.low <= one.high
