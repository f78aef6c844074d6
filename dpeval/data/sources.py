"""Turns a source, as a user writes it, into a :class:`Table`.

>>> read_source("synthetic:reviews?n=3", DataConfig(source="", text="text", label="label"), Path(), None).rows
Traceback (most recent call last):
...
dpeval.errors.DataError: [data] source: expected a text that is not empty, got ''
>>> config = DataConfig(source="synthetic:reviews?n=3", text="text", label="label")
>>> read_source(config.source, config, Path(), split=None).rows
(1, 2, 3)
"""

from __future__ import annotations

import difflib
from pathlib import Path

from dpeval.data.arrow import read_parquet, read_saved
from dpeval.data.config import DataConfig
from dpeval.data.delimited import read_delimited
from dpeval.data.errors import DataError, listed
from dpeval.data.files import COMPRESSIONS, Content, decode, read_content
from dpeval.data.hub import read_hub
from dpeval.data.jsonfile import read_json
from dpeval.data.synthetic import synthetic
from dpeval.data.table import Table

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON = (".jsonl", ".ndjson", ".json")
_HUB_HINT = "for a data set of the hub write hub:OWNER/NAME"
FORMATS = (*_DELIMITERS, *_JSON, ".parquet")


def read_source(source: str, config: DataConfig, base: Path, split: str | None) -> Table:
    """The columns that ``config`` names, of ``source``; a relative path starts at ``base``.

    Only ``hub:`` sources ever reach for a network.

    Raises:
        DataError: no such source, or it cannot be read; the message says where and what to do.
    """
    scheme, colon, rest = source.partition(":")
    if colon and scheme == "hub":
        return read_hub(rest, subset=config.subset, split=split, wanted=config.columns)
    if colon and scheme == "synthetic":
        return synthetic(rest, wanted=config.columns)
    path = base / Path(source).expanduser()
    if path.is_dir():
        return read_saved(path, source, split=split, wanted=config.columns)
    if not path.is_file():
        raise DataError(_absent(source, path))
    if split is not None:
        raise DataError(f"[data] split: a file has no splits, leave split = {split!r} out; to choose rows, use where")
    return _read_file(path, config)


def _read_file(path: Path, config: DataConfig) -> Table:
    ending = Path(path.stem).suffix.lower() if path.suffix.lower() in COMPRESSIONS else path.suffix.lower()
    if ending not in FORMATS:
        raise DataError(
            f"{path.name}: expected a file that ends in {listed(FORMATS)}, possibly followed by {listed(COMPRESSIONS)}"
        )
    return _read_content(read_content(path), ending, config)


def _read_content(content: Content, ending: str, config: DataConfig) -> Table:
    if ending == ".parquet":
        return read_parquet(content.raw, content.name, wanted=config.columns)
    text = decode(content.raw, content.name, config.encoding)
    if ending in _JSON:
        return read_json(text, content.name, wanted=config.columns)
    delimiter = config.delimiter or _DELIMITERS[ending]
    return read_delimited(text, content.name, delimiter=delimiter, wanted=config.columns)


def _absent(source: str, path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"[data] source: there is no folder {folder}, where {source!r} should be; {_HUB_HINT}"
    close = difflib.get_close_matches(path.name, [entry.name for entry in folder.iterdir()], n=3)
    hint = f"; did you mean {listed(close)}?" if close else f"; {_HUB_HINT}"
    return f"[data] source: there is no file {source!r} in {folder}{hint}"
