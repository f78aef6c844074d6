"""The position-by-ε tables and their figure data: every number where it belongs, words where there is none."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

import pytest

from dpeval.report.example import tiny_run
from dpeval.report.positions import CLEAR, figure_data, render_positions, section, sweeps, table_of, write_positions
from dpeval.results import Status
from dpeval.types import Estimate, Undefined


def estimate(value):
    return Estimate(value, value - 0.05, value + 0.05, n=100)


def swept(extra=(), positions=("embedding", "output"), epsilons=(16.0, 4.0)):
    """A run of one undefended model and a sweep: accuracy is 0.5 + ε/100, leakage 0.9 at the embedding."""
    base = tiny_run()
    plain, cell = base.defenses[0], base.cells[0]
    defenses, cells = [plain], [dataclasses.replace(cell, tap=p, attack="invert", goal="inversion") for p in positions]
    for position in positions:
        for epsilon in epsilons:
            label = f"dp-forward {position} {epsilon}"
            settings = {"position": position, "epsilon": epsilon, **dict(extra)}
            value = estimate(0.5 + epsilon / 100)
            defenses.append(dataclasses.replace(plain, label=label, use="dp-forward", settings=settings, utility=value))
            leak = {cell.headline: estimate(0.9 if position == "embedding" else 0.6)}
            cells.append(
                dataclasses.replace(cell, defense=label, tap=position, attack="invert", goal="inversion", measures=leak)
            )
    return dataclasses.replace(base, defenses=tuple(defenses), cells=tuple(cells))


def test_rows_are_positions_and_columns_are_epsilons_with_no_noise_last():
    (sweep,) = sweeps(swept())
    assert (sweep.positions, sweep.epsilons) == (("embedding", "output"), (4.0, 16.0, CLEAR))
    table = table_of(sweep, "accuracy (test)")
    assert table.headers == ("position", "ε = 4", "ε = 16", "no noise")
    assert [row[0] for row in table.rows] == ["embedding", "output"]
    assert table.rows[0][1].startswith("0.54")
    assert table.rows[1][2].startswith("0.66")
    leak = table_of(sweep, sweep.measures[1])
    assert [row[1][:3] for row in leak.rows] == ["0.9", "0.6"]


def test_a_cell_without_a_number_shows_its_word_and_is_no_figure_data():
    run = swept()
    broken = dataclasses.replace(run.cells[-1], status=Status.NOT_VALIDATED)
    unknown = dataclasses.replace(run.defenses[1], utility=Undefined("too few"))
    run = dataclasses.replace(
        run, cells=(*run.cells[:-1], broken), defenses=(run.defenses[0], unknown, *run.defenses[2:])
    )
    (sweep,) = sweeps(run)
    assert "not validated" in {text for row in table_of(sweep, sweep.measures[1]).rows for text in row}
    assert len(figure_data(run)) == len(figure_data(swept())) - 2


def test_csv_json_and_plot_hold_the_same_points(tmp_path):
    files = write_positions(swept(), tmp_path)
    rows = list(csv.DictReader(io.StringIO(files[0].read_text(encoding="utf-8"))))
    stored = json.loads(files[1].read_text(encoding="utf-8"))
    assert [float(r["value"]) for r in rows] == [r["value"] for r in stored]
    assert {(r["position"], r["epsilon"]) for r in rows} == {
        (p, e) for p in ("embedding", "output") for e in ("4.0", "16.0", "inf")
    }
    assert files[2].read_text(encoding="utf-8").lstrip().startswith("<?xml")
    again = write_positions(swept(), tmp_path)
    assert again == files
    assert render_positions(swept()) == files[0].read_text(encoding="utf-8")


@pytest.mark.parametrize("run", [tiny_run(), swept(positions=("output",))])
def test_a_run_at_one_position_has_no_such_section(run, tmp_path):
    assert section(run) == []
    assert write_positions(run, tmp_path) == ()
    assert list(tmp_path.iterdir()) == []


def test_kinds_of_one_defense_are_kept_apart_by_what_they_differ_in():
    one, two = swept(extra={"training": "frozen"}), swept(extra={"training": "trained"})
    renamed = [dataclasses.replace(d, label=f"{d.label} b") for d in two.defenses[1:]]
    both = dataclasses.replace(one, defenses=(*one.defenses, *renamed))
    assert [s.use for s in sweeps(both)] == ["dp-forward, training = frozen", "dp-forward, training = trained"]
