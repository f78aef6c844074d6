"""Reads .csv and .tsv text into a :class:`Table`, strictly: what does not fit is an error that names its line.

All values stay text. Comma-separated files follow RFC 4180. Tab-separated files come in two habits, and the file
itself tells which: where every field that holds a quote is a properly quoted field, quotes are taken off
(spreadsheets); otherwise they are part of the text (GLUE).

>>> table = read_delimited('text,label\\n"never again, thanks",neg\\n', "a.csv", wanted=("text", "label"))
>>> table.cells["text"]
['never again, thanks']
>>> read_delimited('text\\tlabel\\n" good " is not it\\t0\\n', "a.tsv", delimiter="\\t", wanted=("text",)).cells["text"]
['" good " is not it']
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from dpeval.data.errors import DataError, listed
from dpeval.data.table import Table, note
from dpeval.types import Note

_QUOTED_FIELD = re.compile(r'"(?:[^"]|"")*"')
_LONGEST_FIELD = 2**31 - 1


class _Line(NamedTuple):
    number: int
    fields: list[str]


def read_delimited(text: str, name: str, *, delimiter: str = ",", wanted: Sequence[str]) -> Table:
    """The rows of ``text``, whose first line names the columns; cells are ``str``.

    Raises:
        DataError: no header, a column named twice, malformed quotes, or a row of another width than the header.
    """
    notes: tuple[Note, ...] = ()
    if delimiter == "\t" and '"' in text:
        lines, habit = _tab_separated(text, name)
        notes = (habit,)
    else:
        lines = _parse(text, name, delimiter, quoted=True)
    if not lines:
        raise DataError(f"{name} is empty; the first line has to name the columns")
    header = tuple(field.strip() for field in lines[0].fields)
    _check_header(header, name)
    rows = [line for line in lines[1:] if not _is_blank(line, header)]
    _check_widths(rows, header, name)
    at = {column: i for i, column in enumerate(header) if column in wanted}
    notes = (*notes, *_on_line_breaks(rows))
    return Table(
        name=name,
        columns=header,
        cells={column: [row.fields[i] for row in rows] for column, i in at.items()},
        rows=tuple(range(1, len(rows) + 1)),
        lines=tuple(row.number for row in rows),
        notes=notes,
    )


def _parse(text: str, name: str, delimiter: str, *, quoted: bool) -> list[_Line]:
    source = io.StringIO(text, newline="")
    if quoted:
        reader = csv.reader(source, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(source, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    lines: list[_Line] = []
    start = 1
    with _fields_of_any_length():
        try:
            for fields in reader:
                if fields:
                    lines.append(_Line(start, fields))
                start = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{name}, line {start}: malformed quotes ({error}); a field that begins with a double quote "
                "ends with one, and a quote inside it is doubled"
            ) from error
    return lines


def _tab_separated(text: str, name: str) -> tuple[list[_Line], Note]:
    """Lines of a tab-separated text with quotes in it, and which of the two habits it was read by."""
    plain = _parse(text, name, "\t", quoted=False)
    as_text = Note("double quotes in a tab-separated file are read as part of the text", text.count('"'))
    unquoted = Note("fields of a tab-separated file are quoted; the quotes are taken off", text.count('"'))
    if len({len(line.fields) for line in plain}) == 1:
        with_quotes = (field for line in plain for field in line.fields if '"' in field)
        if all(_QUOTED_FIELD.fullmatch(field) for field in with_quotes):
            return _parse(text, name, "\t", quoted=True), unquoted
        return plain, as_text
    try:
        quoted = _parse(text, name, "\t", quoted=True)
    except DataError:
        return plain, as_text
    return (quoted, unquoted) if len({len(line.fields) for line in quoted}) == 1 else (plain, as_text)


def _on_line_breaks(rows: Sequence[_Line]) -> tuple[Note, ...]:
    """A note on rows that go over several lines: where that is not meant, a lone quote has swallowed rows."""
    long = [str(i) for i, row in enumerate(rows, start=1) if any("\n" in f or "\r" in f for f in row.fields)]
    return note("rows with line breaks inside quotes (by row number); if none are meant, a quote is unbalanced", long)


@contextmanager
def _fields_of_any_length() -> Iterator[None]:
    """Lift the csv module's limit of 131,072 characters a field, which is global to the process, and put it back."""
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _is_blank(line: _Line, header: Sequence[str]) -> bool:
    return len(header) > 1 and len(line.fields) == 1 and not line.fields[0].strip()


def _check_header(header: Sequence[str], name: str) -> None:
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:
        raise DataError(f"{name}, line 1: column {listed(twice)} is named more than once; rename one of them")


def _check_widths(rows: Sequence[_Line], header: Sequence[str], name: str) -> None:
    for row in rows:
        if len(row.fields) != len(header):
            raise DataError(
                f"{name}, line {row.number}: expected {len(header)} fields ({listed(header)}), got {len(row.fields)}; "
                "a field that holds the separator or a line break has to be quoted"
            )
