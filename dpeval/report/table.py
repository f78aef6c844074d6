"""A table as data, drawn twice: as a pipe table for a code host and as plain text for a terminal.

>>> table = Table(("defense", "AUC"), (("none", "0.74"), ("a|b", "0.51")), numeric=(1,))
>>> print(table.markdown())
| defense   |   AUC |
|:----------|------:|
| none      |  0.74 |
| a&#124;b  |  0.51 |
>>> print(table.text())
defense      AUC
---------  -----
none        0.74
a|b         0.51
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from dpeval.report.cells import cell, one_line

NOTHING = "–"
"""Shown where a table has no value to show, as against a value that is undefined."""


HEADER = 19
"""Characters of a line of a header on a terminal."""


@dataclass(frozen=True)
class Table:
    """Raw texts in rows as wide as ``headers``; ``numeric`` names the columns that stand to the right."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headers):
                raise ValueError(f"Table: expected {len(self.headers)} cells in each row, got {len(row)}: {row}")

    def markdown(self) -> str:
        """A pipe table of GitHub-flavoured markdown; every cell reads back exactly (see :func:`cell`)."""
        # tabulate never sees a pipe, a line break or an edge blank: it only lays out what is already one line.
        rows = [[cell(text) for text in row] for row in self.rows]
        return self._drawn([cell(text) for text in self.headers], rows, "pipe")

    def text(self) -> str:
        """Columns of plain text."""
        rows = [[one_line(text) for text in row] for row in self.rows]
        return self._drawn([_folded(one_line(text)) for text in self.headers], rows, "simple")

    def without_empty_columns(self) -> Table:
        """The same table without the columns that hold nothing in any row."""
        kept = [i for i in range(len(self.headers)) if any(row[i] not in ("", NOTHING) for row in self.rows)]
        return Table(
            tuple(self.headers[i] for i in kept),
            tuple(tuple(row[i] for i in kept) for row in self.rows),
            tuple(new for new, old in enumerate(kept) if old in self.numeric),
        )

    def _drawn(self, headers: Sequence[str], rows: Sequence[Sequence[str]], style: str) -> str:
        sides = ["right" if i in self.numeric else "left" for i in range(len(headers))]
        # An empty table still needs its columns; tabulate aligns none without a row.
        return tabulate(
            rows, headers, tablefmt=style, colalign=sides if rows else None, disable_numparse=True, missingval=""
        )


def _folded(header: str) -> str:
    """A header over several lines, so that columns are about as wide as a number with its interval."""
    return "\n".join(textwrap.wrap(header, HEADER, break_long_words=False, break_on_hyphens=False))
