"""Reads JSON lines, or a JSON array of objects, into a :class:`Table`; values keep their JSON types.

>>> table = read_json('{"text": "fine", "label": 1}\\n\\n{"text": "poor"}\\n', "a.jsonl", wanted=("text", "label"))
>>> table.cells["label"], table.rows
([1, None], (1, 3))
>>> read_json('{"text": "fine"\\n', "a.jsonl", wanted=("text",))
Traceback (most recent call last):
...
dpeval.errors.DataError: a.jsonl, line 1, column 16: not JSON (Expecting ',' delimiter)
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from dpeval.data.errors import DataError
from dpeval.data.table import Table


def read_json(text: str, name: str, *, wanted: Sequence[str]) -> Table:
    """The objects in ``text``, one a line or in one array; a key that an object lacks is a missing value (None).

    Raises:
        DataError: a line is not JSON or not an object; the message names the line.
    """
    return _array(text, name, wanted) if text.lstrip().startswith("[") else _lines(text, name, wanted)


def _lines(text: str, name: str, wanted: Sequence[str]) -> Table:
    # Only a line feed ends a line: str.splitlines would also break at U+2028, which JSON allows inside a string.
    numbered = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    objects = [_object(_loads(line, name, n), f"{name}, line {n}") for n, line in numbered]
    numbers = tuple(n for n, _ in numbered)
    return _table(objects, name, wanted, numbers, numbers)


def _array(text: str, name: str, wanted: Sequence[str]) -> Table:
    items = _loads(text, name, 1)
    if not isinstance(items, list):
        raise DataError(f"{name}: expected an array of objects")
    objects = [_object(item, f"{name}, item {n}") for n, item in enumerate(items, start=1)]
    return _table(objects, name, wanted, tuple(range(1, len(objects) + 1)), None)


def _loads(text: str, name: str, first_line: int) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{name}, line {first_line + error.lineno - 1}, column {error.colno}"
        raise DataError(f"{where}: not JSON ({error.msg})") from error


def _object(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise DataError(f'{where}: expected an object such as {{"text": …, "label": …}}, got {type(value).__name__}')
    return value


def _table(
    objects: Sequence[dict[str, object]],
    name: str,
    wanted: Sequence[str],
    rows: tuple[int, ...],
    lines: tuple[int, ...] | None,
) -> Table:
    columns = tuple(dict.fromkeys(key for item in objects for key in item))
    cells = {column: [item.get(column) for item in objects] for column in wanted if column in columns}
    return Table(name=name, columns=columns, cells=cells, rows=rows, lines=lines)
