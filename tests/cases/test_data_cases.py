"""Real faults of comparable tools with data files (cases A01 to A20), and what dpeval does instead."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dpeval.data.config import DataConfig, SplitConfig
from dpeval.data.errors import DataError
from dpeval.data.load import load_dataset
from dpeval.data.split import split
from dpeval.types import Dataset

CaseFile = Callable[[str], Path]


def load(path: Path, **changes: object) -> Dataset:
    return load_dataset(DataConfig(**{"source": path.name, "text": "text", "label": "label", **changes}), path.parent)  # type: ignore[arg-type]


def classes(data: Dataset) -> dict[str, int]:
    return {name: Counter(data.records.labels)[i] for i, name in enumerate(data.label_names)}


def told(data: Dataset, start: str) -> list[tuple[int, tuple[str, ...]]]:
    return [(note.count, note.ids) for note in data.notes if note.what.startswith(start)]


def test_a01_a_byte_order_mark_and_crlf_change_nothing(case_file: CaseFile, tmp_path: Path) -> None:
    """Six rows, columns text and label, three of each class, no carriage return; the same without mark and with LF."""
    path = case_file("a01_bom_crlf.csv")
    plain = tmp_path / "plain.csv"
    plain.write_bytes(path.read_bytes().removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n"))
    marked, unmarked = load(path), load(plain)
    assert marked.records == unmarked.records
    assert marked.fingerprint == unmarked.fingerprint
    assert classes(marked) == {"neg": 3, "pos": 3}
    assert len(marked.records) == 6
    assert not any("\r" in str(text) for text in marked.records.texts)
    with pytest.raises(DataError, match=r"there are: 'text', 'label'$"):
        load(path, text="nothing")


def test_a03_a_spreadsheets_utf16_is_read_exactly(case_file: CaseFile) -> None:
    """Four rows with the exact texts, among them Chinese characters and an emoji; no NUL anywhere."""
    data = load(case_file("a03_utf16_excel.tsv"))
    assert data.records.texts == ("une très bonne soirée", "東京 was rainy", "smile 😀 today", "flat and grey")
    assert classes(data) == {"neg": 2, "pos": 2}
    assert "\0" not in "".join(map(str, data.records.texts))


def test_a05_lone_quotes_swallow_no_rows(case_file: CaseFile) -> None:
    """Eight rows, the quotes kept as part of the text, and a note that they were."""
    path = case_file("a05_stray_quotes.tsv")
    data = load(path, text="sentence")
    assert list(data.records.texts) == [
        line.split("\t")[0] for line in path.read_text(encoding="utf-8").splitlines()[1:]
    ]
    assert classes(data) == {"0": 4, "1": 4}
    assert told(data, "double quotes") == [(4, ())]


def test_a07_missing_labels_make_no_class(case_file: CaseFile) -> None:
    """Rows 3 and 6 are dropped by number; the classes are 0, 1 and 2, two rows each."""
    data = load(case_file("a07_missing_label.csv"))
    assert told(data, "dropped: the label is missing") == [(2, ("3", "6"))]
    assert classes(data) == {"0": 2, "1": 2, "2": 2}
    assert data.records.ids == ("1", "2", "4", "5", "7", "8")


def test_a09_a_label_of_the_test_set_only_is_told_before_training(case_file: CaseFile) -> None:
    """The note names the split, the label and its count 2; n = 2 rows are left to measure on."""
    path = case_file("a09_train.csv")
    data = load(path, test=case_file("a09_eval.csv").name)
    assert told(data, "test set: dropped: label 'account' of a09_eval.csv") == [(2, ("test:3", "test:4"))]
    assert data.test is not None
    assert len(data.test) == 2
    assert classes(data) == {"billing": 3, "shipping": 3}
    assert [data.label_names[label] for label in data.test.labels] == ["billing", "shipping"]


def test_a11_labels_of_mixed_types_are_refused_with_their_lines(case_file: CaseFile) -> None:
    """The error lists the kinds and the lines; nothing is merged; so it is for a test set."""
    path = case_file("a11_mixed_label_types.jsonl")
    for changes in ({}, {"test": path.name}):
        with pytest.raises(DataError) as caught:
            load(path, **changes)
        message = str(caught.value)
        assert "number: 1 at a11_mixed_label_types.jsonl, line 1, 1.0 at a11_mixed_label_types.jsonl, line 3" in message
        assert "text: '1' at a11_mixed_label_types.jsonl, line 2" in message
        assert "' 1' at a11_mixed_label_types.jsonl, line 8" in message
        assert (
            "boolean: True at a11_mixed_label_types.jsonl, line 4, False at a11_mixed_label_types.jsonl, line 7"
            in message
        )
        assert "line 9" not in message


@pytest.mark.parametrize("column", ["id", None])
def test_a13_blank_texts_are_dropped_and_ids_stay_with_their_rows(case_file: CaseFile, column: str | None) -> None:
    """Rows 3, 5, 6, 8 and 9 are dropped with ids and count; id 10 keeps label 1; no text reads None or nan."""
    data = load(case_file("a13_empty_texts.jsonl"), id=column)
    assert told(data, "dropped: the text is blank or missing") == [(5, ("3", "5", "6", "8", "9"))]
    assert data.records.ids == ("1", "2", "4", "7", "10")
    by_id = dict(zip(data.records.ids, zip(data.records.texts, data.records.labels, strict=True), strict=True))
    assert by_id["10"] == ("tenth row", 1)
    assert not {"None", "nan", "null"} & set(data.records.texts)


def test_a16_half_a_surrogate_pair_becomes_a_replacement_character(case_file: CaseFile) -> None:
    """Rows 1 and 3 are mended and counted, the whole emoji stays, and everything can be written as UTF-8."""
    data = load(case_file("a16_surrogates.jsonl"), id="id")
    assert data.records.texts == ("cut emoji \ufffd end", "whole emoji 😀 end", "bad byte \ufffd end", "plain end")
    assert told(data, "half surrogate pairs") == [(2, ("1", "3"))]
    json.dumps([data.records.texts, [note.what for note in data.notes]], ensure_ascii=False).encode("utf-8")


def test_a18_a_field_may_be_longer_than_the_csv_module_allows(case_file: CaseFile) -> None:
    """Three rows; the first text has 200,003 characters."""
    data = load(case_file("a18_long_field.csv"))
    assert len(data.records) == 3
    assert len(data.records.texts[0]) == 200_003


def test_a20_seven_rows_still_fill_every_role(case_file: CaseFile) -> None:
    """For any seed there is a member to train on, and no role is empty."""
    data = load(case_file("a20_tiny7.csv"))
    assert len(data.records) == 7
    for seed in range(100):
        done = split(data, seed, SplitConfig())
        sizes = [len(role) for role in (done.members, done.nonmembers, done.auxiliary, done.test)]
        assert min(sizes) >= 1
        assert sum(sizes) == 7
        assert len(done.test) == 1
