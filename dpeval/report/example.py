"""The smallest run that has everything a report needs: one data set, one model, one defense, one attack.

>>> tiny_run().cells[0].attack
'mia-threshold'
"""

from __future__ import annotations

from dpeval.results import (
    BlindResult,
    CellResult,
    ControlResult,
    DataSummary,
    DefenseResult,
    ModelSummary,
    Provenance,
    Ruling,
    RunResult,
    Status,
    Verdict,
)
from dpeval.types import Cost, Estimate, NoClaim

AUC = Estimate(0.74, 0.70, 0.78, n=400, models=3)


def tiny_run() -> RunResult:
    """A complete run with invented numbers, for examples and previews."""
    return RunResult(
        name="tiny",
        status="complete",
        note="",
        data=(_data(),),
        models=(_model(),),
        defenses=(_defense(),),
        cells=(_cell(),),
        controls=(_control(),),
        utility_baseline={"films": 0.5},
        provenance=_provenance(),
        comparisons=1,
        blind=(
            BlindResult(data="films", auc=Estimate(0.5, 0.45, 0.55, n=400), invalid=False, reading="No difference."),
        ),
    )


def _data() -> DataSummary:
    roles = {"members": 200, "non-members": 200, "auxiliary": 300, "test": 300}
    return DataSummary(name="films", fingerprint="f1", records=1000, roles=roles, labels={"bad": 500, "good": 500})


def _model() -> ModelSummary:
    return ModelSummary(name="tiny", fingerprint="f2", parameters=1000, max_length=64, pooling="mean")


def _defense() -> DefenseResult:
    return DefenseResult(
        label="none",
        use="none",
        source="no defense",
        settings={},
        status=Status.OK,
        claim=NoClaim(),
        data="films",
        model="tiny",
        verdict=Verdict(ruling=Ruling.NO_CLAIM, reading="Nothing is claimed."),
        cost=Cost(61.0, 118.0, 2**30),
        utility=Estimate(0.75, 0.71, 0.79, n=300, models=3),
        train_accuracy=Estimate(0.9, 0.87, 0.93, n=200, models=3),
    )


def _cell() -> CellResult:
    return CellResult(
        defense="none",
        attack="mia-threshold",
        goal="membership",
        tap=None,
        status=Status.OK,
        measures={"auc": AUC},
        headline="auc",
        null=0.5,
        p_value=1e-6,
        p_holm=1e-6,
        distinguishable="yes",
        reading="Members are told.",
        data="films",
        model="tiny",
    )


def _control() -> ControlResult:
    return ControlResult(
        attack="mia-threshold",
        goal="membership",
        tap=None,
        positive=Estimate(0.9, 0.86, 0.94, n=400),
        measure="auc",
        negative=Estimate(0.5, 0.45, 0.55, n=400),
        null=0.5,
        validated=True,
        reason="",
        data="films",
        model="tiny",
    )


def _provenance() -> Provenance:
    return Provenance(
        dpeval="0",
        python="3.11",
        platform="Linux",
        packages={},
        matrix_file="tiny.toml",
        matrix_sha256="ab",
        matrix_text='name = "tiny"\n',
        seeds=(0, 1, 2),
        command="dpeval run tiny.toml",
        created="2026-01-01",
        seconds=200.0,
        jobs=1,
        threads=1,
        device="cpu",
    )
