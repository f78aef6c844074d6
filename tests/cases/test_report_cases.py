"""Known bugs of other reports, each with the input that showed it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from dpeval.errors import StoreError
from dpeval.files import write_text
from dpeval.report import dump, load, render_markdown, render_table
from dpeval.report.best import largest_table
from dpeval.report.table import Table
from dpeval.results import CellResult, Status
from dpeval.types import Estimate, Undefined


def test_e01_pipes_line_breaks_and_backslashes(case_file, read_tables):
    """E01: a parser sees the rows and cells that went in, and every name reads back."""
    case = json.loads(case_file("e01_rows.json").read_text(encoding="utf-8"))
    rows = tuple(tuple(str(value) for value in row) for row in case["rows"])
    table = Table(tuple(case["columns"]), rows, numeric=(3,))
    assert read_tables(table.markdown()) == [[case["columns"], *map(list, rows)]]


def test_e01_whole_report_with_such_names(case_file, read_tables, sample_run):
    """E01: the same names as defenses, data sets and notes of a whole report."""
    case = json.loads(case_file("e01_rows.json").read_text(encoding="utf-8"))
    run = sample_run.build()
    for name, model, note, _ in case["rows"]:
        defense = dataclasses.replace(
            run.defenses[0], label=name, model=model, reason=note, source=note, warnings=(note,)
        )
        cell = dataclasses.replace(
            run.cells[0], defense=name, model=model, reading=note, warnings=(note,), exposed=(name, note)
        )
        tables = read_tables(render_markdown(dataclasses.replace(run, note=note, defenses=(defense,), cells=(cell,))))
        matrix = next(t for t in tables if "peak memory" in t[0])
        assert [row[0] for row in matrix[1:]] == ["(random guess)", name]
        assert all(len(row) == len(table[0]) for table in tables for row in table)


def test_d20_the_best_attack_is_found_for_each_measure_alone(case_file):
    """D20: the best AUC is that of one attack, the best advantage that of another."""
    case = json.loads(case_file("d20_attacks.json").read_text(encoding="utf-8"))
    cells = [attack_cell(a["name"], a["auc"], a["advantage"]) for a in case["attacks"]]
    best = {row[0]: row[1:3] for row in largest_table(cells).rows}
    assert best["auc"] == ("0.70 [0.69, 0.71]", "entropy threshold")
    assert best["advantage"] == ("0.30 [0.29, 0.31]", "loss threshold")


def attack_cell(name: str, auc: float, advantage: float) -> CellResult:
    measures = {
        "auc": Estimate(auc, auc - 0.01, auc + 0.01, n=9),
        "advantage": Estimate(advantage, advantage - 0.01, advantage + 0.01, n=9),
    }
    return CellResult(defense="none", attack=name, goal="membership", tap=None, data="d", model="m", status=Status.OK,
                      measures=measures, headline="auc", null=0.5)  # fmt: skip


def test_d20_void_cells_take_no_part():
    """D20: the largest number of an attack that means nothing is not the best."""
    cells = [
        attack_cell("a", 0.6, 0.1),
        attack_cell("b", 0.7, 0.2),
        dataclasses.replace(attack_cell("c", 0.9, 0.9), status=Status.INVALID),
    ]
    assert [row[2] for row in largest_table(cells).rows] == ["b", "b"]


def test_d01_one_class_is_undefined_in_the_report_and_null_in_json(sample_run):
    """D01: never 0, 0.5 or 1, and the other cells are reported as ever."""
    run = sample_run.build()
    cells = (dataclasses.replace(run.cells[0], measures={"auc": Undefined("one class")}), *run.cells[1:])
    changed = dataclasses.replace(run, cells=cells)
    assert "undefined (one class)" in render_table(changed)
    assert dump(changed)["cells"][0]["measures"]["auc"] == {"value": None, "undefined": "one class"}
    assert load(dump(changed)) == changed
    assert "0.81 [0.78, 0.84] *" in render_table(changed)


SCRIPT = """
import runpy, sys
from pathlib import Path
from dpeval.files import write_json, write_text
from dpeval.report import dump, for_console, render_markdown, render_table
run = runpy.run_path(sys.argv[1])["build"]()
write_text(Path(sys.argv[2]) / "report.md", render_markdown(run))
write_json(Path(sys.argv[2]) / "run.json", dump(run))
sys.stdout.write(for_console(render_table(run), sys.stdout.encoding))
"""


def test_e03_files_are_utf8_under_any_locale(tmp_path, sample_run, request):
    """E03: emoji, accents and ε are written as UTF-8 in the C locale, and the console loses signs, not the run."""
    sample = request.config.rootpath / "tests" / "golden" / "sample_run.py"
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", SCRIPT, sample, tmp_path], env=plain, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "report.md").read_bytes().decode("utf-8") == render_markdown(sample_run.build())
    assert load(json.loads((tmp_path / "run.json").read_bytes().decode("utf-8"))) == sample_run.build()
    assert b"eps >= 1.70" in done.stdout


FULL = """
import resource, signal, sys
from pathlib import Path
from dpeval.errors import StoreError
from dpeval.files import write_text
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    write_text(Path(sys.argv[1]), "x" * 100_000)
except StoreError as error:
    sys.exit(str(error))
"""


def test_e05_a_full_disk_leaves_the_earlier_report(tmp_path):
    """E05: non-zero exit, a message with the path, the earlier file unchanged, and nothing half-written."""
    report = tmp_path / "report.md"
    write_text(report, "earlier")
    done = subprocess.run([sys.executable, "-c", FULL, report], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert str(report) in done.stderr
    assert report.read_text(encoding="utf-8") == "earlier"
    assert [p.name for p in tmp_path.iterdir()] == ["report.md"]


def test_e05_a_folder_that_cannot_be_written_is_named(tmp_path):
    """E05: the error says which path."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match=r"cannot write .*file/report\.md"):
        write_text(tmp_path / "file" / "report.md", "x")
