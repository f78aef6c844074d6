"""Writing files so that a reader never sees a half-written one, on any disk and under any locale.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "a" / "x.txt"
>>> write_text(path, "ε = 1"); path.read_text(encoding="utf-8")
'ε = 1'
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from dpeval.errors import StoreError


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 beside ``path``, flush to disk, rename over it; StoreError names the path on failure."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}; free space or choose another --out"
        ) from error


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON with ``null`` for what is not a number; see :func:`write_text`."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, sort_keys=False, allow_nan=False) + "\n")


def sync_folder(folder: Path) -> None:
    """Flush every file of ``folder`` and the folder itself to disk."""
    for path in [*(p for p in folder.rglob("*") if p.is_file()), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
