"""Loading as a whole: the same records from every format, sampling, test sets, notes, the fingerprint."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpeval.data.config import DataConfig, SplitConfig
from dpeval.data.duplicates import jaccard, shingles, words
from dpeval.data.errors import DataError
from dpeval.data.fingerprint import fingerprint
from dpeval.data.load import load_dataset
from dpeval.data.split import split
from dpeval.types import Dataset, Records

Row = dict[str, str]


def load(folder: Path, source: str = "data.csv", **changes: object) -> Dataset:
    return load_dataset(DataConfig(**{"source": source, "text": "text", "label": "label", **changes}), folder)  # type: ignore[arg-type]


def write_csv(path: Path, rows: list[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def rows_of(n: int, **columns: str) -> list[Row]:
    """n rows of distinct texts, alternating labels, and columns from format strings of i."""
    return [
        {
            "text": f"text number {i} says {i * i}",
            "label": "yn"[i % 2],
            **{k: v.format(i=i) for k, v in columns.items()},
        }
        for i in range(n)
    ]


def meaning(data: Dataset) -> dict[str, tuple[object, ...]]:
    """What each id stands for, free of all numbering: text, class, attribute value, and the ids of its group."""
    records = data.records
    together: dict[int, list[str]] = {}
    for key, number in zip(records.ids, records.groups, strict=True):
        together.setdefault(number, []).append(key)
    return {
        key: (
            records.texts[i],
            data.label_names[records.labels[i]],
            None if (value := records.attributes[i]) is None else data.attribute_values[value],
            frozenset(together[records.groups[i]]),
        )
        for i, key in enumerate(records.ids)
    }


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
tables = st.lists(
    st.fixed_dictionaries(
        {"text": texts, "label": st.sampled_from(["a", "b"]), "kind": st.sampled_from(["x", "y", ""])}
    ),
    min_size=4,
    max_size=12,
).map(lambda rows: [{"key": f"k{i}", **row} for i, row in enumerate(rows)])
relaxed = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def attempt(folder: Path, source: str) -> dict[str, tuple[object, ...]] | str:
    """What loading gives, or what is wrong with the rows where it refuses them."""
    try:
        return meaning(load(folder, source, id="key", attribute="kind"))
    except DataError as error:
        return str(error).replace(source, "FILE")


@given(tables)
@relaxed
def test_all_formats_give_the_same_records(tmp_path: Path, rows: list[Row]) -> None:
    """Any texts, saved as csv, JSON lines or parquet, are the same records (or the same error)."""
    write_csv(tmp_path / "d.csv", rows)
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "d.parquet")
    first = attempt(tmp_path, "d.csv")
    assert attempt(tmp_path, "d.jsonl") == first
    assert attempt(tmp_path, "d.parquet") == first


@given(tables, st.randoms(use_true_random=False))
@relaxed
def test_the_order_of_rows_and_columns_changes_no_record(tmp_path: Path, rows: list[Row], random: object) -> None:
    """Shuffled rows, shuffled columns and an unrelated column leave each id its text, class, attribute and group."""
    write_csv(tmp_path / "d.csv", rows)
    columns = ["unrelated", *rows[0]]
    random.shuffle(columns)  # type: ignore[attr-defined]
    shuffled = [{column: row.get(column, "?") for column in columns} for row in rows]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    write_csv(tmp_path / "shuffled.csv", shuffled)
    one, other = attempt(tmp_path, "d.csv"), attempt(tmp_path, "shuffled.csv")
    assert one == other or (isinstance(one, str) and isinstance(other, str))


def test_classes_and_attributes_are_numbered_in_order(tmp_path: Path) -> None:
    """Class numbers follow the order of the names, not of the rows; a missing attribute is None."""
    rows = [{"text": f"t{i} t{i}", "label": str(9 + i % 2), "g": ["b", "a", ""][i % 3]} for i in range(12)]
    write_csv(tmp_path / "data.csv", rows)
    data = load(tmp_path, attribute="g")
    assert (data.label_names, data.attribute_name, data.attribute_values) == (("9", "10"), "g", ("a", "b"))
    assert data.records.labels[:2] == (0, 1)
    assert data.records.attributes[:3] == (1, 0, None)


def test_one_class_and_labels_like_ids_are_refused(tmp_path: Path) -> None:
    """A classifier needs two classes, and a label of its own for most rows is none."""
    write_csv(tmp_path / "one.csv", [{"text": f"t{i}", "label": "a"} for i in range(5)])
    write_csv(tmp_path / "ids.csv", [{"text": f"t{i}", "label": f"u{i // 2 if i < 2 else i}"} for i in range(10)])
    with pytest.raises(DataError, match=r"'label' has one class only, 'a', in 5 usable rows"):
        load(tmp_path, "one.csv")
    with pytest.raises(DataError, match=r"'label' has 9 different values in 10 usable rows"):
        load(tmp_path, "ids.csv")


def test_a_sample_keeps_ids_and_prefers_records_with_an_attribute(tmp_path: Path) -> None:
    """A sample is part of the pool in pool order, the same each time, nested in a larger one, attributed rows first."""
    rows = rows_of(60, key="k{i}")
    for i, row in enumerate(rows):
        row["g"] = "xy"[i % 2] if i >= 50 else ""
    write_csv(tmp_path / "data.csv", rows)
    whole, large, small = (load(tmp_path, id="key", sample=n).records.ids for n in (60, 30, 15))
    assert len(whole) == 60
    assert set(small) < set(large) < set(whole)
    assert list(small) == [key for key in whole if key in set(small)]
    data = load(tmp_path, id="key", attribute="g", sample=20)
    assert {f"k{i}" for i in range(50, 60)} < set(data.records.ids)
    note = next(note for note in data.notes if note.what.startswith("left out by sample"))
    assert note.count == 40
    assert "records with a value of 'g' first" in note.what


def test_a_test_set_of_its_own(tmp_path: Path) -> None:
    """Its ids are marked; unknown labels are left out and told; pool records that copy a test text are dropped."""
    write_csv(tmp_path / "data.csv", rows_of(10))
    other = [{"text": "something else entirely", "label": "y"}, {"text": "TEXT number 3 says 9!", "label": "n"}]
    write_csv(tmp_path / "test.csv", [*other, {"text": "a third one here", "label": "maybe"}])
    data = load(tmp_path, test="test.csv")
    assert data.test is not None
    assert (data.test.ids, data.test.labels) == (("test:1", "test:2"), (1, 0))
    assert "4" not in data.records.ids
    assert not set(data.records.groups) & set(data.test.groups)
    told = {note.what: (note.count, note.ids) for note in data.notes}
    assert told["dropped: a near-duplicate of a text in the test set"] == (1, ("4",))
    assert told["test set: dropped: label 'maybe' of test.csv does not occur in the pool"] == (1, ("test:3",))
    with pytest.raises(DataError, match=r"every record of the pool is a near-duplicate of a test text"):
        load(tmp_path, test="data.csv")


def test_a_test_set_without_known_labels(tmp_path: Path) -> None:
    """Both lists of labels are shown."""
    write_csv(tmp_path / "data.csv", rows_of(10))
    write_csv(tmp_path / "test.csv", [{"text": "something else", "label": "z"}])
    with pytest.raises(DataError, match=r"no row of test.csv has a label of the pool \('n', 'y'\); it has 'z'"):
        load(tmp_path, test="test.csv")


def test_a_split_of_the_source_as_test_set(tmp_path: Path) -> None:
    """test_split alone takes another split of the same saved data set, and not the one of the pool."""
    import datasets

    parts = {"train": rows_of(10), "validation": [{"text": "one more of them", "label": "y"}]}
    datasets.DatasetDict({k: datasets.Dataset.from_list(v) for k, v in parts.items()}).save_to_disk(
        str(tmp_path / "saved")
    )
    data = load(tmp_path, "saved", split="train", test_split="validation")
    assert data.test is not None
    assert data.test.texts == ("one more of them",)
    with pytest.raises(DataError, match=r"test_split: 'train' is also the split of the pool"):
        load(tmp_path, "saved", split="train", test_split="train")


def test_copies_and_conflicts_are_told(tmp_path: Path) -> None:
    """Equal texts share a group and are counted, and so are those whose labels disagree."""
    rows = [
        *rows_of(8),
        {"text": "Text number 2 says 4.", "label": "y"},
        {"text": "text number 3, says 9", "label": "y"},
    ]
    write_csv(tmp_path / "data.csv", rows)
    data = load(tmp_path)
    groups = dict(zip(data.records.ids, data.records.groups, strict=True))
    assert groups["3"] == groups["9"]
    assert groups["4"] == groups["10"]
    told = {note.what: (note.count, note.ids) for note in data.notes}
    assert told["texts that occur more than once (but for case and punctuation)"] == (4, ("3", "4", "9", "10"))
    assert told["equal texts with different labels"] == (2, ("4", "10"))


def test_no_text_in_one_role_has_a_near_duplicate_in_another(tmp_path: Path) -> None:
    """With planted copies, comparing every pair across roles finds none above the threshold; without groups it does."""
    data = load(tmp_path, "synthetic:reviews?n=150&duplicates=50", id="id")
    loose = load(tmp_path, "synthetic:reviews?n=150&duplicates=50", id="id", near_duplicates=0)
    assert worst_across_roles(data) < 0.8 <= worst_across_roles(loose)


def worst_across_roles(data: Dataset) -> float:
    """The largest similarity of two texts in different roles, over three splits."""
    worst = 0.0
    for seed in range(3):
        done = split(data, seed, SplitConfig())
        roles = [
            [shingles(words(t)) for t in r.texts] for r in (done.members, done.nonmembers, done.auxiliary, done.test)
        ]
        pairs = itertools.combinations(roles, 2)
        worst = max(worst, *(jaccard(a, b) for one, other in pairs for a in one for b in other))
    return worst


def test_turning_the_search_off_is_told(tmp_path: Path) -> None:
    """Without the search near-duplicates are apart, equal texts are not, and the notes say so."""
    base = " ".join(f"word{i}" for i in range(20))
    rows = [*rows_of(8), *({"text": text, "label": "y"} for text in (base, f"{base} more", base.upper()))]
    write_csv(tmp_path / "data.csv", rows)
    near, off = load(tmp_path).records.groups, load(tmp_path, near_duplicates=0)
    assert near[8] == near[9] == near[10]
    assert off.records.groups[8] == off.records.groups[10] != off.records.groups[9]
    assert any("near-duplicates were not looked for" in note.what for note in off.notes)


def test_an_attribute_with_one_value_is_told(tmp_path: Path) -> None:
    """It is kept, and the notes say that inferring it cannot be measured."""
    write_csv(tmp_path / "data.csv", rows_of(8, g="same"))
    assert any("one value only, 'same'" in note.what for note in load(tmp_path, attribute="g").notes)


def records(**changes: object) -> Records:
    return Records(**{"ids": ("a", "b"), "texts": ("x", ("y", "z")), "labels": (0, 1), **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        records(ids=("a", "c")),
        records(texts=("x ", ("y", "z"))),
        records(texts=("x", "y z")),
        records(labels=(1, 0)),
        records(attributes=(None, 0)),
        records(groups=(0, 0)),
        records().take([1, 0]),
    ],
)
def test_the_fingerprint_changes_with_everything_that_can_change_a_result(changed: Records) -> None:
    """Ids, texts, labels, attributes, groups, their order, and the test set."""
    base = fingerprint(records(), None)
    assert base == fingerprint(records(), None)
    assert (
        len({base, fingerprint(changed, None), fingerprint(records(), changed), fingerprint(changed, records())}) == 4
    )


def test_the_fingerprint_ignores_where_the_file_lies(tmp_path: Path) -> None:
    """The same content under another name, with an unrelated column, is the same data set."""
    write_csv(tmp_path / "data.csv", rows_of(8))
    write_csv(tmp_path / "copy.csv", rows_of(8, unrelated="{i}"))
    assert load(tmp_path).fingerprint == load(tmp_path, "copy.csv").fingerprint


def test_a_relative_path_starts_at_the_matrix_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the working directory; an absolute path is taken as it is."""
    (tmp_path / "data").mkdir()
    write_csv(tmp_path / "data" / "data.csv", rows_of(8))
    monkeypatch.chdir("/")
    assert len(load(tmp_path, "data/data.csv").records) == len(
        load(Path("/"), str(tmp_path / "data" / "data.csv")).records
    )


def test_the_planted_structure_is_there(tmp_path: Path) -> None:
    """Synthetic reviews have two classes and four genres in nearly equal parts."""
    data = load(tmp_path, "synthetic:reviews?n=400", attribute="genre", id="id")
    assert min(Counter(data.records.labels).values()) > 160
    assert min(Counter(data.records.attributes).values()) > 70
    assert io.StringIO(" ".join(map(str, data.records.texts))).read().count("detective") > 10
