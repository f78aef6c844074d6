"""What a run adds to single cells: pairs of defenses, exposed records, curves; and texts only when asked for."""

from __future__ import annotations

import json

import pytest

from dpeval.report import FORMATS
from dpeval.rerender import read_result, rerender
from dpeval.run import Run, run
from dpeval.tiny import tiny_checkpoint
from dpeval.types import Estimate

MATRIX = """
name = "pairs"
seeds = [0, 1]
[data]
source = "synthetic:reviews?n=240"
text = "text"
label = "label"
[model]
source = "{model}"
max_length = 24
[[defense]]
use = "none"
epochs = [1, 30]
learning_rate = 3e-3
[[attack]]
use = "mia-threshold"
[[attack]]
use = "invert-nearest"
[release]
taps = ["embedding"]
targets = 15
[report]
prevalence = 0.01
fpr = [0.1]
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "model").mkdir()
    tiny_checkpoint(folder / "model")
    (folder / "m.toml").write_text(MATRIX.format(model=folder / "model"), encoding="utf-8")
    return run(folder / "m.toml", out=folder / "out")


def test_every_two_defenses_are_compared_in_every_column(done: Run) -> None:
    """One pair, three columns: two attacks and accuracy, each over both seeds, adjusted together."""
    pairs = {p.attack: p for p in done.result.paired}
    assert set(pairs) == {None, "mia-threshold", "invert-nearest"}
    for pair in pairs.values():
        assert (pair.first, pair.second) == ("none epochs=1", "none epochs=30")
        assert isinstance(pair.difference, Estimate)
        assert pair.difference.models == 2
        assert pair.p_holm >= pair.p_value
    values = {c.defense: c.measures["auc"].value for c in done.result.cells if c.attack == "mia-threshold"}
    first, second = values["none epochs=1"], values["none epochs=30"]
    assert pairs["mia-threshold"].difference.value == pytest.approx(first - second)
    assert "## Defenses compared" in done.report.read_text(encoding="utf-8")


def test_the_over_fitted_model_names_its_most_exposed_members(done: Run) -> None:
    """By id, with score and p over the seeds; the sizes are those of both seeds."""
    cell = next(c for c in done.result.cells if c.defense == "none epochs=30" and c.attack == "mia-threshold")
    assert cell.distinguishable == "yes"
    assert [r.id for r in cell.risks] == list(cell.exposed)
    assert all(0 < r.p <= 1 and r.text is None for r in cell.risks)
    assert cell.roc[-1] == (1.0, 1.0)
    ranges = done.result.data[0].ranges
    assert ranges["members"][0] <= ranges["members"][1]


def test_prevalence_and_rates_of_the_matrix_are_those_of_the_report(done: Run) -> None:
    """The PPV carries its prevalence; the asked false positive rates are the ones given."""
    names = next(c for c in done.result.cells if c.attack == "mia-threshold").measures
    assert "ppv@1%" in names
    assert [n for n in names if n.startswith("tpr")] == ["tpr@10%fpr"]


def test_texts_are_shown_only_when_asked_for(done: Run) -> None:
    """Never in what the run writes; with --show-text beside their ids."""
    cell = next(c for c in done.result.cells if c.risks)
    stored = (done.out / "run.json").read_text(encoding="utf-8")
    assert '"text": null' in stored
    assert all(r["text"] is None for c in json.loads(stored)["cells"] for r in c["risks"])
    plain, told = rerender([done.out], "markdown"), rerender([done.out], "markdown", show_text=True)
    assert ", text: " not in plain
    assert f"{cell.risks[0].id} (score" in plain
    assert told.count(", text: ") == sum(len(c.risks) for c in done.result.cells)
    assert "(not in the data any more)" not in told


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_a_run_is_rendered_again_in_every_format(done: Run, form: str) -> None:
    assert rerender([done.out], form) == FORMATS[form](read_result(done.out))
