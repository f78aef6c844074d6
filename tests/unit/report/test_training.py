"""The section on private training: shown where steps were logged, marked as not private, and nowhere else."""

from __future__ import annotations

import dataclasses

from dpeval.report import render_markdown
from dpeval.report.example import tiny_run
from dpeval.report.training import section

LOGGED = {
    "steps": 12.0, "effective noise multiplier": 41.6, "signal to noise": 0.03125, "mean gradient norm": 2.5,
    "share clipped": 0.875, "records drawn per step": 31.4,
}  # fmt: skip


def test_figures_stand_in_one_table_beside_the_warning(read_tables) -> None:
    run = tiny_run()
    run = dataclasses.replace(
        run, defenses=(dataclasses.replace(run.defenses[0], diagnostics=LOGGED), *run.defenses[1:])
    )
    text = render_markdown(run)
    (table,) = [t for t in read_tables(text) if "Signal/noise" in t[0]]
    row = dict(zip(table[0], table[1], strict=True))
    assert (row["Steps"], row["σ_eff = σ/q"], row["Signal/noise"], row["Clipped"]) == ("12", "41.6", "0.0312", "0.875")
    assert "first third" not in row
    assert "**Not private**" in text
    assert "Diagnostics: steps" not in text


def test_other_diagnostics_make_no_section() -> None:
    run = tiny_run()
    other = dataclasses.replace(run.defenses[0], diagnostics={"loss": 0.5})
    assert section(dataclasses.replace(run, defenses=(other,))) == []
    assert "Diagnostics: loss = 0.5" in render_markdown(dataclasses.replace(run, defenses=(other,)))
