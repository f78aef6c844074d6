"""Cells of a text-free column as quantities or as names, by one rule whatever file they come from.

1. None, NaN, infinite numbers, blank text and the text ``nan`` are missing.
2. A column whose other cells are all numbers, as such or as text, holds quantities; so does one of dates, counted in
   days since 1970-01-01.
3. Any other text, number, date or boolean is a name, as :func:`~dpeval.data.config.text_of` writes it.

>>> read_covariate("age", ["31", 40, None, " 7.5"], str)
Covariate(name='age', values=(31.0, 40.0, None, 7.5))
>>> read_covariate("city", ["Oslo", "", True], str).values
('Oslo', None, 'true')
>>> read_covariate("when", ["1970-01-03", "1970-01-01T12:00"], str).values
(2.0, 0.5)
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from decimal import Decimal

from dpeval.data.categories import Place
from dpeval.data.config import text_of
from dpeval.data.errors import DataError
from dpeval.types import Covariate

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY = datetime.timedelta(days=1)


def read_covariate(name: str, cells: Sequence[object], place: Place) -> Covariate:
    """The column ``name``; DataError where a cell is no text, number, date or boolean."""
    for i, cell in enumerate(cells):
        if cell is not None and not isinstance(cell, str | bool | int | float | Decimal | datetime.date):
            raise DataError(
                f"[data] covariates: {name!r} holds {type(cell).__name__} at {place(i)}; expected text, numbers, dates "
                "or booleans"
            )
    present = [None if _missing(cell) else cell for cell in cells]
    numbers = [_number(cell) for cell in present]
    if all(number is not None or cell is None for number, cell in zip(numbers, present, strict=True)):
        return Covariate(name, tuple(numbers))
    return Covariate(name, tuple(None if cell is None else text_of(cell).strip() for cell in present))


def taken(one: Covariate, at: Sequence[int]) -> Covariate:
    """The same column at the rows ``at``, in that order."""
    return Covariate(one.name, tuple(one.values[i] for i in at))  # type: ignore[arg-type]  # kinds stay as they are


def _missing(cell: object) -> bool:
    if isinstance(cell, str):
        return cell.strip().lower() in ("", "nan")
    return cell is None or (isinstance(cell, float | Decimal) and not math.isfinite(cell))


def _number(cell: object) -> float | None:
    """The quantity that a cell holds; None for a name, for a missing cell, and for a number too large for a float."""
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, int | float | Decimal):
        return _finite(str(cell))
    if isinstance(cell, datetime.date):
        return _days(cell.isoformat())
    text = str(cell).strip()
    return _finite(text) if _NUMBER.fullmatch(text) else _days(text) if _DATE.fullmatch(text) else None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _days(text: str) -> float | None:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment.replace(tzinfo=moment.tzinfo or datetime.UTC) - _EPOCH) / _DAY
