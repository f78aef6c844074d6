"""Text files: encodings, delimited text and JSON."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator

import pytest

from dpeval.data.delimited import read_delimited
from dpeval.data.errors import DataError
from dpeval.data.files import decode
from dpeval.data.jsonfile import read_json


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_marked_encodings_are_recognised(codec: str) -> None:
    """A byte-order mark decides, and is not part of the text."""
    assert decode("text\nžluťoučký 😀\n".encode(codec), "a.csv", None) == "text\nžluťoučký 😀\n"
    assert decode("\ufefftext".encode("utf-16-le"), "a.csv", "utf-16-le") == "text"
    assert decode("\ufefftext".encode(), "a.csv", "utf-8") == "text"


def test_other_encodings_are_asked_for_by_byte_and_line() -> None:
    """The error says which byte on which line, and which key to set; with the key set the file is read."""
    raw = "text\nfine\ncafé\n".encode("latin-1")
    with pytest.raises(DataError, match=r"a.csv, line 3: byte 13 \(0xe9\) is not utf-8.*encoding = "):
        decode(raw, "a.csv", None)
    assert decode(raw, "a.csv", "latin-1") == "text\nfine\ncafé\n"
    with pytest.raises(DataError, match=r"no text encoding 'latin-99'"):
        decode(raw, "a.csv", "latin-99")


def test_utf16_without_a_mark_does_not_become_text_with_nuls() -> None:
    """Letters alternating with NUL characters are refused, with the encoding to set."""
    raw = "text\nfine\n".encode("utf-16-le")
    with pytest.raises(DataError, match=r"line 1: a NUL character.*utf-16-le"):
        decode(raw, "a.csv", None)
    assert decode(raw, "a.csv", "utf-16-le") == "text\nfine\n"


def test_binary_files_under_a_text_ending_are_named_for_what_they_are() -> None:
    """A spreadsheet saved as .csv is said to be one."""
    spreadsheet = io.BytesIO()
    with zipfile.ZipFile(spreadsheet, "w") as archive:
        archive.writestr("sheet.xml", b"x")
    with pytest.raises(DataError, match=r"a.csv is a zip archive or a spreadsheet"):
        decode(spreadsheet.getvalue(), "a.csv", None)


def test_quoted_fields_may_hold_anything() -> None:
    """Commas, doubled quotes and line breaks inside quotes belong to the field; lines are counted from the file."""
    table = read_delimited('text,label\r\n"a, ""b""\r\nc",1\r\n\r\nd,0\r\n', "a.csv", wanted=("text", "label"))
    assert table.cells["text"] == ['a, "b"\r\nc', "d"]
    assert (table.rows, table.lines) == ((1, 2), (2, 5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.csv is empty"),
        ("text,label\nfine,1\npoor\n", "line 3: expected 2 fields .'text', 'label'., got 1"),
        ("text,label\nfine,1,2\n", "line 2: expected 2 fields .'text', 'label'., got 3"),
        ('text,label\nfine,1\n"poor,0\nbad,1\n', "line 3: malformed quotes"),
        ('text,label\n"fine" and more,1\n', "line 2: malformed quotes"),
        ("text,label,text\nfine,1,2\n", "line 1: column 'text' is named more than once"),
    ],
)
def test_malformed_rows_are_errors_that_name_the_line(text: str, message: str) -> None:
    """Nothing is skipped, padded or merged."""
    with pytest.raises(DataError, match=message):
        read_delimited(text, "a.csv", wanted=("text", "label"))


@pytest.fixture
def small_field_limit() -> Iterator[int]:
    """The csv module's limit of this process set to a known value."""
    before = csv.field_size_limit(100_000)
    yield 100_000
    csv.field_size_limit(before)


def test_the_field_limit_of_the_process_is_left_alone(small_field_limit: int) -> None:
    """A longer field is read, also where it ends in an error, and csv's global limit is what it was."""
    table = read_delimited(f"text\n{'x' * 200_000}\n", "a.csv", wanted=("text",))
    assert len(str(table.cells["text"][0])) == 200_000
    with pytest.raises(DataError):
        read_delimited('text\n"x\n', "a.csv", wanted=("text",))
    assert csv.field_size_limit() == small_field_limit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('text\tlabel\n"never, again"\t0\n', ["never, again"]),
        ('text\tlabel\n"a ""b"" c"\t0\nplain\t1\n', ['a "b" c', "plain"]),
        ('text\tlabel\n"two\nlines"\t0\n', ["two\nlines"]),
        ('text\tlabel\nsay "no" twice\t0\n"all"\t1\n', ['say "no" twice', '"all"']),
        ('text\tlabel\n"open\t0\nclose"\t1\n', ['"open', 'close"']),
    ],
)
def test_quotes_in_tab_separated_files(text: str, expected: list[str]) -> None:
    """Quotes are taken off only where every field that holds one is a quoted field; and it is said which was done."""
    table = read_delimited(text, "a.tsv", delimiter="\t", wanted=("text",))
    assert table.cells["text"] == expected
    assert "tab-separated file" in table.notes[0].what


def test_rows_over_several_lines_are_told() -> None:
    """Two lone quotes that happen to fit together merge rows by the rules of the format; the notes name the row."""
    table = read_delimited('text,label\nfine,1\n"it ends,0\na joy,1\nbad",0\n', "a.csv", wanted=("text",))
    assert len(table) == 2
    assert [(note.count, note.ids) for note in table.notes if "line breaks inside quotes" in note.what] == [(1, ("2",))]
    assert read_delimited("text,label\nfine,1\n", "a.csv", wanted=("text",)).notes == ()


def test_json_lines_keep_types_and_line_numbers() -> None:
    """Blank lines count as lines; U+2028 inside a string does not end one; an absent key is None."""
    table = read_json('{"text": "a\u2028b", "label": 1}\n\n{"label": true}\n', "a.jsonl", wanted=("text", "label"))
    assert table.cells == {"text": ["a\u2028b", None], "label": [1, True]}
    assert (table.rows, table.lines) == ((1, 3), (1, 3))


def test_a_json_array_is_read_too() -> None:
    """An array of objects gives the rows of JSON lines, numbered by item."""
    table = read_json('[{"text": "a"},\n {"text": "b"}]', "a.json", wanted=("text",))
    assert (table.cells, table.rows, table.place(1)) == ({"text": ["a", "b"]}, (1, 2), "a.json, row 2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": "a"}\n{"text": }\n', "a.jsonl, line 2, column 10: not JSON"),
        ('{"text": "a"}\n5\n', "a.jsonl, line 2: expected an object.*got int"),
        ('[{"text": "a"}, 5]', "a.jsonl, item 2: expected an object"),
        ('[{"text": "a"},\n', "a.jsonl, line 2, column 1: not JSON"),
    ],
)
def test_malformed_json_names_the_line(text: str, message: str) -> None:
    """The line in the file is named, not the one in the fragment."""
    with pytest.raises(DataError, match=message):
        read_json(text, "a.jsonl", wanted=("text",))
