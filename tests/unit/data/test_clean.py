"""Cleaning: what is dropped or changed, and that each such row is counted with its id."""

from __future__ import annotations

import pytest

from dpeval.data.clean import Rows, clean, is_blank
from dpeval.data.config import DataConfig
from dpeval.data.errors import DataError
from dpeval.data.table import Table


def cleaned(cells: dict[str, list[object]], **changes: object) -> Rows:
    n = len(next(iter(cells.values())))
    table = Table("a.csv", tuple(cells), cells, rows=tuple(range(1, n + 1)))
    return clean(table, DataConfig(**{"source": "a.csv", "text": "text", "label": "label", **changes}))  # type: ignore[arg-type]


def notes(rows: Rows) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {note.what: (note.count, note.ids) for note in rows.notes}


@pytest.mark.parametrize(
    "text", ["", " \t\n", "\u200b\ufeff", "\u00a0\u3000", "\x00\x1b", "\u2800\u3164", ("word", " ")]
)
def test_blank_texts(text: str | tuple[str, str]) -> None:
    """White space, control, zero-width and invisible letters are nothing; nor is a pair with an empty part a pair."""
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", ".", "😀", "\ufffd", " é ", ("a", "b")])
def test_texts_that_are_not_blank(text: str | tuple[str, str]) -> None:
    """A sign, an emoji or a replacement character is something."""
    assert not is_blank(text)


def test_every_row_is_accounted_for() -> None:
    """Rows read = rows kept + rows in the notes that start with 'left out' or 'dropped'."""
    rows = cleaned(
        {
            "text": ["a", " ", None, "d", "e", float("nan"), "g", "h"],
            "label": ["x", "y", "x", None, "", "", "y", "x"],
            "lang": ["en", "en", "en", "en", "en", "en", "fr", None],
        },
        where={"lang": "en"},
    )
    assert rows.ids == ("1",)
    told = notes(rows)
    assert told["rows read from a.csv"][0] == 8
    gone = {what: value for what, value in told.items() if what.startswith(("left out", "dropped"))}
    assert list(gone.values()) == [(2, ("7", "8")), (3, ("2", "3", "6")), (2, ("4", "5"))]


def test_a_note_holds_twenty_ids_and_the_full_count() -> None:
    """Long lists are cut, counts are not."""
    rows = cleaned({"text": [*[""] * 25, "a"], "label": ["x"] * 26})
    assert notes(rows)["dropped: the text is blank or missing"] == (25, tuple(str(i) for i in range(1, 21)))


def test_halves_of_surrogate_pairs_and_carriage_returns() -> None:
    """Both are replaced and counted, in texts; in labels, attributes and ids halves are replaced as well."""
    rows = cleaned(
        {
            "text": ["a\ud83d", "b\r\nc\rd", "e"],
            "label": ["x\udc00", "y", "y"],
            "key": ["\ud800", "2", "3"],
            "g": ["\udfff"] * 3,
        },
        id="key",
        attribute="g",
    )
    assert rows.texts == ("a\ufffd", "b\nc\nd", "e")
    assert (rows.labels[0], rows.ids[0], rows.attributes[0]) == ("x\ufffd", "\ufffd", "\ufffd")
    assert [value for what, value in notes(rows).items() if "replaced" in what] == [(1, ("\ufffd",)), (1, ("2",))]


def test_ids_are_text_unique_and_present() -> None:
    """Numbers become text; a missing id and a repeated one are errors that say where."""
    cells: dict[str, list[object]] = {"text": ["a", "b"], "label": ["x", "y"]}
    assert cleaned({**cells, "key": [7, 8.0]}, id="key").ids == ("7", "8")
    with pytest.raises(DataError, match=r"'7' stands at a.csv, row 1 and at a.csv, row 2"):
        cleaned({**cells, "key": [7, "7"]}, id="key")
    with pytest.raises(DataError, match=r"a.csv, row 2 has no 'key'"):
        cleaned({**cells, "key": [7, None]}, id="key")


def test_where_compares_as_text() -> None:
    """Numbers and booleans match what a user writes; a value that no row has is an error with near misses."""
    cells: dict[str, list[object]] = {
        "text": ["a", "b", "c"],
        "label": ["x", "y", "y"],
        "n": [1, 2.0, 3],
        "k": [True, True, False],
    }
    assert cleaned(cells, where={"n": [1, 2], "k": True}).ids == ("1", "2")
    with pytest.raises(DataError, match=r"no row of a.csv has label = 'z'; there are: 'x', 'y'"):
        cleaned(cells, where={"label": ["x", "z"]})


def test_columns_that_are_absent_or_hold_no_text() -> None:
    """A missing column is named with near misses; numbers in the text column are refused."""
    with pytest.raises(DataError, match=r"a.csv has no column 'text'; did you mean 'texts'"):
        cleaned({"texts": ["a"], "label": ["x"]})
    with pytest.raises(DataError, match=r"'text' holds int 5 at a.csv, row 1, expected text"):
        cleaned({"text": [5], "label": ["x"]})


def test_nothing_left_is_an_error() -> None:
    """A table whose rows all lack something is refused with the number of rows read."""
    with pytest.raises(DataError, match=r"no row is left with both a text and a label; rows read: 2"):
        cleaned({"text": ["", "b"], "label": ["x", None]})


def test_pairs_of_texts() -> None:
    """Two columns give pairs; a pair lacking one part is dropped."""
    rows = cleaned({"a": ["q", "", "r"], "b": ["s", "t", "u"], "label": ["x", "y", "y"]}, text=("a", "b"))
    assert rows.texts == (("q", "s"), ("r", "u"))
