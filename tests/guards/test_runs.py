"""Guards that a whole run applies by itself: V5, V8, V9, V11, V20 and V23 to V25."""

from __future__ import annotations

import dataclasses

import pytest

from dpeval.collect.dominance import with_dominance
from dpeval.measure.controls import validate
from dpeval.report import render_markdown, render_table
from dpeval.report.layout import blocks
from dpeval.report.matrix import matrix
from dpeval.results import PairedResult, RunResult, Status
from dpeval.types import Adjacency, Claim, Estimate, Trust, Unit
from dpeval.verdict import MixedClaimsError, one_kind


@pytest.fixture
def sample(sample_run) -> RunResult:
    return sample_run.build()


def test_v05_random_scores_are_not_validated(tiny_run) -> None:
    """An attack that flips coins breaks nothing: its cells never read as a defense that holds."""
    cells = [c for c in tiny_run.cells if c.attack == "coin-flip"]
    assert cells
    for cell in cells:
        assert cell.status is Status.NOT_VALIDATED
        assert "does not break" in cell.reason
    held = validate(Estimate(0.9, 0.8, 1.0, n=9), Estimate(0.5, 0.4, 0.6, n=9), null=0.5)
    wrong = validate(Estimate(0.9, 0.8, 1.0, n=9), Estimate(0.7, 0.6, 0.8, n=9), null=0.5)
    assert held.validated
    assert not wrong.validated


def test_v08_a_way_round_the_noise_fails_the_contract(check_plugin) -> None:
    """A residual path past the noise; side doors and ragged releases are tried beside the plug-ins."""
    outcome = check_plugin("BYPASS", "Bypass")
    assert not outcome.passed
    assert "round" in outcome.text


def test_v09_claims_of_two_kinds_stand_in_two_tables(sample, read_tables) -> None:
    """DP-Adam and DP-Forward at ε = 8; sorting them together is refused."""
    tables = [t for t in read_tables(render_markdown(sample)) if "ε" in t[0]]
    assert len(tables) == 2
    assert not any("ε" in header for block in blocks(sample) for header in matrix(sample, block).headers)
    claims = [d.claim for d in sample.defenses if isinstance(d.claim, Claim)]
    assert {c.trust for c in claims} == {Trust.CENTRAL, Trust.LOCAL}
    with pytest.raises(MixedClaimsError):
        one_kind(claims)
    assert {c.unit for c in claims} == {Unit.RECORD, Unit.SEQUENCE}
    assert {c.adjacency for c in claims} == {Adjacency.ADD_OR_REMOVE_ONE, Adjacency.ANY_TWO_INPUTS}


def test_v11_every_training_on_the_data_is_counted_and_said(tiny_run) -> None:
    """Two defenses and two seeds: four trainings, and ε excludes choosing among them."""
    (trials,) = tiny_run.provenance.trials.values()
    assert trials == 4
    assert "has seen 4 distinct trainings. No ε above accounts for choosing" in render_markdown(tiny_run)


def test_v20_a_dominated_defense_is_marked(sample) -> None:
    """More accurate and less leaky for certain, in pairs; a lead within the noise marks nobody."""
    cells = [c for c in sample.cells if c.goal == "membership" and c.data == sample.defenses[0].data]
    plain = [dataclasses.replace(d, dominated_by=None) for d in sample.defenses[1:3]]
    pair = next(p for p in sample.paired if (p.first, p.second) == ("dp-adam epsilon=1", "dp-adam epsilon=8")
                and p.attack == "mia-threshold signal=loss")  # fmt: skip
    marked = {d.label: d.dominated_by for d in with_dominance(plain, cells, [pair])}
    assert marked == {"dp-adam epsilon=1": "dp-adam epsilon=8", "dp-adam epsilon=8": None}
    unsure: PairedResult = dataclasses.replace(pair, differs=False)
    assert not any(d.dominated_by for d in with_dominance(plain, cells, [unsure]))


def test_v20_utility_stands_beside_every_leak_and_untuned_defenses_are_named(sample) -> None:
    for block in blocks(sample):
        assert "accuracy (test)" in matrix(sample, block).headers
    text = render_markdown(sample)
    assert "At matched utility" in text
    assert "Untuned, since one setting was tried" in text


def test_v23_there_are_no_traffic_lights(tiny_run, sample) -> None:
    """No level of risk is named: a difference from guessing is shown, not shown, or undecided."""
    for run in (tiny_run, sample):
        words = (render_markdown(run) + render_table(run)).lower()
        for word in ("high risk", "low risk", "medium risk", "severity", "🟢", "🔴", " is safe", " is private"):
            assert word not in words
        assert {c.distinguishable for c in run.cells} <= {"yes", "no", "insufficient"}


def test_v24_nothing_found_comes_with_what_would_have_been(tiny_run) -> None:
    """The smallest detectable value stands in the cell's sentence and in the summary."""
    silent = [c for c in tiny_run.cells if c.status is Status.OK and c.distinguishable == "no"]
    assert silent
    for cell in silent:
        assert "would have detected" in cell.reading
        assert f"detectable_{cell.headline}" in cell.measures
    assert "would have detected auc" in render_markdown(tiny_run)


def test_v25_a_limited_run_is_marked_wherever_it_is_shown(sample_run) -> None:
    """Title, sections, table and page."""
    from dpeval.report import FORMATS

    smoke = sample_run.build("smoke")
    for name in ("markdown", "html", "latex"):
        assert "must not be quoted" in FORMATS[name](smoke)
    assert "smoke" in FORMATS["csv"](smoke)
    assert '"status": "smoke"' in FORMATS["json"](smoke)
    assert render_table(smoke).startswith("SMOKE RUN")
