"""Bugs that other tools had in privacy accounting, as tests of ours (accounting parts of A20, C03, C05, C08, C10)."""

from __future__ import annotations

import math

import pytest

from dpeval.privacy.claims import dp_sgd_claim
from dpeval.privacy.sampled import SampledGaussian, calibrate, epsilon
from dpeval.privacy.steps import default_delta, delta_warning, sampling_rate, steps_for


def test_a20_fewer_rows_than_one_batch() -> None:
    """7 rows and batch 32: one step at rate 1, with the ε of one full release, never '0 steps, ε 0'."""
    run = SampledGaussian(1.0, sampling_rate(7, 32), steps_for(1, 7, 32))
    assert (run.sampling_rate, run.steps) == (1.0, 1)
    assert epsilon(run, 1e-5, accountant="pld").value == pytest.approx(4.377, abs=1e-3)
    assert epsilon(run, 1e-5, accountant="rdp").value == pytest.approx(4.73, abs=5e-3)


@pytest.mark.parametrize(("steps", "expected"), [(9, 6.394), (10, 6.699), (12, 7.275)])
def test_c03_epsilon_belongs_to_the_steps_taken(steps: int, expected: float) -> None:
    """1000 rows, batch 300, 3 epochs: each number of steps has its own ε, and the claim shows which."""
    run = SampledGaussian(1.0, 0.3, steps)
    claim = dp_sgd_claim(run, delta=1e-4, accountant="rdp", num_records=1000, clip=1.0)
    assert claim.epsilon == pytest.approx(expected, rel=5e-3)
    assert dict(claim.details)["steps"] == steps


def test_c03_the_last_short_batch_counts() -> None:
    """Steps are never rounded down."""
    assert steps_for(3, 1000, 300) == 12


@pytest.mark.parametrize(("accountant", "low", "high"), [("rdp", 0.6159, 0.6174), ("pld", 0.5863, 0.5878)])
def test_c05_calibrated_noise_does_not_overshoot(accountant: str, low: float, high: float) -> None:
    """The ε recomputed from the noise found lies just below the target of 8."""
    sigma = calibrate(8.0, 1e-5, 0.01, 1000, accountant=accountant)  # type: ignore[arg-type]
    again = epsilon(SampledGaussian(sigma, 0.01, 1000), 1e-5, accountant=accountant).value  # type: ignore[arg-type]
    assert low <= sigma <= high
    assert 7.9 < again <= 8.0


def test_c08_tiny_delta() -> None:
    """ε is never negative nor smaller for a smaller δ, and the numerical accountant says where it ends."""
    run = SampledGaussian(4.0, 0.00033, 10_000)
    deltas = (1e-6, 1e-8, 1e-10, 1.1e-18, 1.13e-18, 1e-19)
    for accountant in ("rdp", "pld"):
        values = [epsilon(run, d, accountant=accountant).value for d in sorted(deltas, reverse=True)]  # type: ignore[arg-type]
        assert values == sorted(values)
        assert values[0] >= 0
    for delta, expected in ((1.13e-18, 0.146), (1.1e-18, 0.146), (1e-10, 0.074)):
        assert expected * 0.97 <= epsilon(run, delta, accountant="rdp").value <= 0.67
        report = epsilon(run, delta, accountant="pld")
        assert report.accountant == "rdp"
        assert "does not reach" in report.note


@pytest.mark.parametrize(("delta", "warned"), [(1e-2, True), (1e-3, True), (5e-4, False)])
def test_c10_delta_not_below_one_over_n(delta: float, warned: bool) -> None:
    """δ ≥ 1/N is warned about, in the claim too, next to N."""
    run = SampledGaussian(1.0, 0.032, 94)
    claim = dp_sgd_claim(run, delta=delta, accountant="rdp", num_records=1000, clip=1.0)
    assert (delta_warning(delta, 1000) is not None) is warned
    assert any("1/1000" in caveat for caveat in claim.excludes) is warned
    assert dict(claim.details)["records"] == 1000
    assert claim.delta == delta


def test_c10_the_default_is_below_one_over_n() -> None:
    """Unset δ becomes 1/(2N); ε at the δs of the case."""
    assert default_delta(1000) < 1 / 1000
    run = SampledGaussian(1.0, 0.032, 94)
    for delta, expected in ((1e-3, 1.650), (1e-5, 2.642)):
        assert math.isclose(epsilon(run, delta, accountant="rdp").value, expected, rel_tol=5e-3)
