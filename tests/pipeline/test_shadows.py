"""Shadow releases and canaries in a whole run: how many are trained, shared, extended, and what a failure says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeval.arrays import load_arrays
from dpeval.config import read_matrix
from dpeval.materials import load_materials
from dpeval.matrix import plan
from dpeval.planning import render_plan
from dpeval.results import RunResult, Status
from dpeval.run import Run, run
from dpeval.shadows import CONTROL_SHADOWS
from dpeval.tiny import tiny_checkpoint

Matrix = Callable[..., Path]
Essence = Callable[[RunResult], dict[str, Any]]
EVERYTHING = """
name = "everything"
seeds = [0, 1]
[canaries]
count = 30
[data]
source = "synthetic:reviews?n=80"
text = "text"
label = "label"
[model]
source = "{model}"
max_length = 24
[[defense]]
use = "none"
epochs = 1
[[attack]]
use = "mia-threshold"
name = "as published"
protocol = "published"
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
[[attack]]
use = "extract-canary"
"""
TARGETS, CONTROLS = 2, 2


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """The matrix with every attack of this kind, with so many shadows."""
    folder = tmp_path_factory.mktemp("everything")
    (folder / "model").mkdir()
    tiny_checkpoint(folder / "model")

    def write(n: int) -> Path:
        path = folder / f"shadows{n}.toml"
        path.write_text(EVERYTHING.format(model=folder / "model", n=n), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def done(everything: Callable[[int], Path]) -> Run:
    """One run with four shadows."""
    path = everything(4)
    return run(path, out=path.parent / "out")


def releases(out: Path) -> set[str]:
    return {folder.name for folder in (out / "store" / "release").iterdir()}


def raw_scores(out: Path) -> dict[str, bytes]:
    folders = sorted((out / "store" / "attack").iterdir())
    return {f.name: b"".join(a.tobytes() for _, a in sorted(load_arrays(f).items())) for f in folders}


@pytest.mark.slow
def test_workers_and_order_change_no_bit(
    done: Run, everything: Callable[[int], Path], tmp_path: Path, essence: Essence
) -> None:
    parallel = run(everything(4), out=tmp_path / "two", jobs=2)
    assert raw_scores(parallel.out) == raw_scores(done.out)
    assert essence(parallel.result) == essence(done.result)


def test_four_shadows_cost_four_trainings_for_all_attacks_and_seeds(done: Run) -> None:
    assert len(releases(done.out)) == TARGETS + CONTROLS + 4 + CONTROLS * CONTROL_SHADOWS
    assert Status.FAILED not in {cell.status for cell in done.result.cells}
    assert set(done.result.provenance.trials.values()) == {TARGETS}, "shadows are no tuning trials"


def test_canaries_count_neither_as_members_nor_in_utility(done: Run) -> None:
    cells = {cell.attack: cell for cell in done.result.cells}
    found = cells["extract-canary"].measures
    assert {"exposure_median", "exposure_max", "ranked_first", "epsilon_one_run"} <= set(found)
    assert found["auc"].n == 30  # type: ignore[union-attr]
    roles = done.result.data[0].roles
    assert abs(cells["mia-lira"].measures["auc"].n - roles["members"] - roles["non-members"]) < 5  # type: ignore[union-attr]
    assert abs(done.result.defenses[0].utility.n - roles["test"]) < 5  # type: ignore[union-attr]
    assert [note.count for note in done.result.data[0].notes if "canaries" in note.what] == [30]


def test_a_published_protocol_stands_beside_its_sound_version_and_draws_no_conclusion(done: Run) -> None:
    found = {cell.attack: cell for cell in done.result.cells}
    assert found["as published"].status is Status.INVALID
    assert "perturbed after the split" in found["as published"].reason
    assert found["as published (sound version)"].status is not Status.INVALID
    assert {b.data for b in done.result.blind} == {
        "synthetic:reviews?n=80",
        "synthetic:reviews?n=80 (perturbed non-members)",
        "synthetic:reviews?n=80 (canaries)",
    }


def test_more_shadows_extend_those_that_are_there(done: Run, everything: Callable[[int], Path]) -> None:
    before = releases(done.out)
    more = run(everything(6), out=done.out)
    assert before < releases(more.out)
    assert len(releases(more.out)) == len(before) + 2
    again = run(everything(6), out=done.out, only_cached=True)
    assert releases(again.out) == releases(more.out)
    assert Status.FAILED not in {cell.status for cell in again.result.cells}


def test_the_plan_counts_the_shadows_and_a_smoke_run_has_few(everything: Callable[[int], Path], tmp_path: Path) -> None:
    total = TARGETS + CONTROLS + 16 + CONTROLS * CONTROL_SHADOWS
    assert f"of them {total} trainings (24 of them shadow releases" in render_plan(everything(16), tmp_path / "out")
    assert "(12 of them shadow releases" in render_plan(everything(16), tmp_path / "out", limit=60)


def test_without_canaries_the_attack_is_unfit_and_says_what_to_write(matrix: Matrix, tmp_path: Path) -> None:
    said = render_plan(matrix(attacks='[[attack]]\nuse = "extract-canary"\n'), tmp_path / "out")
    assert "unfit: no canaries are planted; write a table [canaries] with count = 200" in said


MOODY = '''
"""A defense that cannot be trained on certain records."""
from dataclasses import dataclass
from typing import ClassVar
from dpeval.plugin import Defense
from dpeval.controls import UntrainedControl

@dataclass(frozen=True, kw_only=True)
class Moody(Defense):
    """Works for the target."""
    source: ClassVar[str] = "a test"
    def train(self, task, ctx):
        if task.train.ids == {refused}:
            raise RuntimeError("not these records")
        return UntrainedControl().train(task, ctx)
'''


def test_a_shadow_that_fails_fails_the_attacks_that_need_it_with_its_message(matrix: Matrix, tmp_path: Path) -> None:
    def with_moody(name: str, refused: tuple[str, ...]) -> Path:
        (tmp_path / f"{name}.py").write_text(MOODY.format(refused=refused), encoding="utf-8")
        attack = '[[attack]]\nuse = "mia-lira"\nshadows = 2\n'
        defense = '[[defense]]\nuse = "moody"\n'
        return matrix(f"{name}.toml", top=f'plugins = ["{name}.py"]', defenses=defense, attacks=attack)

    experiment = read_matrix(with_moody("calm", ()))
    second = plan(experiment, load_materials(experiment)).shadows[1]
    done = run(with_moody("moody", second.split.trained.ids), out=tmp_path / "out")
    found = {cell.attack: cell for cell in done.result.cells}
    assert found["mia-lira"].status is Status.FAILED
    assert "shadow release 2 failed: RuntimeError: not these records" in found["mia-lira"].reason
    assert found["mia-threshold"].status is not Status.FAILED
    assert done.exit_code == 1
