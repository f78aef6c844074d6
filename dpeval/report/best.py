"""The largest value of each measure, each picked on its own: the best AUC and the best advantage may be two attacks'.

>>> from dpeval.results import CellResult, Status
>>> from dpeval.types import Estimate
>>> def cell(name, auc, advantage):
...     return CellResult(defense="none", attack=name, goal="membership", tap=None, data="d", model="m",
...         status=Status.OK, headline="auc", measures={"auc": Estimate(auc, auc - .1, auc + .1, n=90),
...                                   "advantage": Estimate(advantage, 0, 1, n=90)})
>>> for row in largest_table([cell("loss", 0.61, 0.30), cell("entropy", 0.70, 0.22)]).rows:
...     print(row)
('auc', '0.70 [0.60, 0.80]', 'entropy', 'none', '1')
('advantage', '0.30 [0.00, 1.00]', 'loss', 'none', '1')
"""

from __future__ import annotations

from collections.abc import Sequence

from dpeval.report.glossary import define
from dpeval.report.layout import Column, ok, overlap
from dpeval.report.numbers import count, measured
from dpeval.report.table import Table
from dpeval.results import CellResult
from dpeval.types import Estimate

HEADERS = ("measure", "largest", "attack", "defense", "others with an overlapping interval")


def largest_table(cells: Sequence[CellResult]) -> Table:
    """A row for each measure of leakage that two or more cells share; void cells take no part."""
    good = ok(cells)
    names = dict.fromkeys(name for c in good for name in c.measures if define(name).leak)
    rows = (_row(name, _known(good, name)) for name in names)
    return Table(HEADERS, tuple(row for row in rows if row is not None), numeric=(1, 4))


def _known(cells: Sequence[CellResult], name: str) -> list[tuple[CellResult, Estimate]]:
    return [(c, value) for c in cells if isinstance(value := c.measures.get(name), Estimate)]


def _row(name: str, known: list[tuple[CellResult, Estimate]]) -> tuple[str, ...] | None:
    if len(known) < 2:
        return None
    cell, best = max(known, key=lambda pair: pair[1].value)
    ties = sum(overlap(best, value) for other, value in known if other is not cell)
    return (name, measured(best), Column(cell.attack, cell.goal, cell.tap).label, cell.defense, count(ties))
