"""Calibration ends, is conservative, comes close, and says when it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeval.privacy.gaussian import analytic_gaussian_sigma
from dpeval.privacy.sampled import (
    FixedSizeGaussian,
    SampledGaussian,
    ShuffledGaussian,
    UnattainableError,
    calibrate,
    calibrate_mechanism,
    epsilon,
    with_noise,
)
from dpeval.types import Adjacency


@given(
    st.floats(-1, 3).map(lambda x: 10**x), st.floats(-12, -2).map(lambda x: 10**x),
    st.floats(-5, 0).map(lambda x: 10**x), st.integers(1, 20_000),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_round_trip_with_renyi(target: float, delta: float, rate: float, steps: int) -> None:
    """Recomputed ε lies just below the target, over the whole range of settings."""
    sigma = calibrate(target, delta, rate, steps, accountant="rdp")
    again = epsilon(SampledGaussian(sigma, rate, steps), delta, accountant="rdp").value
    assert 0.9875 * target < again <= target


@pytest.mark.parametrize(
    ("target", "delta", "rate", "steps", "adjacency"),
    [
        (0.05, 1e-6, 0.01, 500, Adjacency.ADD_OR_REMOVE_ONE),
        (2.0, 1e-5, 0.1, 20, Adjacency.REPLACE_ONE),
        (40.0, 1e-5, 0.02, 100, Adjacency.ADD_OR_REMOVE_ONE),
        (1.0, 1e-12, 0.02, 100, Adjacency.ADD_OR_REMOVE_ONE),
    ],
)
def test_round_trip_with_numerical_composition(
    target: float, delta: float, rate: float, steps: int, adjacency: Adjacency
) -> None:
    """Small, large and tiny-δ targets, and replacement."""
    sigma = calibrate(target, delta, rate, steps, accountant="pld", adjacency=adjacency)
    again = epsilon(SampledGaussian(sigma, rate, steps), delta, accountant="pld", adjacency=adjacency).value
    assert 0.9875 * target < again <= target


def test_less_noise_would_break_the_target() -> None:
    """σ is the smallest: one per cent less exceeds the target."""
    sigma = calibrate(3.0, 1e-5, 0.02, 300, accountant="rdp")
    assert epsilon(SampledGaussian(0.99 * sigma, 0.02, 300), 1e-5, accountant="rdp").value > 3.0


def test_without_sampling_it_is_the_analytic_gaussian() -> None:
    """Rate 1: σ·√T of the exact mechanism."""
    sigma = calibrate(1.0, 1e-5, 1.0, 16, accountant="pld")
    assert sigma == pytest.approx(4 * analytic_gaussian_sigma(1.0, 1e-5), rel=1e-3)


@pytest.mark.parametrize(
    ("mechanism", "accountant"),
    [(FixedSizeGaussian(1.0, 100, 10_000, 200), "rdp"), (ShuffledGaussian(1.0, 3), "pld")],
)
def test_other_samplers(mechanism: Any, accountant: Any) -> None:
    """Fixed-size and shuffled batches calibrate against their own accounting."""
    sigma = calibrate_mechanism(mechanism, 4.0, 1e-5, accountant=accountant, adjacency=Adjacency.REPLACE_ONE)
    again = epsilon(with_noise(mechanism, sigma), 1e-5, accountant=accountant, adjacency=Adjacency.REPLACE_ONE).value
    assert 0.9875 * 4 < again <= 4


def test_a_huge_target_needs_hardly_any_noise() -> None:
    """It ends at the least noise it tries, with ε below the target."""
    sigma = calibrate(1e9, 1e-5, 0.01, 10, accountant="rdp")
    assert 0 < sigma < 0.01


def test_the_floor_of_the_extended_orders_is_named() -> None:
    """Targets below every order's floor are an error, in bounded time."""
    with pytest.raises(UnattainableError, match=r"orders 1\.01 to 8192") as error:
        calibrate(1e-5, 1e-5, 0.01, 100, accountant="rdp")
    assert error.value.floor > 1e-5


@pytest.mark.parametrize(
    "arguments",
    [(0.0, 1e-5, 0.1, 10), (1.0, 0.0, 0.1, 10), (1.0, 1e-5, 0.0, 10), (1.0, 1e-5, 0.1, 0), (-1.0, 1e-5, 0.1, 10)],
)
def test_nonsense_is_refused(arguments: tuple[float, float, float, int]) -> None:
    """Out-of-range input says what was expected."""
    with pytest.raises(ValueError, match="expected"):
        calibrate(*arguments, accountant="rdp")


def test_a_run_without_records_has_nothing_to_calibrate() -> None:
    """Refused rather than answered with a meaningless σ."""
    with pytest.raises(ValueError, match="nothing to calibrate"):
        calibrate_mechanism(ShuffledGaussian(1.0, 0), 1.0, 1e-5, accountant="rdp", adjacency=Adjacency.REPLACE_ONE)
