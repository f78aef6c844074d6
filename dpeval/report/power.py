"""What a null result is worth: the smallest effect that would have been seen, never the word "private".

A measure whose name holds the word "detectable" is taken as the smallest detectable value of the headline.

>>> from dpeval.results import CellResult, Status
>>> from dpeval.types import Estimate
>>> cell = CellResult(defense="d", attack="a", goal="membership", tap=None, data="x", model="m", status=Status.OK,
...     measures={"auc": Estimate(0.51, 0.47, 0.55, n=400)}, headline="auc", null=0.5, distinguishable="no")
>>> would_have_detected(cell)
'no detection limit was computed; auc up to 0.55 remains possible'
"""

from __future__ import annotations

import math

from dpeval.report.layout import headline
from dpeval.report.numbers import measured, number
from dpeval.results import CellResult
from dpeval.types import Estimate

WORD = "detectable"


def is_limit(measure: str) -> bool:
    """Whether a measure is a detection limit and not a leak."""
    return WORD in measure.lower()


def detectable(cell: CellResult) -> float | None:
    """The smallest value of the headline that this cell would have told from random guess, where it was computed."""
    limits = [m for name, m in cell.measures.items() if is_limit(name)]
    return limits[0].value if limits and isinstance(limits[0], Estimate) else None


def would_have_detected(cell: CellResult) -> str:
    """The sentence behind every "no difference": the detection limit, or else what the interval leaves open."""
    limit, value = detectable(cell), headline(cell)
    if limit is not None and limit >= 1:
        return (
            f"this attack, at this power, would have detected {cell.headline} ≥ 1 at best: "
            "too few models or records for anything less"
        )
    if limit is not None:
        return f"this attack, at this power, would have detected {cell.headline} ≥ {number(limit, 3)}"
    if isinstance(value, Estimate) and not math.isinf(value.high):
        upper = measured(value, cell.null).rpartition(", ")[2].rstrip("]")
        return f"no detection limit was computed; {cell.headline} up to {upper} remains possible"
    return "no detection limit was computed"
