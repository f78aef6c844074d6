"""A content-addressed store of finished work: one folder for each result, written whole or not at all.

A result's key is the digest of everything that can change it. Each entry keeps that identity in words, so that
``dpeval explain`` can say what differs, and a checksum of every file, so that damage is noticed and the work redone.

>>> import tempfile, pathlib
>>> store = Store(pathlib.Path(tempfile.mkdtemp()))
>>> entry = store.put("demo", {"x": 1}, lambda folder: (folder / "a.txt").write_text("hi") and None)
>>> store.get("demo", {"x": 1}).file("a.txt").read_text()
'hi'
>>> store.get("demo", {"x": 2}) is None
True
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeval.errors import StoreError
from dpeval.files import sync_folder
from dpeval.identity import canonical, key_of

log = logging.getLogger(__name__)
RECORD = "entry.json"


@dataclass(frozen=True)
class Entry:
    """One finished result on disk."""

    folder: Path
    key: str
    identity: dict[str, Any]

    def file(self, name: str) -> Path:
        """The path of one of the entry's files."""
        return self.folder / name

    def json(self, name: str) -> Any:
        """The parsed content of a JSON file of the entry."""
        return json.loads(self.file(name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Store:
    """Entries under ``root/<stage>/<key>``. Any number of processes may read and write at once."""

    root: Path

    def folder_of(self, stage: str, identity: object) -> Path:
        """Where the entry of ``identity`` lies or would lie."""
        return self.root / stage / key_of(identity)

    def get(self, stage: str, identity: object) -> Entry | None:
        """The finished entry, or ``None``; a damaged entry is set aside, and said."""
        folder = self.folder_of(stage, identity)
        if not folder.exists():
            return None
        problem = damage(folder)
        if problem is None:
            return Entry(folder, folder.name, canonical(identity))
        log.warning("damaged result %s: %s; it is removed and made again", folder, problem)
        shutil.rmtree(folder, ignore_errors=True)
        return None

    def put(self, stage: str, identity: object, write: Callable[[Path], None]) -> Entry:
        """Let ``write`` fill a temporary folder, then rename it into place. An entry that came first stays."""
        target = self.folder_of(stage, identity)
        temporary = self.root / "tmp" / uuid.uuid4().hex
        try:
            temporary.mkdir(parents=True)
            write(temporary)
            self._seal(temporary, stage, identity)
            target.parent.mkdir(parents=True, exist_ok=True)
            self._rename(temporary, target)
        except OSError as error:
            raise StoreError(
                f"cannot write {target}: {error.strerror or error}; free space or choose another --out"
            ) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return Entry(target, target.name, canonical(identity))

    def entries(self, stage: str) -> Iterator[Entry]:
        """Every entry of a stage, undamaged or not, with the identity it was written for."""
        for record in sorted((self.root / stage).glob(f"*/{RECORD}")):
            yield Entry(record.parent, record.parent.name, json.loads(record.read_text(encoding="utf-8"))["identity"])

    def sweep(self) -> None:
        """Remove what an interrupted run left half-written. Call only while holding the run's lock."""
        shutil.rmtree(self.root / "tmp", ignore_errors=True)

    @staticmethod
    def _seal(folder: Path, stage: str, identity: object) -> None:
        files = {p.relative_to(folder).as_posix(): _digest(p) for p in sorted(folder.rglob("*")) if p.is_file()}
        record = {"stage": stage, "identity": canonical(identity), "files": files}
        (folder / RECORD).write_text(json.dumps(record, indent=1, ensure_ascii=True), encoding="utf-8")
        sync_folder(folder)

    @staticmethod
    def _rename(temporary: Path, target: Path) -> None:
        try:
            temporary.rename(target)
        except OSError:
            if damage(target) is not None:
                raise
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def damage(folder: Path) -> str | None:
    """What is wrong with an entry, or ``None``: a missing or altered file, an unreadable record."""
    try:
        files: dict[str, str] = json.loads((folder / RECORD).read_text(encoding="utf-8"))["files"]
        for name, digest in files.items():
            if _digest(folder / name) != digest:
                return f"{name} does not match its checksum"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
