"""Reads a file of membership scores: .csv, .tsv, .jsonl, .json, .parquet or .npz, with errors that say where.

Columns ``score`` and ``member`` are needed; ``id``, ``group``, ``seed`` and ``text`` are read where the file has them.
Whether a record is a member is said by ``true``/``false``, ``1``/``0`` or words such as ``member``/``non-member``. An
.npz file (or one object in a .json file) holds these columns as arrays, or two arrays of scores, ``members`` and
``nonmembers``.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "s.csv"
>>> _ = path.write_text("id,score,member\\na,0.9,1\\nb,0.2,no\\n")
>>> read_scores(path).member
(True, False)
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from dpeval.data.arrow import read_parquet
from dpeval.data.delimited import read_delimited
from dpeval.data.errors import DataError, listed
from dpeval.data.files import COMPRESSIONS, decode, read_content
from dpeval.data.jsonfile import read_json
from dpeval.data.table import Table

T = TypeVar("T")
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".npz")
OTHER_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"score": ("scores",), "member": ("is_member",), "id": ("record_id",), "group": (), "seed": (), "text": ()}
)
"""What a column may be called beside its own name."""
YES = frozenset({"true", "1", "1.0", "yes", "member", "in"})
NO = frozenset({"false", "0", "0.0", "no", "nonmember", "non-member", "non_member", "non member", "out"})


@dataclass(frozen=True)
class ScoreFile:
    """The columns of a file of scores, checked; all of one length, both classes present."""

    name: str
    score: tuple[float, ...]
    member: tuple[bool, ...]
    id: tuple[str, ...] | None = None
    group: tuple[str, ...] | None = None
    seed: tuple[str, ...] | None = None
    text: tuple[str, ...] | None = None


def read_scores(path: Path, columns: Mapping[str, str] | None = None) -> ScoreFile:
    """Read and check a file.

    Args:
        path: the file; its ending names the format, possibly followed by that of a compression.
        columns: for ``score``, ``member``, ``id``, ``group`` or ``seed``, the column's name in this file.

    Raises:
        DataError: the file cannot be read, lacks a column, holds one class, names a record twice, or a cell is not what
            its column needs; the message names file, line or row, and column.
    """
    table = _table(path)
    names = {field: _named(table, field, (columns or {}).get(field)) for field in OTHER_NAMES}
    score = _column(table, names["score"], _score)
    member = _column(table, names["member"], _member)
    if score is None or member is None:
        raise AssertionError("needed columns are found or refused")
    keys = {field: _column(table, names[field], _key) for field in ("id", "group", "seed")}
    texts = _column(table, names["text"], _text)
    found = ScoreFile(path.name, score, member, keys["id"], keys["group"], keys["seed"], texts)
    _check_classes(found, names["member"] or "member")
    _check_ids(found, table, names["id"] or "id")
    return found


def _table(path: Path) -> Table:
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    suffixes = [s.lower() for s in path.suffixes]
    ending = next((s for s in reversed(suffixes) if s not in COMPRESSIONS), "")
    if ending not in ENDINGS:
        raise DataError(
            f"{path.name}: expected a file of scores that ends in {listed(ENDINGS)}, possibly followed by "
            f"{listed(COMPRESSIONS)}"
        )
    content = read_content(path)
    if ending == ".npz":
        return _npz(content.raw, path.name)
    wanted = _All()
    if ending == ".parquet":
        return read_parquet(content.raw, path.name, wanted=_parquet_columns(content.raw, path.name))
    try:
        text = decode(content.raw, path.name, None)
    except DataError as error:
        raise DataError(f"{path.name} is not UTF-8 text, nor marked as another encoding; save it as UTF-8") from error
    if ending in (".csv", ".tsv"):
        delimiter = "\t" if ending == ".tsv" else _delimiter(text)
        return read_delimited(text, path.name, delimiter=delimiter, wanted=wanted)
    return _json(text, path.name)


def _delimiter(text: str) -> str:
    """Of a .csv file: what separates the names in its first line; spreadsheets write semicolons in half of Europe."""
    names = text.lstrip().partition("\n")[0]
    return next((mark for mark in (",", ";", "\t") if mark in names), ",")


class _All(tuple[str, ...]):
    """Wants every column."""

    __slots__ = ()

    def __contains__(self, item: object) -> bool:
        return True


def _parquet_columns(raw: bytes, name: str) -> tuple[str, ...]:
    return read_parquet(raw, name, wanted=()).columns


def _json(text: str, name: str) -> Table:
    """Lines, an array of objects, or one object that holds the columns as arrays."""
    whole = _object(text)
    line = text if whole is None else json.dumps(whole)
    probe = read_json(line, name, wanted=())
    table = read_json(line, name, wanted=probe.columns)
    lists = len(table) == 1 and all(isinstance(cells[0], list) for cells in table.cells.values())
    if not lists:
        return table
    return _from_arrays({column: list(cells[0]) for column, cells in table.cells.items()}, name)  # type: ignore[call-overload]


def _object(text: str) -> object:
    """The one object that a text is, however many lines it takes; ``None`` for JSON lines."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def _npz(raw: bytes, name: str) -> Table:
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{name} is not a readable .npz file of plain arrays: {error}") from error
    for key, array in arrays.items():
        if array.ndim != 1:
            raise DataError(f"{name}, array {key!r}: expected one dimension, got shape {array.shape}")
    return _from_arrays({key: array.tolist() for key, array in arrays.items()}, name)


def _from_arrays(arrays: Mapping[str, Sequence[object]], name: str) -> Table:
    if {"members", "nonmembers"} <= arrays.keys():
        inside, outside = arrays["members"], arrays["nonmembers"]
        member = [True] * len(inside) + [False] * len(outside)
        arrays = {"score": [*inside, *outside], "member": member}
    lengths = {key: len(array) for key, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{key} {n}" for key, n in lengths.items())
        raise DataError(f"{name}: the arrays are of different lengths: {said}")
    n = next(iter(lengths.values()), 0)
    return Table(name=name, columns=tuple(arrays), cells=arrays, rows=tuple(range(1, n + 1)))


def _named(table: Table, field: str, asked: str | None) -> str | None:
    """The column of a field; ``None`` where an optional one is absent."""
    if asked is not None:
        table.column(asked)
        return asked
    found = next((name for name in (field, *OTHER_NAMES[field]) if name in table.columns), None)
    if found is None and field in ("score", "member"):
        table.column(field)
    return found


def _column(table: Table, name: str | None, parse: Callable[[object], T]) -> tuple[T, ...] | None:
    if name is None:
        return None
    out = []
    for i, cell in enumerate(table.column(name)):
        try:
            out.append(parse(cell))
        except ValueError as error:
            raise DataError(f"{table.place(i)}, column {name!r}: {error}") from error
    return tuple(out)


def _score(cell: object) -> float:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        raise ValueError("the score is missing; every record needs one, or leave the record out")
    if isinstance(cell, bool):
        raise ValueError(f"expected a number, got {cell}")  # noqa: TRY004 - of the cell, as every other complaint
    try:
        value = float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"expected a number such as 0.25 (with a point), got {cell!r}") from None
    if not math.isfinite(value):
        raise ValueError(f"expected a finite score, got {cell!r}; an attack returns a finite score for every record")
    return value


def _member(cell: object) -> bool:
    if isinstance(cell, bool):
        return cell
    word = "" if cell is None else str(cell).strip().casefold()
    if word in YES:
        return True
    if word in NO:
        return False
    shown = "nothing" if not word or word == "nan" else repr(cell)
    raise ValueError(f"expected 1 or 0, true or false, member or non-member, got {shown}")


def _key(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    word = "" if cell is None or (isinstance(cell, float) and math.isnan(cell)) else str(cell).strip()
    if not word:
        raise ValueError("the cell is empty; name it, or leave the column out")
    return word


def _text(cell: object) -> str:
    if not isinstance(cell, str):
        raise ValueError(f"expected a text, got {cell!r}; leave the column out where records have none")  # noqa: TRY004
    return cell


def _check_classes(found: ScoreFile, column: str) -> None:
    seeds = found.seed or ("",) * len(found.score)
    for seed in dict.fromkeys(seeds) or ("",):
        kinds = [m for m, s in zip(found.member, seeds, strict=True) if s == seed]
        if len(set(kinds)) < 2:
            what = f"only {'members' if kinds[0] else 'non-members'} ({len(kinds)} rows)" if kinds else "no rows"
            where = f" of seed {seed!r}" if seed else ""
            hint = "; where each score has a model of its own, leave the seeds out" if seed else ""
            raise DataError(
                f"{found.name}, column {column!r}: {what}{where}; undefined (one class): an audit needs both members "
                f"and non-members{hint}"
            )


def _check_ids(found: ScoreFile, table: Table, column: str) -> None:
    if found.id is None:
        return
    seen: dict[tuple[str, str], int] = {}
    seeds = found.seed or ("",) * len(found.id)
    for i, key in enumerate(zip(found.id, seeds, strict=True)):
        if key in seen:
            of = f" with seed {key[1]!r}" if key[1] else ""
            raise DataError(
                f"{table.place(i)}, column {column!r}: id {key[0]!r}{of} was already on {table.spot(seen[key])}; an id "
                "names one record of one model"
            )
        seen[key] = i
