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
from dpeval.data.covariates import read_covariate, taken
from dpeval.data.errors import DataError, did_you_mean, listed
from dpeval.data.table import Table, note
from dpeval.types import Covariate, Note, Text

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
    covariates: tuple[Covariate, ...] = ()

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
            covariates=tuple(taken(one, at) for one in self.covariates),
        )

    def noting(self, what: str, ids: Sequence[str], count: int | None = None) -> Rows:
        """The same rows with one more note; ``count`` is by default the number of ids. No note about nothing."""
        return replace(self, notes=self.notes + note(what, ids, count))


def clean(table: Table, config: DataConfig, prefix: str = "") -> Rows:
    """Apply ``where``, drop rows without text or label, name the classes. ``prefix`` is put before every id.

    Raises:
        DataError: a column is absent or holds the wrong kind of value, ids repeat, or no row is left.
    """
    read = note(f"rows read from {table.name}", (), len(table))
    table, left_out = _filtered(table, config, prefix)
    ids = _ids(table, config, prefix)
    texts, mended = _texts(table, config, ids)
    labels = categories(_cells(table, config.label), "label", table.place)
    attributes = _attributes(table, config)
    covariates = tuple(read_covariate(name, _cells(table, name), table.place) for name in config.covariates)
    blank = {i for i, text in enumerate(texts) if is_blank(text)}
    unlabelled = {i for i, label in enumerate(labels) if label is None} - blank
    dropped = (
        *note("dropped: the text is blank or missing", [ids[i] for i in sorted(blank)]),
        *note("dropped: the label is missing", [ids[i] for i in sorted(unlabelled)]),
    )
    kept = [i for i in range(len(ids)) if i not in blank | unlabelled]
    if not kept:
        raise DataError(
            f"{table.name}: no row is left with both a text and a label; rows read: {read[0].count if read else 0}"
        )
    named = tuple(str(label) for label in labels)
    notes = (*read, *table.notes, *left_out, *mended, *dropped)
    return Rows(table.name, ids, texts, named, attributes, notes, covariates).take(kept)


def is_blank(text: Text) -> bool:
    """Whether a text (or one of a pair) has nothing in it but white space, control and zero-width characters."""
    if isinstance(text, tuple):
        return any(is_blank(part) for part in text)
    return all(c in _INVISIBLE or unicodedata.category(c) in ("Zs", "Zl", "Zp", "Cc", "Cf") for c in text)


def _cells(table: Table, column: str) -> Sequence[object]:
    """The cells of a column, without halves of surrogate pairs: they cannot be written to any file."""
    return [_mended(cell) if isinstance(cell, str) else cell for cell in table.column(column)]


def _mended(text: str) -> str:
    return _UNUSABLE.sub("\ufffd", text)


def _filtered(table: Table, config: DataConfig, prefix: str) -> tuple[Table, tuple[Note, ...]]:
    """The rows that ``where`` lets through, and a note on the others for each column."""
    notes: tuple[Note, ...] = ()
    for column, allowed in config.filters:
        values = [text_of(cell).strip() for cell in _cells(table, column)]
        for value in allowed:
            if value not in values:
                known = did_you_mean(value, sorted(set(values)))
                raise DataError(f"[data] where: no row of {table.name} has {column} = {value!r}; {known}")
        out = [f"{prefix}{table.rows[i]}" for i, value in enumerate(values) if value not in allowed]
        notes += note(f"left out by where: {column} is not {listed(allowed)} (by row number)", out)
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


def _texts(table: Table, config: DataConfig, ids: Sequence[str]) -> tuple[tuple[Text, ...], tuple[Note, ...]]:
    """The texts, with what cannot be written or is an artefact of the file replaced, and notes on which had any."""
    raw = list(zip(*(_text_column(table, column) for column in config.texts), strict=True))
    mended = [key for key, parts in zip(ids, raw, strict=True) if any(_UNUSABLE.search(part) for part in parts)]
    unix = [key for key, parts in zip(ids, raw, strict=True) if any("\r" in part for part in parts)]
    notes = (
        *note("half surrogate pairs and NUL characters in the text replaced by U+FFFD", mended),
        *note("carriage returns in the text replaced by line feeds", unix),
    )
    parts = [tuple(_RETURN.sub("\n", _mended(part)) for part in row) for row in raw]
    return tuple(row[0] if len(row) == 1 else (row[0], row[1]) for row in parts), notes


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
