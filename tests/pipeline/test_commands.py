"""The commands beside ``run``: what they say, and what they must not do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dpeval.cli import status_of
from dpeval.run import run

Matrix = Callable[..., Path]


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """Exit status and everything printed."""
    capsys.readouterr()
    status = status_of([str(w) for w in words])
    out = capsys.readouterr()
    return status, out.out + out.err


def test_plan_shows_cells_cache_and_misfits_and_trains_nothing(
    matrix: Matrix, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    file = matrix(attacks='[[attack]]\nuse = "invert-nearest"\n')
    status, text = said(capsys, "plan", file, "--out", out)
    assert status == 0
    assert "0 of 2 seeds cached" in text
    assert "unfit: one pooled row" in text
    assert "seeds as understood: 0, 1" in text
    assert not (out / "store" / "release").exists()
    run(file, out=out)
    status, text = said(capsys, "plan", file, "--out", out)
    assert "2 of 2 seeds cached" in text
    assert " 0 to do" in text


def test_explain_says_what_changed(matrix: Matrix, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    run(matrix(), out=out)
    status, text = said(capsys, "explain", out, "mia-threshold")
    assert status == 0
    assert "reused" in text
    assert "runs" not in text.replace("reruns", "")
    changed = matrix("changed.toml", defenses='[[defense]]\nuse = "none"\nepochs = 2\n')
    status, text = said(capsys, "explain", out, "training", "--matrix", changed)
    assert "defense.fields.epochs: stored 1, now 2" in text
    status, text = said(capsys, "explain", out, "no such cell")
    assert status == 2


def test_report_renders_again_and_compares(matrix: Matrix, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = run(matrix(), out=tmp_path / "a")
    run(matrix(defenses='[[defense]]\nuse = "none"\nepochs = 2\n'), out=tmp_path / "b")
    status, text = said(capsys, "report", tmp_path / "a")
    assert (status, text.strip()) == (0, first.report.read_text(encoding="utf-8").strip())
    status, text = said(capsys, "report", tmp_path / "a", "--format", "json")
    assert json.loads(text)["schema"].startswith("dpeval/run/")
    status, text = said(capsys, "report", tmp_path / "a", tmp_path / "b")
    assert status == 0
    assert "|" in text
    status, text = said(capsys, "report", tmp_path / "a", "--format", "markdwon")
    assert status == 2
    assert "did you mean 'markdown'" in text
    status, text = said(capsys, "report", tmp_path / "nowhere")
    assert status == 2


def test_list_names_everything_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = said(capsys, "list")
    assert status == 0
    for name in (
        "none",
        "dp-adam",
        "dp-forward",
        "mia-threshold",
        "invert-nearest",
        "attribute-probe",
        "synthetic:NAME",
    ):
        assert name in text
    assert "2110.05679" in text


@pytest.mark.parametrize(
    ("words", "status"),
    [(["run", "absent.toml"], 2), (["rum"], 2), (["run"], 2), (["check", "no-such-plugin"], 2), (["list"], 0)],
)
def test_exit_statuses_of_usage(capsys: pytest.CaptureFixture[str], words: list[str], status: int) -> None:
    assert said(capsys, *words)[0] == status


def test_an_interrupt_exits_with_130_and_keeps_finished_work(
    matrix: Matrix, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import dpeval.work as work

    original, calls = work.run_job, []

    def interrupted(*args: object) -> object:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(work, "run_job", interrupted)
    status, text = said(capsys, "run", matrix(), "--out", tmp_path / "out")
    assert status == 130
    assert "finished work is kept" in text
    assert list((tmp_path / "out" / "store").glob("release/*/entry.json"))


def test_epsilon_from_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = said(capsys, "epsilon", "--help")
    assert status == 0
    assert "sampled" in text


def test_the_table_of_a_run_has_no_epsilon_column(matrix: Matrix, tmp_path: Path) -> None:
    """Guard V9: incomparable ε never share a column."""
    frame = run(matrix(), out=tmp_path / "out").table()
    assert {"defense", "attack", "measure", "value", "low", "high", "n"} <= set(frame.columns)
    assert not [c for c in frame.columns if "epsilon" in c.lower()]
