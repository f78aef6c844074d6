"""A run survives JSON without loss, and files of another kind are refused with a reason."""

from __future__ import annotations

import copy
import dataclasses
import json
import math

import pytest

from dpeval.report import dump, load, render_json
from dpeval.report.frame import table
from dpeval.types import Estimate


def test_the_schema_comes_first(sample_run):
    assert next(iter(dump(sample_run.build()).items())) == ("schema", "dpeval/run/2")


@pytest.mark.parametrize("make", ["build", "extreme"])
def test_round_trip_is_exact(sample_run, make):
    """Through text and back, infinities, undefined values, tuples and enumerations included."""
    run = getattr(sample_run, make)()
    assert load(json.loads(render_json(run))) == run


def test_the_types_come_back(sample_run):
    """Numbers in free settings, numbers in typed fields and the enumerations are what they were."""
    run = load(json.loads(render_json(sample_run.extreme())))
    claim = run.defenses[1].claim
    assert claim.epsilon == math.inf
    assert dict(claim.details) == {"σ": 0.0, "ratio": math.inf}
    assert run.defenses[1].settings == {"epsilon": math.inf, "layers": (1, 2)}
    assert type(run.cells[0].status) is type(sample_run.build().cells[0].status)
    assert claim.kind == ("record", "central", "add-or-remove-one")


def test_undefined_is_null_with_its_reason(sample_run):
    """Never 0, 0.5 or 1, and never without the reason."""
    cells = dump(sample_run.build())["cells"]
    assert {"value": None, "undefined": "one class"} in [c["measures"].get("auc") for c in cells]


def test_every_number_is_valid_json(sample_run):
    """No NaN or Infinity, which other readers refuse."""

    def refuse(name: str) -> float:
        raise AssertionError(name)

    body = json.loads(render_json(sample_run.extreme()), parse_constant=refuse)
    assert body["defenses"][1]["claim"]["epsilon"] == "infinity"


def test_a_diagnostic_that_is_not_a_number_comes_back_as_such(sample_run):
    run = sample_run.build()
    odd = dataclasses.replace(run.defenses[0], diagnostics={"norm": math.nan})
    back = load(dump(dataclasses.replace(run, defenses=(odd,))))
    assert math.isnan(back.defenses[0].diagnostics["norm"])


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("dpeval/run/3", "written by a newer dpeval; upgrade to read it"),
        ("dpeval/run/0", "written by an older dpeval; run the matrix again"),
        ("other/thing", "this is not the result of a dpeval run"),
        (None, "expected 'dpeval/run/2', got None"),
        (1, "this is not the result of a dpeval run"),
    ],
)
def test_another_schema_is_refused(sample_run, schema, message):
    with pytest.raises(ValueError, match=message):
        load(dump(sample_run.build()) | {"schema": schema})


def test_a_run_of_the_first_schema_is_read(sample_run):
    """It named the ceiling of an audit "smallest_refutable"; its detection limit is not known."""
    body = copy.deepcopy(dump(sample_run.build())) | {"schema": "dpeval/run/1"}
    for one in body["defenses"]:
        verdict = one["verdict"]
        verdict["smallest_refutable"] = verdict.pop("ceiling")
    back = load(json.loads(json.dumps(body)))
    for old, new in zip(sample_run.build().defenses, back.defenses, strict=True):
        assert new.verdict.ceiling == old.verdict.ceiling
        assert new.verdict.smallest_refutable is None
        assert dataclasses.replace(new, verdict=old.verdict) == old


def test_a_list_is_not_a_run():
    with pytest.raises(ValueError, match="this is not the result of a dpeval run"):
        load([])  # type: ignore[arg-type]


def test_a_damaged_file_names_the_place(sample_run):
    """The path to the field, not a stack of types."""
    broken = copy.deepcopy(dump(sample_run.build()))
    broken["cells"][3]["status"] = "fine"
    with pytest.raises(ValueError, match=r"^cells\.3\.status: .*the file is damaged or was edited"):
        load(broken)
    del broken["provenance"]
    broken["cells"][3]["status"] = "ok"
    with pytest.raises(ValueError, match=r"^provenance: "):
        load(broken)


def test_an_interval_without_its_value_is_refused(sample_run):
    """The records check themselves on the way in."""
    broken = copy.deepcopy(dump(sample_run.build()))
    broken["cells"][0]["measures"]["auc"]["low"] = 0.99
    with pytest.raises(ValueError, match="does not contain its own value"):
        load(broken)


def test_unknown_fields_are_left_out(sample_run):
    """A later minor addition does not make a file unreadable."""
    body = copy.deepcopy(dump(sample_run.build()))
    body["later"] = 1
    body["cells"][0]["later"] = 1
    assert load(body) == sample_run.build()


def test_the_frame_has_a_row_for_each_cell_and_measure(sample_run):
    """Failed and unfit cells keep a row; tests belong to the headline only; no column holds ε."""
    run = sample_run.build()
    frame = table(run)
    assert len(frame) == sum(max(1, len(c.measures)) for c in run.cells)
    assert set(frame["status"]) == {"ok", "INVALID".lower(), "attack not validated", "unfit", "failed"}
    failed = frame[frame["status"] == "failed"].iloc[0]
    assert failed["reason"] == "the release was not trained"
    assert math.isnan(failed["value"])
    assert frame[~frame["headline"]]["p_holm"].isna().all()
    assert not any("epsilon" in name for name in frame.columns)
    assert frame[(frame["measure"] == "auc") & (frame["value"] == 0.74)]["null"].tolist() == [0.5]
    assert isinstance(run.cells[0].measures["auc"], Estimate)


def test_the_frame_of_an_empty_run_has_its_columns(sample_run):
    empty = table(dataclasses.replace(sample_run.build(), cells=()))
    assert len(empty) == 0
    assert "p_holm" in empty.columns
