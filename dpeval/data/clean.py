"""From a table to rows that can be used; every row that is dropped or changed is counted in a note with its ids.

>>> config = DataConfig(source="a.csv", text="text", label="label")
>>> cells = {"text": ["fine", "  ", "poor", "so so"], "label": ["1", "0", "0", ""]}
>>> rows = clean(Table("a.csv", ("text", "label"), cells, rows=(1, 2, 3, 4)), config)
>>> rows.ids, rows.labels
(('1', '3'), ('1', '0'))
>>> [(note.what, note.count, note.ids) for note in rows.notes][1:]
[('dropped: the text is blank or missing', 1, ('2',)), ('dropped: the label is missing', 1, ('4',))]
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dpeval.data.categories import categories
from dpeval.data.config import DataConfig, text_of
from dpeval.data.errors import DataError, did_you_mean, listed
from dpeval.data.table import Table
from dpeval.types import Note, Text

_MOST_IDS = 20
_UNUSABLE = re.compile("[\ud800-\udfff\0]")
_RETURN = re.compile("\r\n?")
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe0e\ufe0f\uffa0")


@dataclass(frozen=True)
class Rows:
    """Usable rows with class names still in words; all tuples have the same length."""

    name: str
    ids: tuple[str, ...]
    texts: tuple[Text, ...]
    labels: tuple[str, ...]
    attributes: tuple[str | None, ...]
    notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, positions: Iterable[int]) -> Rows:
        """The rows at ``positions``, in that order."""
        at = list(positions)
        return replace(
            self,
            ids=tuple(self.ids[i] for i in at),
            texts=tuple(self.texts[i] for i in at),
            labels=tuple(self.labels[i] for i in at),
            attributes=tuple(self.attributes[i] for i in at),
        )

    def noting(self, what: str, ids: Sequence[str], count: int | None = None) -> Rows:
        """The same rows with one more note; ``count`` is by default the number of ids. No note about nothing."""
        number = len(ids) if count is None else count
        return replace(self, notes=(*self.notes, Note(what, number, tuple(ids[:_MOST_IDS])))) if number else self


def clean(table: Table, config: DataConfig, prefix: str = "") -> Rows:
    """Apply ``where``, drop rows without text or label, name the classes. ``prefix`` is put before every id.

    Raises:
        DataError: a column is absent or holds the wrong kind of value, ids repeat, or no row is left.
    """
    start = Rows(table.name, (), (), (), (), table.notes).noting(f"rows read from {table.name}", (), len(table))
    table, notes = _filtered(table, config, prefix, start.notes)
    ids = _ids(table, config, prefix)
    texts, changed, unix = _texts(table, config)
    labels = categories(_cells(table, config.label), "label", table.place)
    attributes = _attributes(table, config)
    start = replace(start, notes=notes)
    start = start.noting("half surrogate pairs and NUL characters in the text replaced by U+FFFD", _at(ids, changed))
    start = start.noting("carriage returns in the text replaced by line feeds", _at(ids, unix))
    blank = [i for i, text in enumerate(texts) if is_blank(text)]
    start = start.noting("dropped: the text is blank or missing", _at(ids, blank))
    unlabelled = sorted({i for i, label in enumerate(labels) if label is None} - set(blank))
    start = start.noting("dropped: the label is missing", _at(ids, unlabelled))
    dropped = {*blank, *unlabelled}
    kept = [i for i in range(len(ids)) if i not in dropped]
    if not kept:
        raise DataError(f"{table.name}: no row is left with both a text and a label; rows read: {len(table)}")
    named = tuple(str(label) for label in labels)
    return replace(start, ids=ids, texts=texts, labels=named, attributes=attributes).take(kept)


def is_blank(text: Text) -> bool:
    """Whether a text (or one of a pair) has nothing in it but white space, control and zero-width characters."""
    if isinstance(text, tuple):
        return any(is_blank(part) for part in text)
    return all(c in _INVISIBLE or unicodedata.category(c) in ("Zs", "Zl", "Zp", "Cc", "Cf") for c in text)


def _at(ids: Sequence[str], positions: Iterable[int]) -> tuple[str, ...]:
    return tuple(ids[i] for i in positions)


def _cells(table: Table, column: str) -> Sequence[object]:
    """The cells of a column, without halves of surrogate pairs: they cannot be written to any file."""
    return [_mended(cell) if isinstance(cell, str) else cell for cell in table.column(column)]


def _mended(text: str) -> str:
    return _UNUSABLE.sub("\ufffd", text)


def _filtered(table: Table, config: DataConfig, prefix: str, notes: tuple[Note, ...]) -> tuple[Table, tuple[Note, ...]]:
    """The rows that ``where`` lets through, and a note on the others for each column."""
    for column, allowed in config.filters:
        values = [text_of(cell).strip() for cell in _cells(table, column)]
        for value in allowed:
            if value not in values:
                known = did_you_mean(value, sorted(set(values)))
                raise DataError(f"[data] where: no row of {table.name} has {column} = {value!r}; {known}")
        out = [i for i, value in enumerate(values) if value not in allowed]
        ids = tuple(f"{prefix}{table.rows[i]}" for i in out[:_MOST_IDS])
        notes = (*notes, Note(f"left out by where: {column} is not {listed(allowed)} (by row number)", len(out), ids))
        table = table.take(i for i, value in enumerate(values) if value in allowed)
    return table, notes


def _ids(table: Table, config: DataConfig, prefix: str) -> tuple[str, ...]:
    if config.id is None:
        return tuple(f"{prefix}{row}" for row in table.rows)
    ids = tuple(text_of(cell).strip() for cell in _cells(table, config.id))
    first: dict[str, int] = {}
    for i, key in enumerate(ids):
        if not key:
            raise DataError(f"[data] id: {table.place(i)} has no {config.id!r}; every row needs an id of its own")
        if first.setdefault(key, i) != i:
            raise DataError(
                f"[data] id: {key!r} stands at {table.place(first[key])} and at {table.place(i)}; ids have to be unique"
            )
    return tuple(prefix + key for key in ids)


def _texts(table: Table, config: DataConfig) -> tuple[tuple[Text, ...], list[int], list[int]]:
    """The texts, and which of them had unusable characters or carriage returns."""
    columns = [_text_column(table, column) for column in config.texts]
    raw = list(zip(*columns, strict=True))
    changed = [i for i, parts in enumerate(raw) if any(_UNUSABLE.search(part) for part in parts)]
    unix = [i for i, parts in enumerate(raw) if any("\r" in part for part in parts)]
    columns = [[_RETURN.sub("\n", _mended(part)) for part in column] for column in columns]
    if len(columns) == 1:
        return tuple(columns[0]), changed, unix
    return tuple(zip(columns[0], columns[1], strict=True)), changed, unix


def _text_column(table: Table, column: str) -> list[str]:
    """The cells of a text column, '' where one is missing; DataError where one is anything but text."""
    out = []
    for i, cell in enumerate(table.column(column)):
        if isinstance(cell, str):
            out.append(cell)
        elif text_of(cell) == "":
            out.append("")
        else:
            raise DataError(
                f"[data] text: {column!r} holds {type(cell).__name__} {cell!r} at {table.place(i)}, expected text; "
                f"is it the right column? {did_you_mean(column, [c for c in table.columns if c != column])}"
            )
    return out


def _attributes(table: Table, config: DataConfig) -> tuple[str | None, ...]:
    if config.attribute is None:
        return (None,) * len(table)
    return categories(_cells(table, config.attribute), "attribute", table.place)
