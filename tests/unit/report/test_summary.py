"""The summary says in sentences what leaked, what was refuted and what means nothing, and never more than was shown."""

from __future__ import annotations

import dataclasses

import pytest

from dpeval.report import leaks, render_markdown, summary
from dpeval.report.layout import blocks
from dpeval.report.power import would_have_detected
from dpeval.results import Ruling, RunResult, Status
from dpeval.types import Estimate, Undefined


@pytest.fixture
def run(sample_run) -> RunResult:
    return sample_run.build()


def text(run: RunResult) -> str:
    return "\n\n".join(summary.section(run))


def test_the_overview_counts_every_cell(run):
    """Nothing is lost between the counts."""
    said = summary.overview(run)
    assert "7 defenses and 15 cells" in said
    assert "7 differ from guessing, 2 show no difference" in said
    assert "2 are undecided for want of data, 3 gave no valid result, 1 makes no sense and was not run." in said


def test_a_refuted_claim_comes_first_and_loud(run):
    """It is the first finding, in bold, with claim, conditions and measured bound."""
    first = next(line for line in text(run).splitlines() if line.startswith("- "))
    assert first.startswith("- **CLAIM REFUTED: dp-adam epsilon=1")
    assert "ε = 1, δ = 0.001 (per record, central trust, add or remove one). Measured: ε ≥ 1.70 at 95 %" in first


def test_without_refutation_nothing_is_proved(run):
    """A claim that stood is not said to hold."""
    defenses = [d for d in run.defenses if d.verdict.ruling is not Ruling.REFUTED]
    said = text(dataclasses.replace(run, defenses=tuple(defenses)))
    assert "No claim was refuted." in said
    assert "consistent with the measurements, which does not prove the claim" in said


def test_a_null_names_the_power_it_had(run):
    """No difference is only reported together with what would have been seen."""
    cell = next(c for c in run.cells if c.distinguishable == "no")
    assert would_have_detected(cell) == "this attack, at this power, would have detected auc ≥ 0.534"
    assert text(run).count("this attack, at this power, would have detected auc ≥ 0.534") == 2


def test_without_a_detection_limit_the_interval_says_what_remains_possible(run):
    """The upper bound of the interval stands in; an unbounded one says nothing."""
    cell = next(c for c in run.cells if c.distinguishable == "no")
    bare = dataclasses.replace(cell, measures={"auc": cell.measures["auc"]})
    assert would_have_detected(bare) == "no detection limit was computed; auc up to 0.54 remains possible"
    endless = dataclasses.replace(bare, measures={"auc": Estimate(0.5, 0.4, float("inf"), n=5)})
    assert would_have_detected(endless) == "no detection limit was computed"


def test_only_overlapping_intervals_are_ties(run):
    """The largest is named with all that cannot be told from it, the rest stands below."""
    block = blocks(run)[0]
    said = leaks.comparison(block, block.columns[0])
    assert "Largest: none 0.74 [0.72, 0.76]. Not shown to differ from it (intervals overlap): dp-adam epsilon=1" in said
    assert "Below it: dp-adam epsilon=8" in said
    assert "of these, overlapping intervals are ties" in said


def test_when_all_tie_no_order_is_given(run):
    """Nothing is called best or worst within the noise."""
    wide = {"auc": Estimate(0.6, 0.3, 0.9, n=9)}
    cells = [
        dataclasses.replace(c, measures=wide) if c.status is Status.OK and c.headline == "auc" else c for c in run.cells
    ]
    block = blocks(dataclasses.replace(run, cells=tuple(cells)))[0]
    assert "No other was shown to differ from it" in leaks.comparison(block, block.columns[0])


def test_one_defense_alone_is_compared_with_nothing(run):
    block = blocks(run)[1]
    assert leaks.comparison(block, block.columns[0]) is None


def test_every_status_that_means_nothing_is_listed_with_its_reason(run):
    """Invalid, not validated, unfit, failed and undefined, each with cells and reason."""
    said = text(run)
    for word in (
        "**INVALID** (1 cell)",
        "**not validated** (1 cell)",
        "**unfit** (1 cell)",
        "**FAILED** (1 defense, 1 cell)",
        "**undefined** (1 cell)",
    ):
        assert word in said
    for cell in run.cells:
        assert cell.status is Status.OK or cell.reason in said


def test_a_status_that_means_nothing_never_shows_its_number_in_the_summary(run):
    """The 0.90 of the invalid cell is not a finding."""
    assert "0.90 [" not in text(run)


def test_scores_below_guessing_are_pointed_out(run):
    assert "Worse than guessing (an inverted score?): mia-threshold signal=loss (auc 0.44 [0.42, 0.46])" in text(run)


def test_utility_is_set_against_the_majority_and_against_none(run):
    """A defense that cannot be told from the majority answer learnt nothing that shows."""
    said = text(run)
    assert "accuracy 0.53 [0.51, 0.55]; not shown to differ from the majority answer" in said
    assert "accuracy 0.58 [0.56, 0.60]; better than the majority answer; below none (paired)" in said
    assert "accuracy 0.74 [0.72, 0.76]; better than the majority answer; not shown to differ from none (paired)" in said
    assert "is dominated by dp-adam epsilon=8" in said


def test_sizes_say_what_they_cannot_show(run):
    """Detection limits, gated measures, and claims beyond the reach of the experiment."""
    said = text(run)
    assert "would have detected auc of at least 0.534; smaller leaks may go unseen" in said
    assert "tpr@0.1%fpr (membership) is not given: too few non-members (1050): 2995 needed" in said
    assert "this experiment could not have refuted its claim of ε = 8 per record" in said


def test_one_seed_is_a_warning(run):
    few = dataclasses.replace(run, provenance=dataclasses.replace(run.provenance, seeds=(0,)))
    assert "Fewer than three training seeds" in text(few)
    assert "Fewer than three training seeds" not in text(run)


def test_no_word_promises_safety(run):
    """Nulls are not called private, safe, secure or protected; there are no traffic lights."""
    words = render_markdown(run).lower()
    for word in (" is private", "safe", "secure", "no risk", "low risk", "high risk", "🟢", "🔴", "protected"):
        assert word not in words


def test_an_empty_run_still_has_a_report(run):
    """A run in which everything failed before a cell is a report, not an error."""
    bare = dataclasses.replace(run, cells=(), defenses=(), controls=(), blind=(), attacks=())
    assert "Nothing: 0 cells, all in order." in render_markdown(bare)


def test_undefined_utility_is_said(run):
    one = dataclasses.replace(run.defenses[0], utility=Undefined("no test records"))
    assert "accuracy undefined (no test records)." in text(dataclasses.replace(run, defenses=(one,), cells=()))


def test_undecided_cells_are_not_called_no_leak(run):
    """Too little data is neither a leak nor its absence."""
    cells = tuple(dataclasses.replace(c, distinguishable="insufficient") for c in run.cells if c.defense == "none")
    said = leaks.defense_sentences(blocks(dataclasses.replace(run, cells=cells))[0], "none")
    assert said[0] == "has a decided result under none of 2 attacks (1 more gave no valid result)."


def test_an_interval_that_leaves_guessing_out_without_being_a_finding_is_explained(run):
    """Otherwise the reader sees a contradiction: an interval above one half, and "no difference"."""
    cell = next(c for c in run.cells if c.goal == "membership" and c.distinguishable == "no")
    above = dataclasses.replace(cell, measures=dict(cell.measures) | {"auc": Estimate(0.6, 0.53, 0.67, n=300)})
    assert "its own interval leaves guessing out" in leaks._silence(above)
    assert "its own interval" not in leaks._silence(cell)


def test_a_limit_of_one_is_no_power_at_all(run):
    """Why nothing less would have been seen is said, too."""
    cell = next(c for c in run.cells if c.distinguishable == "no")
    powerless = dataclasses.replace(
        cell, measures=dict(cell.measures) | {"detectable_auc": Estimate(1.0, 1.0, 1.0, n=9)}
    )
    said = would_have_detected(powerless)
    assert said.startswith("this attack, at this power, would have detected auc ≥ 1 at best: too few models")
