"""Verdicts: a claim is refuted, consistent or untestable, and each says why in plain words."""

from __future__ import annotations

import dataclasses

import pytest

from dpeval.measure.epsilon import gaussian_bound, rate_bound
from dpeval.measure.one_run import one_run_bound
from dpeval.types import Adjacency, Claim, NoClaim, Trust, Undefined, Unit
from dpeval.verdict import (
    MEMBERSHIP_AUDIT,
    RELEASE_AUDIT,
    Consistent,
    MixedClaimsError,
    Refuted,
    Untestable,
    judge,
    one_kind,
)


def claim(epsilon: float = 1.0, delta: float = 1e-5, trust: Trust = Trust.CENTRAL) -> Claim:
    central = trust is Trust.CENTRAL
    return Claim(
        epsilon=epsilon,
        delta=delta,
        unit=Unit.RECORD if central else Unit.SEQUENCE,
        trust=trust,
        adjacency=Adjacency.ADD_OR_REMOVE_ONE if central else Adjacency.ANY_TWO_INPUTS,
        mechanism="m",
        accountant="a",
        scope="s",
    )


def test_a_bound_above_the_claim_refutes_it() -> None:
    """With the numbers in the sentence, the bound rounded down."""
    found = judge(claim(1.0), one_run_bound(m=300, r=300, v=295, delta=1e-5), MEMBERSHIP_AUDIT)
    assert isinstance(found, Refuted)
    assert "ε = 1 is claimed" in found.reading
    assert "295 of 300 guesses right" in found.reading
    assert "95 % confidence" in found.reading


def test_a_bound_below_the_claim_is_consistent_and_says_what_could_have_been_seen() -> None:
    """V24: 'not refuted' comes with the power of the experiment."""
    found = judge(claim(2.0), one_run_bound(m=300, r=300, v=160, delta=1e-5), MEMBERSHIP_AUDIT)
    assert isinstance(found, Consistent)
    assert found.smallest_refutable > 2.0
    assert "could have shown up to ε >" in found.reading


def test_a_claim_above_the_ceiling_is_untestable() -> None:
    """Even all guesses right would not refute ε = 8 with 100 records."""
    found = judge(claim(8.0), one_run_bound(m=100, r=100, v=100, delta=1e-5), MEMBERSHIP_AUDIT)
    assert isinstance(found, Untestable)
    assert "had every guess been right" in found.reading


def test_no_claim_and_undefined_bounds_are_untestable_with_their_reasons() -> None:
    """Honest nulls stay different."""
    bound = one_run_bound(m=10, r=10, v=5, delta=0.0)
    assert "no formal guarantee" in judge(NoClaim(), bound, MEMBERSHIP_AUDIT).reading
    assert "too few" in judge(claim(), Undefined("too few coins"), MEMBERSHIP_AUDIT).reading


def test_an_audit_of_another_kind_says_nothing() -> None:
    """A local claim is not judged by membership, nor a central one by repeated releases."""
    bound = one_run_bound(m=300, r=300, v=300, delta=1e-5)
    found = judge(claim(trust=Trust.LOCAL), bound, MEMBERSHIP_AUDIT)
    assert isinstance(found, Untestable)
    assert "this audit tests claims that are per record, central" in found.reading
    rates = rate_bound(tp=500, members=500, fp=0, nonmembers=500, delta=1e-5)
    assert isinstance(judge(claim(trust=Trust.LOCAL), rates, RELEASE_AUDIT), Refuted)
    assert isinstance(judge(claim(), rates, RELEASE_AUDIT), Untestable)


def test_delta_is_compared_in_the_right_direction() -> None:
    """A bound at a larger δ refutes the weaker statement, hence the claim; one at a smaller δ cannot be used."""
    larger = one_run_bound(m=300, r=300, v=300, delta=1e-4)
    assert isinstance(judge(claim(delta=1e-5), larger, MEMBERSHIP_AUDIT), Refuted)
    with pytest.raises(ValueError, match="δ >= the claim's"):
        judge(claim(delta=1e-3), larger, MEMBERSHIP_AUDIT)


def test_model_based_bounds_refute_nothing() -> None:
    """A Gaussian bound is right only for a Gaussian mechanism, which is what is in question."""
    bound = gaussian_bound(tp=500, members=500, fp=0, nonmembers=500, delta=1e-5)
    with pytest.raises(ValueError, match="cannot refute"):
        judge(claim(trust=Trust.LOCAL), bound, RELEASE_AUDIT)


def test_claims_of_different_kinds_are_never_compared() -> None:
    """V9: mixed sorting is refused, naming both kinds."""
    assert one_kind([]) is None
    assert one_kind([claim(1.0), claim(8.0)]) == claim().kind
    with pytest.raises(MixedClaimsError, match=r"per record, central.*per sequence, local"):
        one_kind([claim(), claim(trust=Trust.LOCAL)])


def test_verdicts_are_values() -> None:
    """Frozen and comparable."""
    one, other = (judge(claim(), one_run_bound(m=50, r=50, v=25, delta=1e-5), MEMBERSHIP_AUDIT) for _ in range(2))
    assert one == other
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.claimed = None
