"""The store: whole entries or none, damage noticed, interrupted writes without trace."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from dpeval.errors import StoreError
from dpeval.store import RECORD, Store


def fill(folder: Path) -> None:
    (folder / "a.bin").write_bytes(b"x" * 1000)
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_text("deep", encoding="utf-8")


def test_an_entry_is_found_by_its_identity_and_by_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("train", {"seed": 1, "fields": {"b": 2, "a": 1}}, fill)
    assert store.get("train", {"fields": {"a": 1, "b": 2}, "seed": 1}) is not None
    assert store.get("train", {"fields": {"a": 1, "b": 2}, "seed": 2}) is None
    assert store.get("embed", {"fields": {"a": 1, "b": 2}, "seed": 1}) is None


@pytest.mark.parametrize("name", ["a.bin", "sub/b.txt", RECORD])
def test_a_damaged_entry_is_said_removed_and_made_again(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path)
    entry = store.put("train", {"x": 1}, fill)
    with entry.file(name).open("r+b") as file:
        file.write(b"\x00garbage")
    assert store.get("train", {"x": 1}) is None
    assert "damaged" in caplog.text
    assert str(entry.folder) in caplog.text
    assert store.put("train", {"x": 1}, fill).file("sub/b.txt").read_text(encoding="utf-8") == "deep"


def test_a_missing_file_is_damage(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("train", {"x": 1}, fill).file("a.bin").unlink()
    assert store.get("train", {"x": 1}) is None


def test_a_writer_that_raises_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def broken(folder: Path) -> None:
        fill(folder)
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        store.put("train", {"x": 1}, broken)
    assert store.get("train", {"x": 1}) is None
    assert not list((tmp_path / "tmp").iterdir())


def test_a_full_disk_is_an_error_that_names_the_path(tmp_path: Path) -> None:
    def no_space(folder: Path) -> None:
        raise OSError(28, "No space left on device", str(folder))

    with pytest.raises(StoreError, match=r"cannot write .*train.*No space left"):
        Store(tmp_path).put("train", {"x": 1}, no_space)


def test_the_first_of_two_equal_entries_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = store.put("train", {"x": 1}, lambda f: (f / "v").write_text("1") and None)
    second = store.put("train", {"x": 1}, lambda f: (f / "v").write_text("2") and None)
    assert first.folder == second.folder
    assert second.file("v").read_text() == "1"


def _write_slowly(root: str) -> None:
    def slow(folder: Path) -> None:
        for i in range(1000):
            (folder / f"{i}").write_bytes(os.urandom(100))
            time.sleep(0.005)

    Store(Path(root)).put("train", {"x": 1}, slow)


def test_a_writer_killed_in_the_middle_leaves_no_entry_and_the_next_run_sweeps_up(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_write_slowly, args=(str(tmp_path),))
    process.start()
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("tmp/*/5")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    store = Store(tmp_path)
    assert list(tmp_path.glob("tmp/*")), "the writer was killed before it began"
    assert store.get("train", {"x": 1}) is None
    store.sweep()
    assert not (tmp_path / "tmp").exists()


def test_an_entry_keeps_its_identity_in_words(tmp_path: Path) -> None:
    entry = Store(tmp_path).put("train", {"defense": {"epsilon": 3.0}}, fill)
    assert json.loads((entry.folder / RECORD).read_text())["identity"] == {"defense": {"epsilon": 3.0}}
    assert [e.identity for e in Store(tmp_path).entries("train")] == [{"defense": {"epsilon": 3.0}}]
