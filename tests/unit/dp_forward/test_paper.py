"""The published calibration by name, what it is really worth, and the baselines valued exactly."""

from __future__ import annotations

import pytest

from dpeval.context import RunContext
from dpeval.plugin import Task
from dpeval.report.local import COLUMNS, local_row
from dpeval.types import Claim
from dpeval_defenses.dp_forward import DPForward
from dpeval_defenses.dp_forward.accounting import plan_noise

TEXTS = ["a good day", "a bad day", "good tea again", "bad tea"]
HONEST = {1: (2.15, 4.02), 2: (4.39, 8.42), 4: (9.08, 18.17), 8: (19.12, 40.52), 16: (40.92, 92.74)}


def train(checkpoint, records, **options):
    return DPForward(**({"epochs": 3, "batch_size": 4} | options)).train(Task(records, 2, checkpoint), RunContext(0))


@pytest.mark.parametrize("nominal", HONEST)
def test_what_the_published_epsilons_are_worth(nominal):
    """One release and three, δ = 1e-5: sensitivity 2 where 1 was assumed, epochs composed."""
    plan = plan_noise(epsilon=nominal, delta=1e-5, clip=1.0, releases=3, paper_compat=True)
    assert (plan.epsilon_per_release, plan.epsilon) == pytest.approx(HONEST[nominal], abs=0.006)


def test_the_published_setting_claims_what_holds_and_carries_what_was_printed(checkpoint_of, records_of):
    """Nominal 8 is 19.1 for one release and 40.5 over three epochs; both stand in the report's table."""
    claim = train(
        checkpoint_of("bert"), records_of(TEXTS), paper_compat=True, training="frozen-fresh", epsilon=8.0, delta=1e-5,
        position="encoder.1.add_norm_2",
    ).claim  # fmt: skip
    assert isinstance(claim, Claim)
    details = dict(claim.details)
    assert details["nominal epsilon"] == 8.0
    assert details["epsilon of one release"] == pytest.approx(19.12, abs=0.006)
    assert details["epsilon of all releases"] == claim.epsilon == pytest.approx(40.52, abs=0.006)
    assert any("nominal ε = 8" in part and "40.52" in part for part in claim.excludes)
    assert any("mask" in part for part in claim.excludes)
    shown = dict(zip(COLUMNS, local_row("dp-forward", claim), strict=True))
    assert [shown[c] for c in ("nominal ε (not claimed)", "ε of one release", "releases", "ε claimed")] == [
        "8", "19.12", "3", "40.52",
    ]  # fmt: skip


def test_the_published_regime_protects_no_training_text(checkpoint_of, records_of):
    """With the first half trained on clear texts only answers are covered; the passes of training are told beside."""
    claim = train(checkpoint_of("bert"), records_of(TEXTS), paper_compat=True, training="trained", delta=1e-5).claim
    assert claim.epsilon == pytest.approx(19.12, abs=0.006)
    beside = [value for name, value in claim.details if name.startswith("epsilon of 3 noisy passes")]
    assert beside == [pytest.approx(40.52, abs=0.006)]
    assert any(part.startswith("the training records") for part in claim.excludes)


def test_published_noise_is_not_scaled_with_the_norm(checkpoint_of, records_of):
    """C = 3 with the noise of C = 1: the honest ε is that of sensitivity 6."""
    claim = train(checkpoint_of("bert"), records_of(TEXTS), paper_compat=True, clip=3.0, delta=1e-5).claim
    details = dict(claim.details)
    assert (details["sensitivity"], details["sigma"]) == (6.0, pytest.approx(0.600229, rel=1e-5))
    assert claim.epsilon > 90


def test_the_classic_mechanism_is_valued_by_what_it_gives(checkpoint_of, records_of):
    """Below ε = 1 it over-delivers; as published baseline its nominal ε is carried as no valid claim."""
    small = train(checkpoint_of("bert"), records_of(TEXTS), mechanism="classic", epsilon=0.5, delta=1e-5).claim
    assert small.epsilon == pytest.approx(0.35257, rel=1e-4)
    large = train(
        checkpoint_of("bert"), records_of(TEXTS), mechanism="classic", epsilon=8.0, delta=1e-5, paper_compat=True
    ).claim
    assert any("no valid claim" in part for part in large.excludes)
    assert dict(large.details)["nominal epsilon"] == 8.0
    assert large.epsilon == pytest.approx(18.88, abs=0.05)


def test_mvg_noise_drowns_everything(checkpoint_of, records_of):
    claim = train(checkpoint_of("bert"), records_of(TEXTS), mechanism="mvg", epsilon=8.0, delta=1e-5).claim
    assert dict(claim.details)["sigma"] > 50
    assert claim.epsilon < 0.2
    assert dict(claim.details)["nominal epsilon"] == 8.0


def test_the_published_token_level_is_half_calibrated_too(checkpoint_of, records_of):
    """The paper takes sensitivity C for a row; two rows of norm C are 2C apart."""
    claim = train(
        checkpoint_of("bert"), records_of(TEXTS), paper_compat=True, level="token", position="embedding", delta=1e-5
    ).claim
    assert claim.unit.value == "token"
    assert claim.epsilon == pytest.approx(19.12, abs=0.006)
