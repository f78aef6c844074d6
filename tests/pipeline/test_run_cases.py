"""Cases of kind E: runner and reporting, as a user meets them."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dpeval.errors import ConfigError
from dpeval.results import Status
from dpeval.run import run

Matrix = Callable[..., Path]
Dpeval = Callable[..., subprocess.CompletedProcess[str]]


def emoji_data(folder: Path) -> Path:
    path = folder / "emoji.csv"
    rows = [
        f"{'good' if i % 2 else 'bad'} film 😀 number {i},{'été' if i % 2 else 'hiver'},{'a|b' if i % 3 else 'c'}"
        for i in range(80)
    ]
    path.write_text("text,label,genre\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_e03_a_report_is_utf8_whatever_the_locale(matrix: Matrix, dpeval: Dpeval, tmp_path: Path) -> None:
    file = matrix(source=str(emoji_data(tmp_path)))
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = dpeval("run", file, "--out", tmp_path / "out", env=environment)
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "été" in report
    assert "Traceback" not in done.stderr


def test_e05_a_full_disk_is_an_error_and_leaves_the_earlier_report(
    matrix: Matrix, dpeval: Dpeval, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert dpeval("run", matrix(), "--out", out).returncode == 0
    earlier = {name: (out / name).read_bytes() for name in ("report.md", "run.json")}

    def no_large_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = dpeval(
        "run", matrix(defenses='[[defense]]\nuse = "none"\nepochs = 2\n'), "--out", out, preexec_fn=no_large_files
    )
    assert done.returncode != 0
    assert str(out) in done.stderr
    assert {name: (out / name).read_bytes() for name in earlier} == earlier
    assert not list(out.glob(".*.md*")), "a partial file is left"


@pytest.mark.parametrize("value", [None, "true", "false"])
def test_e09_tokenizers_and_workers_do_not_hang(
    matrix: Matrix, dpeval: Dpeval, tmp_path: Path, value: str | None
) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TOKENIZERS_PARALLELISM"}
    environment |= {} if value is None else {"TOKENIZERS_PARALLELISM": value}
    done = dpeval("run", matrix(), "--out", tmp_path / "out", "--jobs", 2, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("TOKENIZERS_PARALLELISM") <= 1


@pytest.mark.parametrize("offline", [True, False])
def test_e11_an_unknown_hub_name_fails_at_once_and_says_what_to_do(
    matrix: Matrix, dpeval: Dpeval, tmp_path: Path, offline: bool
) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"} | (
        {"HF_HUB_OFFLINE": "1"} if offline else {}
    )
    environment |= {"HF_ENDPOINT": "http://127.0.0.1:9"}  # nobody answers there
    for part in ({"source": "hub:nobody/no-such-data"}, {"model": "hub:nobody/no-such-model"}):
        begun = time.monotonic()
        done = dpeval("run", matrix(**part), "--out", tmp_path / "out", env=environment)
        assert done.returncode == 2
        assert next(iter(part.values())).removeprefix("hub:") in done.stderr
        assert "local" in done.stderr
        assert time.monotonic() - begun < 25, "ten seconds for the hub, the rest to import torch on a busy machine"


def test_e13_paths_that_work(matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for out in ("results.md", "new/deep/folder", "with blanks and é"):
        assert (run(matrix(), out=out, only_cached=True).out / "report.md").exists()


def test_e13_paths_that_are_refused_before_training(matrix: Matrix, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is a file; give a folder"):
        run(matrix(), out=tmp_path / "file.txt")
    with pytest.raises(ConfigError, match="cannot be written"):
        run(matrix(), out=Path("/proc/nothing/here"))
    assert (tmp_path / "file.txt").read_text() == "mine"


def test_e15_numbers_that_are_text_are_refused_by_key(matrix: Matrix) -> None:
    with pytest.raises(ConfigError, match=r"defense\[0\]\.learning_rate: expected a number, got '1e-5'"):
        run(matrix(defenses='[[defense]]\nuse = "none"\nlearning_rate = "1e-5"\n'))


def test_e20_one_failing_cell_fails_alone_and_is_all_that_runs_again(matrix: Matrix, tmp_path: Path) -> None:
    source = tmp_path / "late.csv"
    text = matrix().read_text()
    head, _, tail = text.partition("[data]")
    data, _, rest = tail.partition("[model]")
    middle = data.replace("synthetic:reviews?n=120", str(source))
    last = data.replace("n=120", "n=130")
    file = tmp_path / "three.toml"
    file.write_text(f"{head}[[data]]{data}[[data]]{middle}[[data]]{last}[model]{rest}", encoding="utf-8")
    out = tmp_path / "out"
    first = run(file, out=out)
    assert [c.status is Status.FAILED for c in first.result.cells] == [False, True, False]
    assert "late.csv" in first.result.cells[1].reason
    assert first.exit_code == 1
    assert first.result.status == "partial"
    made = {p: p.stat().st_mtime_ns for p in (out / "store").glob("*/*/entry.json")}
    emoji_data(tmp_path).rename(source)
    second = run(file, out=out)
    assert not any(c.status is Status.FAILED for c in second.result.cells)
    assert all(p.stat().st_mtime_ns == t for p, t in made.items())


def test_a_smoke_run_is_watermarked(matrix: Matrix, tmp_path: Path) -> None:
    """Guard V25."""
    done = run(matrix(), out=tmp_path / "out", limit=60)
    assert done.result.status == "smoke"
    assert "SMOKE" in done.report.read_text(encoding="utf-8").splitlines()[0]
