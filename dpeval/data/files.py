"""Bytes and text of a file: compressed or not, in whatever encoding its mark or the user says.

>>> decode("\\ufefftext\\tlabel".encode("utf-16-le"), "reviews.tsv", None)
'text\\tlabel'
>>> decode(b"caf\\xe9", "menu.csv", "latin-1")
'café'
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dpeval.data.errors import DataError, listed

# UTF-32 little-endian begins with the mark of UTF-16, so it is asked first.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_BINARY = ((b"PK\x03\x04", "a zip archive or a spreadsheet"), (b"PAR1", "a parquet file"), (b"\x1f\x8b", "gzip data"))
# A zip archive with a password is a RuntimeError.
_DAMAGED = (OSError, EOFError, RuntimeError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, pa.ArrowException)


@dataclass(frozen=True)
class Content:
    """The bytes of a file after decompression, and its name without the ending of the compression."""

    name: str
    raw: bytes


def read_content(path: Path) -> Content:
    """Read a file and take off its compression, which its ending names; DataError where it is damaged."""
    unpack = _UNPACK.get(path.suffix.lower())
    try:
        raw = path.read_bytes()
        return Content(path.name, raw) if unpack is None else Content(path.stem, unpack(raw))
    except _DAMAGED as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def decode(raw: bytes, name: str, encoding: str | None) -> str:
    """The text of a file: in ``encoding``, or as its byte-order mark says, or in UTF-8; without the mark.

    Raises:
        DataError: the bytes are not text in that encoding; the message names the byte and the line.
    """
    for magic, what in _BINARY:
        if raw.startswith(magic):
            raise DataError(f"{name} is {what}, not text; name the file for what it is, or export it as .csv")
    used = encoding or next((codec for mark, codec in _MARKS if raw.startswith(mark)), "utf-8")
    try:
        text = raw.decode(used)
    except LookupError as error:
        raise DataError(
            f"[data] encoding: Python knows no text encoding {used!r}; try 'latin-1' or 'utf-16'"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(_undecodable(raw, name, used, error.start)) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(
            f"{name}, line {line}: a NUL character, as in UTF-16 read as {used}; set encoding = 'utf-16-le' or another"
        )
    return text.removeprefix("\ufeff")


def _undecodable(raw: bytes, name: str, used: str, at: int) -> str:
    line = raw.count(b"\n", 0, at) + 1
    return (
        f"{name}, line {line}: byte {at} (0x{raw[at]:02x}) is not {used}; "
        "say in [data] how the file is encoded, for instance encoding = 'cp1252', 'latin-1' or 'utf-16'"
    )


def _unzip(raw: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
        if len(members) != 1:
            raise DataError(f"a .zip source holds one file, this one holds {len(members)}: {listed(members)}")
        return archive.read(members[0])


def _unzstd(raw: bytes) -> bytes:
    with pa.input_stream(pa.py_buffer(raw), compression="zstd") as stream:
        return bytes(stream.read())


_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": _unzstd,
    ".zip": _unzip,
}
COMPRESSIONS = tuple(_UNPACK)
