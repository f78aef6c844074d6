"""Shadow releases and canaries in a whole run: how many are trained, shared, extended, and what a failure says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeval.arrays import load_arrays
from dpeval.planning import render_plan
from dpeval.results import RunResult, Status
from dpeval.run import Run, run
from dpeval.shadows import CONTROL_SHADOWS

Matrix = Callable[..., Path]
Essence = Callable[[RunResult], dict[str, Any]]
SHADOWED = """
[[attack]]
use = "mia-lira"
shadows = {n}
[[attack]]
use = "mia-rmia"
shadows = {n}
mode = ["online", "offline"]
[[attack]]
use = "mia-learned"
shadows = {n}
"""
CANARIES = '[canaries]\ncount = 40\n[[attack]]\nuse = "extract-canary"\n'
TARGETS, CONTROLS = 2, 2


def releases(done: Run) -> set[str]:
    return {folder.name for folder in (done.out / "store" / "release").iterdir()}


def raw_scores(done: Run) -> dict[str, bytes]:
    folders = sorted((done.out / "store" / "attack").iterdir())
    return {f.name: b"".join(a.tobytes() for _, a in sorted(load_arrays(f).items())) for f in folders}


def statuses(done: Run) -> dict[str, Status]:
    return {cell.attack: cell.status for cell in done.result.cells}


def test_six_shadows_cost_six_trainings_for_all_attacks_and_seeds_and_more_extend_them(
    matrix: Matrix, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    plain = releases(run(matrix(), out=out))
    assert len(plain) == TARGETS + CONTROLS
    four = releases(run(matrix(attacks=SHADOWED.format(n=4)), out=out))
    assert len(four) == len(plain) + 4 + CONTROLS * CONTROL_SHADOWS
    done = run(matrix(attacks=SHADOWED.format(n=6)), out=out)
    assert plain < four < releases(done)
    assert len(releases(done)) == len(four) + 2
    again = run(matrix(attacks=SHADOWED.format(n=6)), out=out, only_cached=True)
    assert releases(again) == releases(done)
    assert Status.FAILED not in statuses(again).values()
    assert done.result.provenance.trials == again.result.provenance.trials
    assert set(done.result.provenance.trials.values()) == {TARGETS}


def test_workers_and_order_change_no_bit(matrix: Matrix, tmp_path: Path, essence: Essence) -> None:
    attacks = CANARIES + SHADOWED.format(n=4)
    serial = run(matrix(attacks=attacks), out=tmp_path / "one")
    parallel = run(matrix(attacks=attacks), out=tmp_path / "two", jobs=2)
    assert raw_scores(parallel) == raw_scores(serial)
    assert essence(parallel.result) == essence(serial.result)
    assert serial.result.comparisons >= 6


def test_the_plan_counts_the_shadows_and_a_smoke_run_has_few(matrix: Matrix, tmp_path: Path) -> None:
    path = matrix(attacks=SHADOWED.format(n=16))
    total = TARGETS + CONTROLS + 16 + CONTROLS * CONTROL_SHADOWS
    assert f"of them {total} trainings (24 of them shadow releases" in render_plan(path, tmp_path / "out")
    smoke = render_plan(path, tmp_path / "out", limit=80)
    assert "(12 of them shadow releases" in smoke


def test_canaries_are_measured_apart_and_change_the_identity_of_the_release(matrix: Matrix, tmp_path: Path) -> None:
    without = run(matrix(attacks='[[attack]]\nuse = "extract-canary"\n'), out=tmp_path / "out")
    cell = next(c for c in without.result.cells if c.goal == "extraction")
    assert cell.status is Status.UNFIT
    assert "[canaries]" in cell.reason
    done = run(matrix(attacks=CANARIES), out=tmp_path / "out")
    assert len(releases(done)) > len(releases(without)) - 1
    cells = {c.goal: c for c in done.result.cells}
    assert {"exposure_median", "exposure_max", "ranked_first", "epsilon_one_run"} <= set(cells["extraction"].measures)
    members = next(c for c in without.result.cells if c.goal == "membership").measures["auc"]
    assert cells["membership"].measures["auc"].n == members.n  # type: ignore[union-attr]
    assert [d.utility.n for d in done.result.defenses] == [d.utility.n for d in without.result.defenses]  # type: ignore[union-attr]
    assert any("canaries" in note.what for note in done.result.data[0].notes)


def test_a_published_protocol_stands_beside_its_sound_version_and_draws_no_conclusion(
    matrix: Matrix, tmp_path: Path
) -> None:
    attack = '[[attack]]\nuse = "mia-threshold"\nname = "as published"\nsignal = "entropy"\nprotocol = "published"\n'
    done = run(matrix(source="synthetic:reviews?n=400", attacks=attack), out=tmp_path / "out")
    found = {cell.attack: cell for cell in done.result.cells}
    assert "as published (sound version)" in found
    assert found["as published"].status is Status.INVALID
    assert "perturbed after the split" in found["as published"].reason
    assert found["as published (sound version)"].status is not Status.INVALID
    assert {b.data for b in done.result.blind if b.invalid} == {"synthetic:reviews?n=400 (perturbed non-members)"}


FAILING = '''
"""A defense that cannot be trained on the records of the fourth shadow."""
from dataclasses import dataclass
from typing import ClassVar
from dpeval.plugin import Defense
from dpeval.controls import UntrainedControl

@dataclass(frozen=True, kw_only=True)
class Moody(Defense):
    """Works for the target."""
    source: ClassVar[str] = "a test"
    def train(self, task, ctx):
        if {which}:
            raise RuntimeError("not these records")
        return UntrainedControl().train(task, ctx)
'''


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_shadow_that_fails_fails_the_attacks_that_need_it_with_its_message(
    matrix: Matrix, tmp_path: Path, jobs: int
) -> None:
    plugin = tmp_path / "moody.py"
    plugin.write_text(FAILING.format(which="sum(map(len, task.train.ids)) % 2"), encoding="utf-8")
    path = matrix(
        top=f'plugins = ["{plugin}"]',
        defenses='[[defense]]\nuse = "moody"\n',
        attacks=SHADOWED.format(n=16),
    )
    done = run(path, out=tmp_path / "out", jobs=jobs)
    release_failed = any(d.status is Status.FAILED for d in done.result.defenses)
    lira = next(c for c in done.result.cells if c.attack == "mia-lira")
    assert lira.status is Status.FAILED
    assert "not these records" in lira.reason
    assert release_failed or "shadow release" in lira.reason
    assert done.exit_code == 1
