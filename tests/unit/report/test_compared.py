"""Defenses compared: paired differences, shared places, matched utility, and what is called untuned."""

from __future__ import annotations

import dataclasses

import pytest

from dpeval.report import compared, leaks, render_markdown
from dpeval.report.layout import blocks
from dpeval.report.pairs import Pairs, pairs_of, place
from dpeval.results import RunResult
from dpeval.types import Estimate, Undefined

ONE, EIGHT = "dp-adam epsilon=1", "dp-adam epsilon=8"


@pytest.fixture
def run(sample_run) -> RunResult:
    return sample_run.build()


def test_places_are_shared_by_those_who_were_not_told_apart(run) -> None:
    """none and ε = 1 tie, so do ε = 1 and ε = 8, yet none and ε = 8 were told apart."""
    block = blocks(run)[0]
    pairs = pairs_of(run, block, next(c for c in block.columns if c.attack == "invert-nearest"))
    ranks = {r.name: place(r) for r in pairs.ranks([("none", 0.81), (ONE, 0.80), (EIGHT, 0.79)])}
    assert ranks == {"none": "1-2 =", ONE: "1-3 =", EIGHT: "2-3 ="}


def test_a_pair_is_found_from_both_sides(run) -> None:
    """The sign follows the order that is asked for."""
    pairs = pairs_of(run, blocks(run)[0], None)
    there, back = pairs.of("none", ONE), pairs.of(ONE, "none")
    assert (there.value, there.low, there.high) == (-back.value, -back.high, -back.low)
    assert isinstance(pairs.of("none", "exploding"), Undefined)
    assert not Pairs(())


def test_overlapping_intervals_do_not_hide_a_paired_difference(run, read_tables) -> None:
    """0.74 ± 0.024 and 0.71 ± 0.024 overlap; the paired difference of 0.03 ± 0.014 is certain."""
    cells = tuple(c for c in run.cells if c.defense in ("none", ONE, EIGHT))
    some = dataclasses.replace(run, cells=cells)
    title = "mia-threshold signal=loss: auc"
    table = next(t for t in read_tables(render_markdown(some)) if title in t[0] and "place" in t[0])
    rows = {row[1]: row for row in table[1:]}
    assert (rows["none"][0], rows[ONE][0], rows[EIGHT][0]) == ("1", "2", "3")
    assert rows[ONE][3:5] == ["-0.03 [-0.04, -0.02]", "0.0004"]
    block = blocks(some)[0]
    said = leaks.comparison(block, block.columns[0], pairs_of(some, block, block.columns[0]))
    assert "1 none 0.74 [0.72, 0.76]; 2 dp-adam epsilon=1" in said


def test_without_pairs_nothing_is_claimed(run) -> None:
    """Defenses that were not compared share their places, and an old run has no such section."""
    assert compared.section(dataclasses.replace(run, paired=())) == []


def test_matched_utility_asks_only_those_that_are_as_accurate(run, read_tables) -> None:
    """ε = 1 is less accurate than ε = 8 for certain: it is no rival to it, but the other way round."""
    block = blocks(run)[0]
    assert compared.matches(run, block, block.defense(EIGHT)) == ["none"]
    assert compared.matches(run, block, block.defense(ONE)) == ["none", EIGHT]
    (rivals,) = (t for t in read_tables("\n\n".join(compared.section(run))) if "rival" in t[0])
    assert [ONE, "mia-threshold signal=loss: auc", "0.71 [0.69, 0.73]", EIGHT, "0.51 [0.49, 0.54]",
            "-0.20 [-0.21, -0.18]", "yes"] in rivals  # fmt: skip


def test_one_setting_at_an_epsilon_is_called_untuned(run) -> None:
    """Two settings at ε = 8 are a (small) search; one is not."""
    block = blocks(run)[0]
    assert ONE in compared.untuned(block)
    twin = dataclasses.replace(block.defense(EIGHT), label="dp-adam epsilon=8 lr=2", settings={"lr": 2})
    more = dataclasses.replace(block, defenses=(*block.defenses, twin))
    assert EIGHT not in compared.untuned(more)
    assert "none" not in compared.untuned(more)
    assert "This run folder has seen 18 distinct trainings" in render_markdown(run)


def test_rows_that_were_not_compared_are_not_told_apart(run) -> None:
    """No pair, no difference: an absent comparison is never a finding."""
    pairs = Pairs(())
    assert [place(r) for r in pairs.ranks([("a", 0.9), ("b", 0.1)])] == ["1-2 =", "1-2 ="]
    assert isinstance(pairs.of("a", "b"), Undefined)
    assert isinstance(run.defenses[0].utility, Estimate)
