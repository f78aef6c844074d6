"""Killed in the middle of one training and run again: it goes on from its last checkpoint, to the same release."""

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

from dpeval.results import RunResult
from dpeval.run import run
from dpeval_defenses.dp_adam import PrivateTrainer

DEFENSE = """[[defense]]
use = "dp-adam"
noise_multiplier = 1.0
delta = 1e-5
steps = 24
batch_size = 16
micro_batch = 8
adapt = "last-1"
accountant = "rdp"
"""
EAGER = """
import sys
import dpeval
from dpeval_defenses.dp_adam import resume
resume._Pace.due = lambda self: True
dpeval.run(sys.argv[1], out=sys.argv[2], limit=60)
"""


def checkpoints(out: Path) -> list[Path]:
    """The checkpoints of trainings that are under way."""
    return sorted((out / "store" / "scratch").glob("*/dp-adam/state.json"))


def test_a_training_that_was_killed_goes_on_to_the_same_release(
    matrix: Callable[..., Path],
    tmp_path: Path,
    essence: Callable[[RunResult], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fewer steps than a whole training, the ε of all of them, the same scores; nothing is left in the scratch."""
    file, out = matrix(defenses=DEFENSE), tmp_path / "killed"
    words = [sys.executable, "-c", EAGER, str(file), str(out)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not checkpoints(out) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (checkpoint,) = checkpoints(out)
    done = len(json.loads(checkpoint.read_text(encoding="utf-8"))["log"])
    assert 0 < done < 24
    taken: list[int] = []
    step = PrivateTrainer.step
    monkeypatch.setattr(PrivateTrainer, "step", lambda self: (taken.append(self.steps_taken), step(self))[1])
    resumed = run(file, out=out, limit=60).result
    assert taken[0] >= done
    assert taken[: 24 - taken[0]] == list(range(taken[0], 24))
    unbroken = run(file, out=tmp_path / "unbroken", limit=60).result
    assert essence(resumed) == essence(unbroken)
    assert dict(resumed.defenses[0].claim.details)["steps"] == 24
    assert not list((out / "store" / "scratch").glob("*/*"))
