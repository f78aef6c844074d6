"""What K answers about one text are worth is said at the cell, in the terms of the claim."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpeval.collect.queries import composed, queries_of, query_warnings
from dpeval.config import Named
from dpeval.privacy.claims import local_gaussian_claim
from dpeval.types import Adjacency, Claim, NoClaim, Trust, Unit
from dpeval_attacks.attribute.probe import AttributeProbe
from dpeval_attacks.membership.threshold import ThresholdAttack
from dpeval_defenses.dp_forward.accounting import plan_noise
from dpeval_defenses.dp_forward.statement import Statement


def asked(queries: int) -> Named:
    return Named("mia-threshold", "mia-threshold", ThresholdAttack(queries=queries))


def gaussian(answer_sigma: float = 1.2, unit: Unit = Unit.SEQUENCE) -> Claim:
    return local_gaussian_claim(
        sigma=0.9, sensitivity=2.0, releases=3, delta=1e-5, unit=unit,
        also_details=(("sigma of an answer", answer_sigma),),
    )  # fmt: skip


def plain(trust: Trust = Trust.LOCAL, **details: float | str) -> Claim:
    return Claim(
        epsilon=0.5, delta=1e-6, unit=Unit.TOKEN, trust=trust, adjacency=Adjacency.REPLACE_ONE,
        mechanism="another", accountant="own", scope="one answer", details=tuple(details.items()),
    )  # fmt: skip


@pytest.mark.parametrize("queries", [1, 4, 25])
def test_gaussian_answers_compose_exactly(queries: int) -> None:
    """δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) at μ = √K·Δ/σ, solved for ε."""
    mu = queries**0.5 * 2.0 / 1.2

    def over(epsilon: float) -> float:
        return norm.cdf(mu / 2 - epsilon / mu) - norm.cdf(-mu / 2 - epsilon / mu) * math.exp(epsilon) - 1e-5

    by_hand = brentq(over, 0, 300)
    assert composed(gaussian(), queries).epsilon == pytest.approx(by_hand, rel=1e-5)
    assert composed(gaussian(), queries).kind == gaussian().kind


def test_other_answers_add_up_in_epsilon_and_delta() -> None:
    found = composed(plain(), 8)
    assert (found.epsilon, found.delta) == (4.0, pytest.approx(8e-6))


def test_a_cell_says_how_often_it_asked_and_what_is_left_of_the_guarantee() -> None:
    (told,) = query_warnings(asked(8), gaussian())
    assert "asked about 8 times" in told
    assert f"one answer has {composed(gaussian(), 1)}" in told
    assert f"8 answers about one text have {composed(gaussian(), 8)}" in told
    for word in ("per sequence", "local", "any-two-inputs", "δ = 1.0e-05"):
        assert word in told


def test_one_query_needs_no_words_and_every_claim_has_its_own() -> None:
    assert query_warnings(asked(1), gaussian()) == ()
    assert "no guarantee is claimed" in query_warnings(asked(3), NoClaim())[0]
    assert "take nothing from it" in query_warnings(asked(3), plain(Trust.CENTRAL))[0]
    assert "ε = 1.5 per token" in query_warnings(asked(3), plain())[0]
    assert queries_of(Named("p", "p", AttributeProbe(queries=5))) == 5


def test_texts_that_are_sent_in_clear_have_no_composed_guarantee() -> None:
    """DP-Forward with inference = "none" claims its training alone."""
    plan = plan_noise(epsilon=8.0, delta=1e-5, clip=1.0, releases=1)
    clear = Statement(plan, answer_sigma=0.0, training="frozen", position="output", rows=1).claim()
    noisy = Statement(plan, answer_sigma=plan.sigma, training="frozen", position="output", rows=1).claim()
    assert "covers no text that is sent" in query_warnings(asked(10), clear)[0]
    assert f"ε = {dict(noisy.details)['epsilon of 10 answers']:.4g}" in query_warnings(asked(10), noisy)[0]
