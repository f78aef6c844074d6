"""The one rule by which cells become class names, whatever file they come from.

1. None, NaN and the empty string are missing, and so is the text ``nan``.
2. Text is stripped. A column of text that holds nothing but numbers counts as numbers.
3. Whole numbers are written without a decimal point: ``1``, ``1.0`` and the text ``"1.0"`` give the class ``1``.
4. ``true`` and ``false`` are classes of their own, never 1 and 0.
5. Text, numbers and booleans do not mix in one column, and numbers with decimals are refused.
6. Classes are numbered in numeric order if all are whole numbers, otherwise in lexicographic order.

>>> categories([1, 1.0, None, 0], "label", str)
('1', '1', None, '0')
>>> in_order({"10", "9"}), in_order({"pos", "neg"})
(('9', '10'), ('neg', 'pos'))
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from dpeval.data.config import text_of
from dpeval.data.errors import DataError, listed

Place: TypeAlias = Callable[[int], str]
"""Says in words where the i-th cell stands."""

_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_MOST_PLACES = 5


def categories(cells: Sequence[object], key: str, place: Place) -> tuple[str | None, ...]:
    """A class name for each cell, None where it is missing. ``key`` is the setting that named the column.

    Raises:
        DataError: kinds are mixed (listed with places), a number has decimals, or a cell is no text, number or boolean.
    """
    kinds = [_kind(cell) for cell in cells]
    _check_kinds(kinds, cells, key, place)
    names = tuple(None if kind is None else text_of(cell).strip() for kind, cell in zip(kinds, cells, strict=True))
    present = {name for name in names if name is not None}
    if "number" in kinds or (present and all(_NUMBER.fullmatch(name) for name in present)):
        return _whole_numbers(names, key, place)
    return names


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Distinct class names, numeric if all are whole numbers, otherwise lexicographic."""
    distinct = sorted(set(names))
    return tuple(sorted(distinct, key=int)) if all(_WHOLE.fullmatch(name) for name in distinct) else tuple(distinct)


def are_numbers(names: Iterable[str]) -> bool:
    """Whether every name is a whole number."""
    return all(_WHOLE.fullmatch(name) for name in names)


def _kind(cell: object) -> str | None:
    """The kind of a cell, None for a missing one, the name of its type for what cannot be a class."""
    if isinstance(cell, bool):
        return "boolean"
    if isinstance(cell, int | float):
        return None if math.isnan(cell) else "number"
    if isinstance(cell, str):
        return None if cell.strip().lower() in ("", "nan") else "text"
    return None if cell is None else type(cell).__name__


def _check_kinds(kinds: Sequence[str | None], cells: Sequence[object], key: str, place: Place) -> None:
    where: dict[str, list[int]] = {}
    for i, kind in enumerate(kinds):
        if kind is not None:
            where.setdefault(kind, []).append(i)
    for kind in where.keys() - {"text", "number", "boolean"}:
        raise DataError(
            f"[data] {key}: expected text, whole numbers or booleans, got {kind} at {place(where[kind][0])}"
        )
    if len(where) > 1:
        found = "; ".join(f"{kind}: {_examples(at, cells, place)}" for kind, at in where.items())
        raise DataError(f"[data] {key}: the column mixes kinds of values ({found}); write all of them in one way")


def _examples(at: Sequence[int], cells: Sequence[object], place: Place) -> str:
    shown = ", ".join(f"{cells[i]!r} at {place(i)}" for i in at[:_MOST_PLACES])
    return shown if len(at) <= _MOST_PLACES else f"{shown} and {len(at) - _MOST_PLACES} more"


def _whole_numbers(names: Sequence[str | None], key: str, place: Place) -> tuple[str | None, ...]:
    """Numbers as whole numbers; refuses decimals, and one number spelt in two ways ('1' and '01')."""
    spelt: dict[int, str] = {}
    out: list[str | None] = []
    for i, name in enumerate(names):
        if name is None:
            out.append(None)
            continue
        value = float(name)
        if not value.is_integer():
            raise DataError(
                f"[data] {key}: {name} at {place(i)} has decimals, so it is a quantity and no class "
                "(regression is not supported); put the values into bins in a column of their own"
            )
        whole = name if _WHOLE.fullmatch(name) else str(int(value))
        if spelt.setdefault(int(whole), whole) != whole:
            raise DataError(
                f"[data] {key}: {listed([spelt[int(whole)], whole])} are one number spelt in two ways ({place(i)}); "
                "write it in one way"
            )
        out.append(whole)
    return tuple(out)
