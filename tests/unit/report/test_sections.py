"""The parts after the summary: matrix, claims, detail, controls, provenance."""

from __future__ import annotations

import dataclasses

import pytest

from dpeval.errors import ConfigError
from dpeval.report import for_console, render_comparison, render_markdown, render_table, renderer
from dpeval.report.layout import blocks
from dpeval.report.matrix import matrix
from dpeval.report.table import Table
from dpeval.results import RunResult


@pytest.fixture
def run(sample_run) -> RunResult:
    return sample_run.build()


def column(table: Table, header: str) -> dict[str, str]:
    at = table.headers.index(header)
    return {row[0]: row[at] for row in table.rows}


def test_the_matrix_shows_numbers_only_where_they_mean_something(run, sample_run):
    """A status stands in place of the number of a cell that is not in order; marks follow the adjusted test."""
    first, second = (matrix(run, block) for block in blocks(run))
    shown = column(first, "mia-threshold signal=loss: auc")
    assert shown["(random guess)"] == "0.500"
    assert shown["none"] == "0.74 [0.72, 0.76] *"
    assert shown["dp-adam epsilon=8"] == "0.51 [0.49, 0.54]"
    assert shown["exploding"] == "FAILED"
    assert column(first, "invert-nearest @ output: f1")["dp-forward position=encoder.2.add_norm_2"] == "unfit"
    assert column(first, "attribute-probe @ output: gain_accuracy")["none"] == "not validated"
    assert column(second, "mia-threshold signal=entropy: auc")["none"] == "INVALID"
    assert column(second, "mia-threshold signal=loss: auc")["none"] == "undefined (one class) ?"


def test_utility_time_memory_and_verdict_stand_beside(run):
    """Leakage is never shown without its price."""
    table = matrix(run, blocks(run)[0])
    assert column(table, "accuracy (test)")["(random guess)"] == "0.522 (majority)"
    assert column(table, "training time")["none"] == "1 min 14 s"
    assert column(table, "peak memory")["none"] == "812.0 MiB"
    assert column(table, "claim")["dp-adam epsilon=1"] == "REFUTED"
    assert column(table, "dominated by")["dp-adam epsilon=1"] == "dp-adam epsilon=8"


def test_no_matrix_column_holds_epsilon(run):
    """ε of different kinds cannot be compared, so the matrix shows none."""
    assert not any("ε" in header for block in blocks(run) for header in matrix(run, block).headers)


def test_guessing_that_differs_between_cells_is_a_range(run):
    """A baseline of several values is not silently one of them."""
    cells = [dataclasses.replace(c, null=0.4) if c.defense == "none" else c for c in run.cells]
    table = matrix(
        dataclasses.replace(run, cells=tuple(cells)), blocks(dataclasses.replace(run, cells=tuple(cells)))[0]
    )
    assert column(table, "mia-threshold signal=loss: auc")["(random guess)"] == "0.400 to 0.500"


def test_the_terminal_prints_the_table_of_the_report(run, read_tables):
    """Same rows, same entries; one code path."""
    tables = read_tables(render_markdown(run))
    lines = [" ".join(line.split()) for line in render_table(run).splitlines()]
    for block in blocks(run):
        rows = matrix(run, block).rows
        assert [list(row) for row in rows] in [table[1:] for table in tables]
        for row in rows:
            assert " ".join(" ".join(row).split()) in lines


def test_the_terminal_says_refuted_and_smoke(sample_run):
    said = render_table(sample_run.build("smoke"))
    assert said.startswith("SMOKE RUN: a limited run to see that everything works. Its numbers must not be quoted.\n")
    assert "CLAIM REFUTED: dp-adam epsilon=1" in said


def test_every_table_of_attack_numbers_has_a_row_for_guessing(run, read_tables):
    """A number means nothing without what guessing reaches."""
    for table in read_tables(render_markdown(run)):
        if "differs from guess" in table[0] or "peak memory" in table[0]:
            assert table[1][0] in ("(random guess)", "(majority answer)")


def test_claims_of_different_kinds_never_share_a_table(run, read_tables):
    """DP-Adam and DP-Forward at ε = 8 stand in two tables, each titled with unit, trust and adjacency."""
    text = render_markdown(run)
    claims = [[row[0] for row in table[1:]] for table in read_tables(text) if "ε" in table[0]]
    assert len(claims) == 2
    assert all("dp-adam" in name for name in claims[0])
    assert all("dp-forward" in name for name in claims[1])
    assert "### ε per record, central trust, add or remove one" in text
    assert "### ε per sequence, local trust, any two inputs" in text


def test_delta_and_the_number_of_members_stand_beside_epsilon(run, read_tables):
    """δ above 1/N allows giving away a whole record, which is said."""
    table = next(t for t in read_tables(render_markdown(run)) if "ε" in t[0])
    assert table[0][1:4] == ["ε", "δ", "N (members)"]
    assert table[1][1:4] == ["1", "0.001", "1,050"]
    assert render_markdown(run).count("Warning: δ is not below 1/N = 0.00095") == 1


def test_trials_are_not_covered_by_epsilon(run):
    assert "this run folder has seen 18 distinct trainings. No ε above accounts for choosing" in render_markdown(run)


def test_the_detail_has_records_models_and_both_p_values(run, read_tables):
    """Every measure of every cell, the invalid ones too, with its sizes."""
    tables = [t for t in read_tables(render_markdown(run)) if "differs from guess" in t[0]]
    rows = {row[0]: dict(zip(tables[0][0], row, strict=True)) for row in tables[0][1:]}
    assert rows["none"]["records"] == "2,100"
    assert rows["none"]["models"] == "3"
    assert (rows["dp-adam epsilon=8"]["p"], rows["dp-adam epsilon=8"]["p (Holm)"]) == ("0.30", "1.00")
    assert rows["none"]["balanced_accuracy"] == "0.72 [0.70, 0.74] (n = 1,050)"
    assert (
        rows["none"]["tpr@0.1%fpr"]
        == "undefined (too few non-members (1050): 2995 needed for a false positive rate of 0.1%)"
    )
    assert rows["(random guess)"]["tpr@1%fpr"] == "0.010"
    assert any(row[:3] == ["none", "INVALID", "0.90 [0.85, 0.95]"] for t in tables for row in t)


def test_the_most_exposed_records_are_named_and_the_rest_counted(run):
    text = render_markdown(run)
    assert "Most exposed records, the most exposed first: row:17, row&#124;3, &lt;i&gt;, row:100" in text
    assert "and 13 more in the JSON file" in text


def test_cleaning_and_labels_are_counted(run, read_tables):
    """Every note of the data with its count and ids; an empty label is visible."""
    tables = read_tables(render_markdown(run))
    assert ["empty text dropped", "3", "row:7, row:9, row|11"] in [row for t in tables for row in t]
    assert ["label", "(empty)", "45"] in [row for t in tables for row in t]


def test_every_measure_and_goal_is_explained(run, read_tables):
    """The glossary has a row for each measure that the report shows."""
    tables = read_tables(render_markdown(run))
    glossary = {row[0]: row[1] for t in tables if t[0] == ["measure", "meaning"] for row in t[1:]}
    shown = {name for cell in run.cells for name in cell.measures}
    assert shown == set(glossary)
    assert not any("No definition" in meaning for meaning in glossary.values())


def test_a_smoke_run_is_stamped_everywhere(sample_run):
    """Title, banner, every section of results and the foot: no part can be shown as a result."""
    text = render_markdown(sample_run.build("smoke"))
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    results = [h for h in headings if any(w in h for w in ("Summary", "matrix", "claims", "Detail"))]
    assert all(h.endswith("(SMOKE: do not quote)") for h in results)
    assert text.count("Its numbers must not be quoted.") == 2


def test_a_complete_run_has_no_watermark(sample_run):
    text = render_markdown(sample_run.build("complete"))
    assert "(COMPLETE)" in text
    assert "PARTIAL" not in text
    assert "SMOKE" not in text


def test_a_console_of_any_encoding_gets_the_table(run):
    """The signs are spelled out or replaced; nothing raises."""
    for encoding in ("ascii", "cp1252", "utf-8", None, "no-such-encoding"):
        shown = for_console(render_table(run), encoding)
        shown.encode(encoding if encoding in ("ascii", "cp1252", "utf-8") else "ascii")
    assert "eps >= 1.70" in for_console(render_table(run), "ascii")
    assert for_console("ε", "utf-8") == "ε"


def test_runs_on_the_same_data_stand_side_by_side(sample_run, read_tables):
    """Entries of both runs in one row, with the interval of their difference."""
    one, other = sample_run.build(), sample_run.build("smoke")
    better = dataclasses.replace(other.defenses[0], utility=sample_run.estimate(0.9, 0.01))
    other = dataclasses.replace(other, defenses=(better, *other.defenses[1:]))
    text = render_comparison([one, other])
    rows = [row for t in read_tables(text) for row in t]
    assert ["none", "accuracy (test)", "0.75 [0.73, 0.77]", "0.90 [0.89, 0.91]", "0.15 [0.13, 0.17]", "yes"] in rows
    assert [
        "dp-adam epsilon=8",
        "accuracy (test)",
        "0.74 [0.72, 0.76]",
        "0.74 [0.72, 0.76]",
        "0.00 [-0.03, 0.03]",
        "no",
    ] in rows
    assert "**Run 2: SMOKE RUN" in text


def test_runs_on_other_data_are_not_compared(sample_run, read_tables):
    """A different fingerprint is different data, whatever its name."""
    one = sample_run.build()
    data = tuple(dataclasses.replace(d, fingerprint=d.fingerprint[::-1] + "x") for d in one.data)
    text = render_comparison([one, dataclasses.replace(one, data=data)])
    assert "no number of one may be compared with a number of another" in text
    assert len(read_tables(text)) == 1


def test_other_settings_under_one_label_are_pointed_out(sample_run):
    """A label may hide what differs."""
    one = sample_run.build()
    changed = dataclasses.replace(one.defenses[2], settings={"epsilon": 8.0, "steps": 9})
    other = dataclasses.replace(one, defenses=(*one.defenses[:2], changed, *one.defenses[3:]))
    assert "Settings differ between these runs: dp-adam epsilon=8." in render_comparison([one, other])


def test_a_comparison_needs_two_runs(run):
    with pytest.raises(ConfigError, match="two runs or more, got 1"):
        render_comparison([run])


def test_an_unknown_format_names_the_nearest():
    with pytest.raises(ConfigError, match="unknown report format 'jsn'; did you mean 'json'"):
        renderer("jsn")


def test_delta_is_warned_of_once(run):
    """A defense that already warns of its δ is not told twice."""
    warned = dataclasses.replace(run.defenses[1], warnings=("δ = 0.001 is not below 1/1050",))
    text = render_markdown(dataclasses.replace(run, defenses=(warned,)))
    assert text.count("is not below 1/") == 1


def test_a_reason_that_opens_with_its_status_is_not_said_twice(run):
    cell = dataclasses.replace(run.cells[11], reason="attack not validated: it breaks nothing")
    text = render_markdown(dataclasses.replace(run, cells=(cell,)))
    assert "- **none**: attack not validated: it breaks nothing." in text
    assert "Too few records to say." not in text


def test_claims_of_several_runs_stand_side_by_side_by_kind(sample_run, read_tables):
    """Each with δ, measured bound and verdict; ε of another kind is in another table, and the marks are explained."""
    text = render_comparison([sample_run.build(), sample_run.build("smoke")])
    assert "### ε per record, central trust" in text
    assert "### ε per sequence, local trust" in text
    tables = {table[1][0]: table for table in read_tables(text) if table[0][:2] == ["defense", "run 1"]}
    assert "δ = " in tables["dp-adam epsilon=1"][1][1]
    assert "REFUTED" in str(tables)
    assert "differs from random guess after adjustment" in text
    assert "listed below" not in text


def test_a_legend_that_holds_for_one_run_names_it(sample_run):
    one = sample_run.build()
    text = render_comparison([one, dataclasses.replace(one, comparisons=77)])
    assert "- in run 2, \\*: differs from random guess after adjustment for 77 comparisons" in text
