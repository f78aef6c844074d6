"""Covariates: one meaning in every format, errors by key, and nothing of them in what trainings depend on."""

from __future__ import annotations

import csv
import datetime
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpeval.config import read_matrix
from dpeval.data.config import DataConfig
from dpeval.data.covariates import read_covariate
from dpeval.data.errors import DataError
from dpeval.data.load import load_dataset
from dpeval.materials import load_materials
from dpeval.matrix import plan
from dpeval.tiny import tiny_checkpoint
from dpeval.types import Dataset

CITIES = ["Oslo", None, "Rome", "Oslo"]
AGES = [31, None, 40.5, 22]
KEPT = [True, False, None, True]
DAYS = ["2020-01-02", "2021-05-06", None, "2020-01-02"]
N = 12


def table() -> dict[str, list[object]]:
    return {
        "text": [f"text {i} {'abcdefghijkl'[i] * 3}" for i in range(N)],
        "label": ["y", "n"] * 6,
        "kind": ["x", "y", "z"] * 4,
        "city": CITIES * 3,
        "age": AGES * 3,
        "kept": KEPT * 3,
        "day": DAYS * 3,
    }


def write(folder: Path, name: str) -> None:
    columns = table()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    path = folder / name
    if name.endswith(".csv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(columns))
            writer.writeheader()
            writer.writerows(
                [{k: str(v).lower() if isinstance(v, bool) else v for k, v in row.items()} for row in rows]
            )
    elif name.endswith(".jsonl"):
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    elif name.endswith(".parquet"):
        days = [None if d is None else datetime.date.fromisoformat(str(d)) for d in columns["day"]]
        pq.write_table(pa.table(columns | {"day": days}), path)
    else:
        import datasets

        datasets.Dataset.from_list(rows).save_to_disk(str(path))


def load(folder: Path, source: str, **changes: object) -> Dataset:
    given = {"source": source, "text": "text", "label": "label", "attribute": "kind"}
    return load_dataset(DataConfig(**given | changes), folder)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", ["a.csv", "a.jsonl", "a.parquet", "saved"])
def test_covariates_mean_the_same_whatever_the_file(tmp_path: Path, source: str) -> None:
    write(tmp_path, source)
    city, age, kept, day = load(tmp_path, source, covariates=["city", "age", "kept", "day"]).covariates
    assert city.values == tuple(CITIES * 3)
    assert age.values == tuple(None if a is None else float(a) for a in AGES * 3)
    assert kept.values == ("true", "false", None, "true") * 3
    first, second = datetime.date(2020, 1, 2).toordinal() - 719163, datetime.date(2021, 5, 6).toordinal() - 719163
    assert day.values == (first, second, None, first) * 3
    assert (city.is_numeric, age.is_numeric, kept.is_numeric, day.is_numeric) == (False, True, False, True)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "2.5", " nan "], (1.0, 2.5, None)),
        ([1, "old", None], ("1", "old", None)),
        ([Decimal("1.5"), float("inf"), float("nan")], (1.5, None, None)),
        ([True, 1, 0], ("true", "1", "0")),
        ([None, "", float("nan")], (None, None, None)),
        (["2020-13-01", "2020-01-01"], ("2020-13-01", "2020-01-01")),
    ],
)
def test_cells_are_quantities_or_names(cells: list[object], values: tuple[object, ...]) -> None:
    assert read_covariate("c", cells, str).values == values


def test_they_follow_their_records_through_cleaning_and_sampling(tmp_path: Path) -> None:
    """Row i has the covariate i; a blank text goes, a sample chooses, and all that is left still fits."""
    columns = {"text": ["" if i == 3 else f"text {i} {'abcdefghijklmnop'[i] * 3}" for i in range(16)]}
    columns |= {"label": ["y", "n"] * 8, "kind": ["x", "y"] * 8, "number": [str(i) for i in range(16)]}
    rows = zip(*columns.values(), strict=True)
    (tmp_path / "b.csv").write_text("\n".join([",".join(columns), *map(",".join, rows)]), encoding="utf-8")
    data = load(tmp_path, "b.csv", covariates=["number"], sample=9)
    assert data.covariates[0].values == tuple(float(key) - 1 for key in data.records.ids)
    assert len(data.records) == 9


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"covariates": ["kind"]}, r"\[data\] covariates: 'kind' is the attribute itself"),
        ({"covariates": ["text"]}, r"\[data\] covariates: 'text' is the text column"),
        ({"covariates": ["city", "city"]}, r"\[data\] covariates: each column once"),
        ({"covariates": "city"}, r"\[data\] covariates: expected a list of columns"),
        ({"covariates": [""]}, r"\[data\] covariates: expected a list of columns"),
        ({"covariates": ["city"], "attribute": None}, r"\[data\] covariates: there is no attribute"),
        ({"covariates": ["ctiy"]}, "has no column 'ctiy'; did you mean 'city'"),
    ],
)
def test_unusable_covariates_are_refused_by_key(tmp_path: Path, given: dict[str, object], told: str) -> None:
    write(tmp_path, "a.csv")
    with pytest.raises(DataError, match=told):
        load(tmp_path, "a.csv", **given)


def test_a_cell_that_is_no_value_is_refused_with_its_place() -> None:
    with pytest.raises(DataError, match=r"\[data\] covariates: 'tags' holds list at row 1"):
        read_covariate("tags", ["a", ["b"]], lambda i: f"row {i}")


def test_the_attribute_by_another_name_is_said(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(
        "text,label,kind,code\n"
        + "\n".join(f"t{i} {'abcdefgh'[i] * 4},{'yn'[i % 2]},{'ab'[i // 4]},{i // 4}" for i in range(8)),
        encoding="utf-8",
    )
    assert any("by another name" in n.what for n in load(tmp_path, "c.csv", covariates=["code"]).notes)
    assert not any("by another name" in n.what for n in load(tmp_path, "c.csv").notes)


MATRIX = """
[data]
source = "synthetic:reviews?n=60"
text = "text"
label = "label"
attribute = "genre"
{covariates}
[model]
source = "{model}"
max_length = 24
[[defense]]
use = "none"
[[attack]]
use = "attribute-probe"
"""


def test_no_job_depends_on_covariates_and_no_attack_is_handed_them(tmp_path: Path) -> None:
    """The jobs of two matrices are equal: trainings and attacks are reused when covariates come or go."""
    tiny_checkpoint(tmp_path)
    jobs = []
    for covariates in ("", 'covariates = ["id"]'):
        file = tmp_path / "m.toml"
        file.write_text(MATRIX.format(covariates=covariates, model=tmp_path), encoding="utf-8")
        experiment = read_matrix(file)
        materials = load_materials(experiment)
        (dataset,) = materials.datasets
        assert isinstance(dataset, Dataset)
        assert len(dataset.covariates) == bool(covariates)
        jobs.append((dataset.fingerprint, plan(experiment, materials).jobs))
    assert jobs[0] == jobs[1]
