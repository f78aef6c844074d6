"""Results are the same to the bit whatever the number of workers and the order of cells, and differ between seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeval.arrays import load_arrays
from dpeval.results import RunResult
from dpeval.run import Run, run

Matrix = Callable[..., Path]
Essence = Callable[[RunResult], dict[str, Any]]
TWO = """
[[defense]]
use = "none"
epochs = 1
[[defense]]
use = "dp-forward"
position = "output"
epochs = 1
"""
TWO_REVERSED = """
[[defense]]
use = "dp-forward"
position = "output"
epochs = 1
[[defense]]
use = "none"
epochs = 1
"""


def raw_scores(done: Run) -> dict[str, bytes]:
    """Every stored attack, by its key."""
    folders = sorted((done.out / "store" / "attack").iterdir())
    return {f.name: b"".join(a.tobytes() for _, a in sorted(load_arrays(f).items())) for f in folders}


def test_one_two_and_four_workers_and_reversed_order_agree_to_the_bit(
    matrix: Matrix, tmp_path: Path, essence: Essence
) -> None:
    """Case BC-E17."""
    serial = run(matrix(defenses=TWO), out=tmp_path / "one")
    for workers in (2, 4):
        parallel = run(matrix(defenses=TWO), out=tmp_path / f"jobs{workers}", jobs=workers)
        assert raw_scores(parallel) == raw_scores(serial)
        assert essence(parallel.result) == essence(serial.result)
    turned = run(matrix("reversed.toml", defenses=TWO_REVERSED), out=tmp_path / "reversed")
    assert raw_scores(turned) == raw_scores(serial)
    one, other = ({c["defense"]: c for c in essence(r.result)["cells"]} for r in (serial, turned))
    assert one == other


def test_two_seeds_differ_in_split_and_result(matrix: Matrix, tmp_path: Path) -> None:
    done = run(matrix(), out=tmp_path / "out")
    folders = [load_arrays(f) for f in (done.out / "store" / "predict").iterdir()]
    ids = {tuple(a["ids"]) for a in folders}
    assert len(ids) == len(folders), "two seeds share a split"
    assert not any(np.array_equal(a["log_probs"], b["log_probs"]) for a in folders for b in folders if a is not b)


@pytest.mark.parametrize("change", ["epochs = 2", "learning_rate = 1e-3"])
def test_a_changed_setting_trains_again_and_only_that(matrix: Matrix, tmp_path: Path, change: str) -> None:
    out = tmp_path / "out"
    run(matrix(), out=out)
    before = {p.name for p in (out / "store" / "release").iterdir()}
    run(matrix(defenses=f'[[defense]]\nuse = "none"\n{change}\n'), out=out)
    after = {p.name for p in (out / "store" / "release").iterdir()}
    assert before < after
    assert len(after - before) == 2, "one new training for each seed; the controls are reused"
