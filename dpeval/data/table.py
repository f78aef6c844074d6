"""A table as read from a source: columns by name, and where each row stood, so that messages can point at it.

>>> table = Table("a.csv", ("text", "label"), {"text": ["fine", "poor"]}, rows=(1, 2), lines=(2, 3))
>>> table.column("text")[1], table.place(1)
('poor', 'a.csv, line 3')
>>> table.column("txt")
Traceback (most recent call last):
...
dpeval.errors.DataError: a.csv has no column 'txt'; did you mean 'text'? there are: 'text', 'label'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dpeval.data.errors import DataError, did_you_mean
from dpeval.types import Note

MOST_IDS = 20
"""How many ids a note holds at most."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a source. Only the columns that were asked for hold cells; ``columns`` names all there are."""

    name: str
    columns: tuple[str, ...]
    cells: Mapping[str, Sequence[object]]
    rows: tuple[int, ...]
    """The number of each data row, from 1 (for JSON lines: of the line); it is the default record id."""
    lines: tuple[int, ...] | None = None
    """The line of the file on which each row starts, where the source has lines."""
    notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Sequence[object]:
        """The cells of a column; DataError with near misses where there is no such column."""
        if name not in self.columns:
            hint = " (is the file separated by something else? then set delimiter)" if len(self.columns) == 1 else ""
            raise DataError(f"{self.name} has no column {name!r}; {did_you_mean(name, self.columns)}{hint}")
        return self.cells[name]

    def spot(self, i: int) -> str:
        """Where the i-th row stood, in words."""
        return f"row {self.rows[i]}" if self.lines is None else f"line {self.lines[i]}"

    def place(self, i: int) -> str:
        """The source and where in it the i-th row stood, in words."""
        return f"{self.name}, {self.spot(i)}"

    def take(self, positions: Iterable[int]) -> Table:
        """The rows at ``positions``, in that order."""
        at = list(positions)
        return replace(
            self,
            cells={name: [cells[i] for i in at] for name, cells in self.cells.items()},
            rows=tuple(self.rows[i] for i in at),
            lines=None if self.lines is None else tuple(self.lines[i] for i in at),
        )


def note(what: str, ids: Sequence[str], count: int | None = None) -> tuple[Note, ...]:
    """A note with the first ids and, by default, their number as its count; none where there is nothing to count."""
    number = len(ids) if count is None else count
    return (Note(what, number, tuple(ids[:MOST_IDS])),) if number else ()
