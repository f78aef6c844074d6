"""Reads parquet files and Hugging Face data sets (saved folders, the hub) into a :class:`Table`.

Nothing here runs code that comes with a data set, and a folder is read without asking any server.

>>> import io, pyarrow as pa, pyarrow.parquet as pq
>>> buffer = io.BytesIO(); pq.write_table(pa.table({"text": ["fine"], "stars": [5]}), buffer)
>>> read_parquet(buffer.getvalue(), "a.parquet", wanted=("text",)).cells
{'text': ['fine']}
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpeval.data.errors import DataError, did_you_mean, listed
from dpeval.data.table import Table
from dpeval.types import Note


def read_parquet(raw: bytes, name: str, *, wanted: Sequence[str]) -> Table:
    """The rows of a parquet file; only the ``wanted`` columns are decoded. DataError where it is damaged."""
    try:
        file = pq.ParquetFile(io.BytesIO(raw))
        columns = tuple(str(column) for column in file.schema_arrow.names)
        table = file.read(columns=[column for column in wanted if column in columns])
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{name} is not a readable parquet file: {error}") from error
    return _table(table, name, columns)


def read_saved(folder: Path, name: str, *, split: str | None, wanted: Sequence[str]) -> Table:
    """The rows of a folder written by ``save_to_disk``. DataError where the folder holds no such data set."""
    if not any((folder / mark).is_file() for mark in ("dataset_dict.json", "state.json")):
        raise DataError(
            f"{name} is a folder without a data set saved by datasets.save_to_disk; "
            "name such a folder, or a file (.csv .tsv .jsonl .parquet)"
        )
    import datasets

    try:
        return from_datasets(datasets.load_from_disk(str(folder)), name, split=split, wanted=wanted)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{name} is not a readable saved data set: {error}") from error


def from_datasets(data: Any, name: str, *, split: str | None, wanted: Sequence[str]) -> Table:
    """A ``Dataset`` or ``DatasetDict`` as a table: the splits asked for, one after the other; class labels by name."""
    if not isinstance(data, Mapping):
        if split is not None:
            raise DataError(f"[data] split: {name} holds one table without splits; leave split = {split!r} out")
        return _one_split(data, name, wanted)
    names, notes = _chosen(data, name, split)
    tables = [_one_split(data[part], name, wanted) for part in names]
    if len({table.columns for table in tables}) != 1:
        raise DataError(f"{name}: the splits {listed(names)} have different columns; name one of them in split")
    return _stack(tables, notes)


def _chosen(data: Mapping[str, Any], name: str, split: str | None) -> tuple[list[str], tuple[Note, ...]]:
    """Which splits to read, and a note where that was not the user's choice."""
    known = [str(part) for part in data]
    if split is None:
        if len(known) == 1:
            return known, ()
        if "train" in known:
            rest = [part for part in known if part != "train"]
            return ["train"], (Note(f"read the split 'train' of {name}; not used: {listed(rest)}", len(data["train"])),)
        raise DataError(f"[data] split: {name} has several splits, name one or join them with '+': {listed(known)}")
    names = [part.strip() for part in split.split("+")]
    for part in names:
        if part not in known:
            raise DataError(f"[data] split: {name} has no split {part!r}; {did_you_mean(part, known)}")
    return names, ()


def _one_split(data: Any, name: str, wanted: Sequence[str]) -> Table:
    columns = tuple(str(column) for column in data.column_names)
    keep = [column for column in wanted if column in columns]
    table = _table(data.select_columns(keep).with_format("arrow")[:], name, columns)
    cells = {column: _class_names(data.features[column], values) for column, values in table.cells.items()}
    return Table(name, columns, cells, rows=tuple(range(1, len(data) + 1)))


def _class_names(feature: Any, values: Sequence[object]) -> Sequence[object]:
    """Names for the numbers of a ClassLabel column; -1, by which hub data sets mark a hidden label, becomes None."""
    names = getattr(feature, "names", None)
    if names is None:
        return values
    return [names[value] if isinstance(value, int) and 0 <= value < len(names) else None for value in values]


def _table(table: Any, name: str, columns: tuple[str, ...]) -> Table:
    cells = {str(column): table.column(column).to_pylist() for column in table.column_names}
    return Table(name=name, columns=columns, cells=cells, rows=tuple(range(1, table.num_rows + 1)))


def _stack(tables: Sequence[Table], notes: tuple[Note, ...]) -> Table:
    cells = {column: [cell for table in tables for cell in table.cells[column]] for column in tables[0].cells}
    count = sum(len(table) for table in tables)
    return Table(tables[0].name, tables[0].columns, cells, rows=tuple(range(1, count + 1)), notes=notes)
