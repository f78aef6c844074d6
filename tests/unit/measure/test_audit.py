"""Audits plan on one half and count on the other, refuse other designs, and see what is there."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.measure.audit import DesignError, audit_one_run
from dpeval.measure.distinguish import audit_releases, needed_draws
from dpeval.measure.epsilon import Method
from dpeval.measure.halves import calibration_half
from dpeval.measure.membership import MembershipRun
from dpeval.measure.rates import audit_rates
from dpeval.types import Undefined


def coins(seed: int, n: int = 400, shift: float = 0.0) -> MembershipRun:
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    return MembershipRun(tuple(f"r{i}" for i in range(n)), rng.normal(size=n) + shift * member, member)


def test_a_design_without_independent_coins_is_refused() -> None:
    """V15: a split of fixed size makes the coins dependent."""
    with pytest.raises(DesignError, match="own fair coin"):
        audit_one_run([coins(0)], independent_coins=False, delta=1e-5)


def test_perfect_scores_reach_nearly_the_ceiling() -> None:
    """All guesses are planned and right."""
    found = audit_one_run([coins(0, shift=20.0)], independent_coins=True, delta=0.0)
    assert found.correct == found.guesses
    assert found.epsilon > found.ceiling - 0.5
    assert found.method is Method.ONE_RUN


def test_runs_are_pooled() -> None:
    """Three runs' coins are one experiment of three times the size, with a larger bound."""
    one = audit_one_run([coins(0, shift=20.0)], independent_coins=True, delta=0.0)
    three = audit_one_run([coins(s, shift=20.0) for s in range(3)], independent_coins=True, delta=0.0)
    assert three.trials == 3 * one.trials
    assert three.epsilon > one.epsilon + 0.8


def test_labels_of_the_counting_half_do_not_move_the_plan() -> None:
    """The number of guesses is the same whatever the coins there show."""
    run = coins(1, shift=1.0)
    half = calibration_half(run.units)
    other = MembershipRun(run.ids, run.scores, np.where(half, run.is_member, ~run.is_member))
    one, two = (audit_one_run([r], independent_coins=True, delta=0.0) for r in (run, other))
    assert one.guesses == two.guesses
    assert one.correct == one.guesses - two.correct


def test_position_does_not_break_ties() -> None:
    """With constant scores and all members listed first, nothing is found: ties go by a hash of the id."""
    member = np.arange(1000) < 500
    run = MembershipRun(tuple(f"r{i}" for i in range(1000)), np.zeros(1000), member)
    assert audit_one_run([run], independent_coins=True, delta=0.0).epsilon < 0.3


def test_records_of_groups_take_no_part() -> None:
    """They share a coin; where all do, the audit is undefined."""
    run = coins(2, n=200, shift=20.0)
    paired = MembershipRun(run.ids, run.scores, run.is_member, tuple(i // 2 for i in range(200)))
    assert isinstance(audit_one_run([paired], independent_coins=True, delta=0.0), Undefined)
    mixed = MembershipRun(run.ids, run.scores, run.is_member, tuple(max(i, 50) for i in range(200)))
    found = audit_one_run([mixed], independent_coins=True, delta=0.0)
    assert found.trials < 150


def test_two_rates_over_records_are_labelled_a_heuristic() -> None:
    """Records of one model are not independent trials."""
    found = audit_rates([coins(3, shift=3.0)], delta=1e-5)
    assert found.method is Method.RECORD_RATES
    assert 0.5 < found.epsilon <= found.ceiling


def test_releases_without_noise_reach_the_ceiling() -> None:
    """Two constant outputs are told apart every time; two equal ones never."""
    zero = np.zeros((400, 6))
    found = audit_releases(zero, zero + 1e-3, delta=1e-5).bound
    assert found.epsilon == found.ceiling > 3.9
    assert audit_releases(zero, zero, delta=1e-5).bound.epsilon == 0


def test_one_clear_coordinate_among_noisy_ones_is_found() -> None:
    """A defense that forgets one coordinate gives everything away."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(400, 30)), rng.normal(size=(400, 30))
    first[:, 7], second[:, 7] = 0.0, 1e-3
    found = audit_releases(first, second, delta=1e-5).bound
    assert found.epsilon == found.ceiling


def test_a_known_direction_saves_most_of_the_power() -> None:
    """In 2,000 dimensions with 400 draws the fitted direction is mostly noise."""
    rng = np.random.default_rng(1)
    gap = np.full(2000, 3.0 / np.sqrt(2000))
    first, second = rng.normal(size=(400, 2000)) + gap, rng.normal(size=(400, 2000))
    fitted = audit_releases(first, second, delta=1e-5).bound
    known = audit_releases(first, second, delta=1e-5, direction=-gap).bound
    assert known.epsilon > fitted.epsilon + 0.5


def test_draws_needed_to_refute() -> None:
    """With that many draws, all told apart, the bound passes the claim; with a tenth fewer it does not."""
    for epsilon in (1.0, 4.0):
        draws = needed_draws(epsilon, delta=1e-5)
        ones = np.ones((draws, 1))
        assert audit_releases(ones, 0 * ones, delta=1e-5, direction=[1.0]).bound.epsilon > epsilon
        fewer = np.ones((int(0.9 * draws), 1))
        assert audit_releases(fewer, 0 * fewer, delta=1e-5, direction=[1.0]).bound.epsilon <= epsilon


def test_malformed_releases_are_refused() -> None:
    """Shapes must agree and entries be finite."""
    with pytest.raises(ValueError, match="as many draws"):
        audit_releases(np.zeros((8, 2)), np.zeros((8, 3)), delta=0.0)
    with pytest.raises(ValueError, match="at least 4"):
        audit_releases(np.zeros((3, 2)), np.zeros((3, 2)), delta=0.0)
    with pytest.raises(ValueError, match="finite"):
        audit_releases(np.full((8, 2), np.nan), np.zeros((8, 2)), delta=0.0)
