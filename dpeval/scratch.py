"""A folder for each training that outlives an interruption: a killed run finds its checkpoints there.

It is named by the release's key, so nothing but the same training ever reads it, and goes when the release is stored.

>>> import tempfile
>>> root = Path(tempfile.mkdtemp())
>>> with scratch_folder(root, "k") as mine, scratch_folder(root, "k") as second:
...     print(mine == root / "scratch" / "k", second)
True None
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

FOLDER = "scratch"


@contextmanager
def scratch_folder(store: Path, key: str) -> Iterator[Path | None]:
    """The scratch folder of the training ``key``; ``None`` while another process is at the same training."""
    folder = store / FOLDER / key
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield None
        return
    try:
        yield folder
    finally:
        lock.release()


def remove_scratch(store: Path, key: str) -> None:
    """Drop the scratch folder of a finished training."""
    shutil.rmtree(store / FOLDER / key, ignore_errors=True)
