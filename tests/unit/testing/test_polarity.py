"""A higher score means more likely a member: the contract suite fails an attack with the sign turned round."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from dpeval.measure.controls import validate
from dpeval.plugin import Attack, ExtractionAttack, MembershipAttack
from dpeval.testing.attacks import AttackSubject, scores_higher_for_members
from dpeval.testing.bench import ContractError, Tiny
from dpeval.testing.oracle import Oracle
from dpeval.testing.suite import check_plugin
from dpeval.types import Estimate, Records, Scores
from dpeval_attacks.extraction.canary import CanaryExtraction
from dpeval_attacks.membership.learned import LearnedAttack
from dpeval_attacks.membership.lira import LiRA
from dpeval_attacks.membership.rmia import RMIA
from dpeval_attacks.membership.threshold import ThresholdAttack


def losses(view, candidates):
    found = view.predict(candidates)
    return -found.log_probs[np.arange(len(candidates)), list(candidates.labels)]


@dataclass(frozen=True, kw_only=True)
class Loss(MembershipAttack):
    """Takes the loss itself for the score: the sign is turned round."""

    source: ClassVar[str] = "a peer's issue tracker"

    def score(self, view, candidates, knowledge, ctx):
        return Scores(candidates.ids, losses(view, candidates))


@dataclass(frozen=True, kw_only=True)
class CanaryLoss(ExtractionAttack):
    """The same mistake with canaries."""

    source: ClassVar[str] = "a peer's issue tracker"

    def extract(self, view, candidates, knowledge, ctx):
        return Scores(candidates.ids, losses(view, candidates))


@dataclass(frozen=True, kw_only=True)
class Coin(MembershipAttack):
    """No skill, and no wrong sign."""

    source: ClassVar[str] = "folklore"

    def score(self, view, candidates, knowledge, ctx):
        return Scores(candidates.ids, ctx.rng("coin").random(len(candidates)))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Tiny:
    return Tiny.make(tmp_path_factory.mktemp("tiny"))


def subject_of(attack: Attack, tiny: Tiny) -> AttackSubject:
    return AttackSubject(attack, tiny)


def test_dpeval_check_fails_an_inverted_attack_and_says_what_to_do() -> None:
    outcome = check_plugin(Loss())
    assert not outcome.passed
    complaints = [f for f in outcome.findings if f.complaint]
    assert len(complaints) == 1
    assert "wrong sign" in complaints[0].complaint
    assert "return minus the score" in complaints[0].complaint


def test_an_inverted_canary_attack_fails_too(tiny: Tiny) -> None:
    with pytest.raises(ContractError, match="wrong sign"):
        scores_higher_for_members(subject_of(CanaryLoss(), tiny))


@pytest.mark.parametrize("attack", [Coin(), ThresholdAttack(), LearnedAttack(), CanaryExtraction(), LiRA(), RMIA()])
def test_an_attack_with_the_right_sign_or_without_skill_passes(tiny: Tiny, attack: Attack, monkeypatch) -> None:
    """And the same attack turned round does not, where it has skill."""
    scores_higher_for_members(subject_of(attack, tiny))
    way = "extract" if isinstance(attack, ExtractionAttack) else "score"
    right = getattr(type(attack), way)

    def reversed_scores(self, view, candidates, knowledge, ctx):
        found = right(self, view, candidates, knowledge, ctx)
        return Scores(found.ids, -found.values)

    monkeypatch.setattr(type(attack), way, reversed_scores)
    with nullcontext() if isinstance(attack, Coin) else pytest.raises(ContractError, match="wrong sign"):
        scores_higher_for_members(subject_of(attack, tiny))


def test_the_oracle_is_sure_of_its_members_and_of_nobody_else() -> None:
    ids = tuple(f"r{i}" for i in range(400))
    found = Oracle(frozenset(ids[:200]), 3).predict(Records(ids, ids, (2,) * 400))
    right = np.exp(found.log_probs[:, 2])
    assert np.median(right[:200]) > 0.99
    assert 0.4 < np.median(right[200:]) < 0.6
    np.testing.assert_allclose(np.exp(found.log_probs).sum(axis=1), 1)


def test_a_control_that_is_broken_backwards_is_called_inverted() -> None:
    below = Estimate(0.1, 0.05, 0.2, n=100)
    chance = Estimate(0.5, 0.4, 0.6, n=100)
    assert "inverted?" in validate(below, chance, 0.5).reason
    assert "inverted?" not in validate(chance, chance, 0.5).reason
