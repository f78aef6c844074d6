"""Killed at any moment and run again: nothing finished is redone, nothing is corrupt, one run at a time in a folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeval.config import Experiment
from dpeval.errors import StoreError
from dpeval.materials import Materials, load_materials
from dpeval.results import RunResult
from dpeval.run import locked, run

Matrix = Callable[..., Path]


def entries(out: Path) -> dict[str, int]:
    """Every finished entry with the time it was made."""
    found = (p for p in (out / "store").glob("*/*/entry.json") if p.parts[-3] != "tmp")
    return {str(p.parent.relative_to(out)): p.stat().st_mtime_ns for p in found}


HEARS = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("dpeval", run_name="__main__", alter_sys=True)
"""


def start(*words: object) -> subprocess.Popen[bytes]:
    """A run of its own, which hears an interrupt even where the tests run behind a shell that has it ignored."""
    return subprocess.Popen(
        [sys.executable, "-c", HEARS, *map(str, words)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def children(pid: int) -> list[int]:
    """The processes that ``pid`` started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def left_of(pids: list[int], seconds: float = 30.0) -> list[int]:
    """Those that are still there after a while."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts processes in /proc")
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_and_run_again_gives_the_same_result_and_redoes_nothing(
    matrix: Matrix, tmp_path: Path, workers: int, essence: Callable[[RunResult], dict[str, Any]]
) -> None:
    file, out = matrix(), tmp_path / "killed"
    process = start("run", file, "--out", out, "--jobs", workers)
    deadline = time.monotonic() + 120
    while len(entries(out)) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    started = children(process.pid)
    assert len(started) >= (workers if workers > 1 else 0)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not left_of(started), "a killed run left processes behind"
    finished = entries(out)
    assert finished, "the run was killed before anything was finished"
    assert not (out / "run.json").exists(), "the run had ended before it was killed"
    done = run(file, out=out)
    after = entries(out)
    assert all(after[key] == made for key, made in finished.items()), "finished work was redone"
    assert essence(done.result) == essence(run(file, out=tmp_path / "whole").result)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts processes in /proc")
def test_interrupted_it_ends_with_130_at_once_and_keeps_what_was_finished(matrix: Matrix, tmp_path: Path) -> None:
    """The signal reaches the main process alone, as from a supervisor: workers are ended, not waited for."""
    slow = '[[defense]]\nuse = "none"\nepochs = [1, 4000]\n'
    file, out = matrix(defenses=slow), tmp_path / "out"
    process = start("run", file, "--out", out, "--jobs", 2)
    deadline = time.monotonic() + 120
    while len(entries(out)) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    started = children(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert not left_of(started), "an interrupted run left processes behind"
    assert len(entries(out)) >= 2


def test_the_report_holds_the_matrix_that_was_run_and_not_what_its_file_says_later(
    matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = matrix()
    before = file.read_text()

    def edited(experiment: Experiment) -> Materials:
        file.write_text(before + "# edited while the run works\n")
        return load_materials(experiment)

    monkeypatch.setattr("dpeval.run.load_materials", edited)
    done = run(file, out=tmp_path / "out")
    assert done.result.provenance.matrix_text == before
    assert (tmp_path / "out" / "matrix.toml").read_text() == before


def test_the_same_command_again_makes_nothing_new(matrix: Matrix, tmp_path: Path) -> None:
    file, out = matrix(), tmp_path / "out"
    run(file, out=out)
    before = entries(out)
    run(file, out=out)
    assert entries(out) == before


def test_more_seeds_extend_a_run(matrix: Matrix, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(matrix(), out=out)
    before = entries(out)
    text = matrix().read_text().replace("seeds = [0, 1]", "seeds = [0, 1, 2]")
    matrix().write_text(text)
    done = run(tmp_path / "m.toml", out=out)
    after = entries(out)
    assert all(after[k] == v for k, v in before.items())
    assert len(after) > len(before)
    assert done.result.cells[0].measures["auc"].models == 3


def test_a_damaged_entry_is_made_again_and_said(
    matrix: Matrix, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, out = matrix(), tmp_path / "out"
    first = run(file, out=out)
    victim = next((out / "store" / "attack").iterdir()) / "arrays.npz"
    victim.write_bytes(victim.read_bytes()[:-10])
    second = run(file, out=out)
    assert "damaged result" in caplog.text
    assert second.result.cells[0].measures == first.result.cells[0].measures


def test_a_second_run_in_the_same_folder_is_told_so(matrix: Matrix, tmp_path: Path) -> None:
    """Case BC-E07; the lock ends with its process, so a crash does not block."""
    out = tmp_path / "out"
    out.mkdir()
    with locked(out), pytest.raises(StoreError, match="another run is working in"):
        run(matrix(), out=out)
    run(matrix(), out=out)


def test_fresh_forgets_and_only_cached_adds_nothing(matrix: Matrix, tmp_path: Path) -> None:
    file, out = matrix(), tmp_path / "out"
    done = run(file, out=out, only_cached=True)
    assert done.exit_code == 1
    assert "not in the store" in done.result.defenses[0].reason
    run(file, out=out)
    before = entries(out)
    assert run(file, out=out, only_cached=True).exit_code == 0
    run(file, out=out, fresh=True)
    assert all(entries(out)[k] > v for k, v in before.items())


def test_the_ledger_counts_every_distinct_training(matrix: Matrix, tmp_path: Path) -> None:
    """Guard V11: tuning on private data is counted, re-runs of the same training are not."""
    out = tmp_path / "out"
    name = "synthetic:reviews?n=120"
    assert run(matrix(), out=out).result.provenance.trials == {name: 2}
    assert run(matrix(), out=out).result.provenance.trials == {name: 2}
    tuned = '[[defense]]\nuse = "none"\nepochs = [1, 2]\n'
    assert run(matrix(defenses=tuned), out=out).result.provenance.trials == {name: 4}
    assert json.loads((out / "ledger.json").read_text())
