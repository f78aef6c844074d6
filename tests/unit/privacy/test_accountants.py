"""ε of DP-SGD: order relations between accountants, adjacencies and settings, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeval.privacy.gaussian import epsilon_of_gaussian
from dpeval.privacy.loss_distribution import fine_interval
from dpeval.privacy.sampled import (
    ACCOUNTANTS,
    FixedSizeGaussian,
    SampledGaussian,
    ShuffledGaussian,
    central_limit_mu,
    epsilon,
)
from dpeval.types import Adjacency

REPLACE = Adjacency.REPLACE_ONE

runs = st.builds(SampledGaussian, st.floats(0.5, 20), st.floats(1e-4, 1.0), st.integers(1, 5000))
quick_runs = st.builds(SampledGaussian, st.floats(1.5, 8), st.floats(1e-3, 0.3), st.integers(1, 300))
deltas = st.floats(-9, -2).map(lambda x: 10**x)


def rdp(run: SampledGaussian, delta: float) -> float:
    return epsilon(run, delta, accountant="rdp").value


@given(runs, deltas)
@settings(max_examples=20, deadline=None)
def test_more_steps_more_sampling_less_noise_cost_more(run: SampledGaussian, delta: float) -> None:
    """ε rises with steps and rate, falls with noise and δ."""
    here = rdp(run, delta) * (1 - 1e-7)
    sigma, rate, steps = run.noise_multiplier, run.sampling_rate, run.steps
    assert rdp(SampledGaussian(sigma, rate, 2 * steps), delta) >= here
    assert rdp(SampledGaussian(sigma, min(1.0, 2 * rate), steps), delta) >= here
    assert rdp(SampledGaussian(sigma / 1.5, rate, steps), delta) >= here
    assert rdp(run, delta / 10) >= here


@given(quick_runs, deltas)
@settings(max_examples=4, deadline=None)
def test_numerical_composition_is_below_renyi(run: SampledGaussian, delta: float) -> None:
    """PLD ≤ RDP, and both are above 0."""
    tight = epsilon(run, delta, accountant="pld", discretisation=1e-3).value
    assert 0 <= tight <= rdp(run, delta) + 1e-2


@given(quick_runs, deltas)
@settings(max_examples=3, deadline=None)
def test_replacing_costs_at_least_as_much_as_removing(run: SampledGaussian, delta: float) -> None:
    """For PLD and for RDP, and RDP's stays above PLD's."""
    replaced, removed = (
        epsilon(run, delta, accountant="pld", adjacency=a, discretisation=1e-3).value
        for a in (REPLACE, Adjacency.ADD_OR_REMOVE_ONE)
    )
    assert replaced >= removed
    loose = epsilon(run, delta, accountant="rdp", adjacency=REPLACE).value
    assert loose >= rdp(run, delta)
    assert loose >= replaced - 1e-2


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_OR_REMOVE_ONE, REPLACE])
def test_without_sampling_the_closed_form_holds(adjacency: Adjacency) -> None:
    """T steps at rate 1 are one Gaussian of noise σ/√T, at every δ; replacement doubles μ."""
    moves = 2 if adjacency is REPLACE else 1
    for delta in (1e-3, 1e-14):
        got = epsilon(SampledGaussian(4.0, 1.0, 9), delta, accountant="pld", adjacency=adjacency)
        assert got.value == pytest.approx(epsilon_of_gaussian(moves * 3 / 4, delta))
        assert got.accountant == "pld"
    bound = epsilon(SampledGaussian(4.0, 1.0, 9), 1e-5, accountant="rdp", adjacency=adjacency).value
    assert bound >= epsilon_of_gaussian(moves * 3 / 4, 1e-5)


def test_the_library_still_ignores_the_doubled_sensitivity() -> None:
    """dp-accounting's RDP of a plain Gaussian under replacement is that of removal; ours is not taken from there."""
    import dp_accounting as dp
    from dp_accounting.rdp import RdpAccountant

    theirs = RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    theirs.compose(dp.GaussianDpEvent(1.0))
    assert theirs.get_epsilon(1e-5) < 5
    assert epsilon(SampledGaussian(1.0, 1.0, 1), 1e-5, accountant="rdp", adjacency=REPLACE).value > 9.997


def test_shuffled_batches_pay_a_full_release_per_pass() -> None:
    """Per pass one Gaussian of sensitivity 2C, composed exactly: no amplification is claimed."""
    report = epsilon(ShuffledGaussian(2.0, 4), 1e-5, accountant="pld", adjacency=REPLACE)
    assert report.value == pytest.approx(epsilon_of_gaussian(2.0, 1e-5))
    assert report.accountant == "gaussian"
    with pytest.raises(ValueError, match="replace-one"):
        epsilon(ShuffledGaussian(2.0, 4), 1e-5, accountant="pld")


def test_fixed_size_costs_more_than_poisson_numbers_say() -> None:
    """The same σ, rate and steps under the Poisson accountant are an order of magnitude lower."""
    fixed = epsilon(FixedSizeGaussian(1.0, 1000, 100_000, 1000), 1e-5, accountant="rdp", adjacency=REPLACE).value
    assert fixed > 5 * rdp(SampledGaussian(1.0, 0.01, 1000), 1e-5)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_nothing_done_reveals_nothing(accountant: Any) -> None:
    """No steps, no sampling, infinite noise or δ = 1: ε is 0, also without noise."""
    nothing = (SampledGaussian(0.0, 0.1, 0), SampledGaussian(1.0, 0.0, 9), SampledGaussian(math.inf, 0.1, 9))
    assert all(epsilon(run, 0.0, accountant=accountant).value == 0 for run in nothing)
    assert epsilon(SampledGaussian(1.0, 0.5, 9), 1.0, accountant=accountant).value == 0


def test_settings_say_what_the_value_depends_on() -> None:
    """Order and grid; discretisation and library version."""
    by_rdp = dict(epsilon(SampledGaussian(2.0, 0.1, 10), 1e-5, accountant="rdp").settings)
    by_pld = dict(epsilon(SampledGaussian(2.0, 0.1, 10), 1e-5, accountant="pld").settings)
    assert set(by_rdp) == {"order", "orders"}
    assert set(by_pld) == {"discretisation", "dp-accounting"}


def test_a_coarser_interval_is_still_a_bound() -> None:
    """Discretisation rounds up."""
    run = SampledGaussian(1.0, 0.02, 100)
    fine = epsilon(run, 1e-5, accountant="pld").value
    assert epsilon(run, 1e-5, accountant="pld", discretisation=1e-2).value >= fine


def test_interval_fits_the_range_of_the_loss() -> None:
    """Fine where losses are tiny, coarse where noise is little, never zero."""
    tiny, little = (fine_interval(SampledGaussian(s, 0.01, 1000)) for s in (50.0, 0.2))
    assert 0 < tiny < 1e-5 < 1e-3 < little


def test_central_limit_survives_little_noise() -> None:
    """σ near zero gives infinite μ and ε, not an overflow."""
    assert central_limit_mu(SampledGaussian(0.01, 0.1, 10)) == math.inf
    assert epsilon(SampledGaussian(0.01, 0.1, 10), 1e-5, accountant="gdp-clt").value == math.inf


@pytest.mark.parametrize(
    "build",
    [
        lambda: SampledGaussian(math.nan, 0.1, 1),
        lambda: SampledGaussian(1.0, math.nan, 1),
        lambda: SampledGaussian(1.0, 0.1, 1.5),  # type: ignore[arg-type]
        lambda: SampledGaussian(1.0, 0.1, -1),
        lambda: FixedSizeGaussian(1.0, 11, 10, 1),
        lambda: FixedSizeGaussian(-1.0, 1, 10, 1),
        lambda: ShuffledGaussian(1.0, -1),
        lambda: epsilon(SampledGaussian(1.0, 0.1, 1), math.nan, accountant="rdp"),
        lambda: epsilon(SampledGaussian(1.0, 0.1, 1), 1e-5, accountant="prv"),  # type: ignore[arg-type]
    ],
)
def test_nonsense_is_refused(build: Any) -> None:
    """Out-of-range input says what was expected."""
    with pytest.raises(ValueError, match="expected"):
        build()


def test_unsupported_combinations_name_what_is_supported() -> None:
    """The central-limit formula is for add-or-remove; DP-SGD knows no any-two-inputs."""
    run = SampledGaussian(1.0, 0.1, 10)
    with pytest.raises(ValueError, match="add-or-remove-one"):
        epsilon(run, 1e-5, accountant="gdp-clt", adjacency=REPLACE)
    with pytest.raises(ValueError, match="any-two-inputs"):
        epsilon(run, 1e-5, accountant="rdp", adjacency=Adjacency.ANY_TWO_INPUTS)
