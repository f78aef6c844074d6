"""The contract of an attack, on a tiny model: right ids, finite answers, no hidden randomness, scores the right way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpeval.context import RunContext
from dpeval.controls import OverfitControl, UntrainedControl
from dpeval.fitness import why_unfit
from dpeval.measure.influence import auc_part
from dpeval.measure.intervals import estimate
from dpeval.models.dependence import is_pooled
from dpeval.plugin import (
    Attack,
    AttributeAttack,
    ExtractionAttack,
    InversionAttack,
    Knowledge,
    MembershipAttack,
)
from dpeval.shadows import CONTROL_SHADOWS, Shelf, halves_of, shadow_split
from dpeval.testing.bench import Tiny, context, global_randomness_watched, require
from dpeval.testing.oracle import Oracle
from dpeval.types import AttackResult, Inferred, Records, Recovered, Scores, Split
from dpeval.views import Memo, embeddings_of, predictions_of

CHANCE = 0.5
"""The AUC of guessing."""
SURE = 0.999
"""The level at which a sign is called wrong: an attack without skill may pass, and does but once in two thousand."""


class AttackSubject:
    """An attack under test, with an untrained model to try it on."""

    def __init__(self, attack: Attack, tiny: Tiny) -> None:
        self.attack, self.tiny = attack, tiny
        defense = UntrainedControl()
        self.release = defense.train(tiny.task, context())
        parts = tiny.parts
        self.knowledge = Knowledge(
            checkpoint=tiny.checkpoint,
            defense=defense,
            auxiliary=parts.auxiliary,
            num_labels=len(tiny.dataset.label_names),
            num_attribute_values=len(tiny.dataset.attribute_values),
        )
        both = (parts.members + parts.nonmembers).take(range(20))
        self.candidates = Records(both.ids, both.texts, both.labels)
        self.shelf = self._shelf()
        self.tap = self._tap()
        with global_randomness_watched("the attack"):
            self.result = self.run(self.candidates)

    def _shelf(self) -> Shelf:
        """A few shadow releases, trained for a moment on halves of the candidates, if the attack wants any."""
        nobody = self.candidates.take([])
        law = halves_of(Split(self.candidates, nobody, nobody, nobody))
        number = range(min(self.attack.shadows, CONTROL_SHADOWS))
        trained = [shadow_split(law, i).trained for i in number]
        defense = OverfitControl(epochs=1, learning_rates=(1e-3,))
        releases = [
            defense.train(replace(self.tiny.task, train=records), context(i))
            for i, records in zip(number, trained, strict=True)
        ]
        return Shelf(trained, lambda i: lambda: releases[i])

    def _context(self, seed: int) -> RunContext:
        return replace(context(seed), shadow_source=lambda count: self.shelf.shadows(count, self.attack.shadows))

    def _tap(self) -> str:
        taps = [*self.tiny.checkpoint.positions()]
        fit = [tap for tap in taps if why_unfit(self.attack, self.tiny.checkpoint, tap) is None]
        require(
            bool(fit), f"unfit at every tap of the tiny model: {why_unfit(self.attack, self.tiny.checkpoint, taps[-1])}"
        )
        return fit[-1]

    def run(self, candidates: Records, seed: int = 0) -> AttackResult:
        """What the attack returns for ``candidates``."""
        ctx = self._context(seed)
        if isinstance(self.attack, MembershipAttack):
            return self.attack.score(predictions_of(Memo(self.release)), candidates, self.knowledge, ctx)
        if isinstance(self.attack, ExtractionAttack):
            return self.attack.extract(predictions_of(Memo(self.release)), candidates, self.knowledge, ctx)
        view = embeddings_of(Memo(self.release), candidates, self.tap)
        if isinstance(self.attack, InversionAttack):
            return self.attack.recover(view, candidates.ids, self.knowledge, ctx)
        require(isinstance(self.attack, AttributeAttack), "not one of the attack bases of dpeval.plugin")
        assert isinstance(self.attack, AttributeAttack)  # noqa: S101 - told to the type checker
        return self.attack.infer(view, candidates.ids, self.knowledge, ctx)


def answers_each_record_once(subject: AttackSubject) -> None:
    """One answer for each record asked about."""
    ids = subject.result.ids
    require(sorted(ids) == sorted(subject.candidates.ids), f"expected one answer per record, got {len(ids)} answers")


def answers_in_the_right_form(subject: AttackSubject) -> None:
    """Scores, tokens for each row, or a score for each attribute value."""
    result = subject.result
    if isinstance(subject.attack, (MembershipAttack, ExtractionAttack)):
        require(isinstance(result, Scores), f"expected Scores, got {type(result).__name__}")
    elif isinstance(subject.attack, InversionAttack):
        require(isinstance(result, Recovered), f"expected Recovered, got {type(result).__name__}")
        _rows_match(subject, result)
    else:
        values = subject.knowledge.num_attribute_values
        good = isinstance(result, Inferred) and result.scores.shape[1] == values
        require(good, f"expected Inferred with {values} columns, one for each attribute value")


def _rows_match(subject: AttackSubject, result: AttackResult) -> None:
    assert isinstance(result, Recovered)  # noqa: S101 - the caller required it
    assert isinstance(subject.attack, InversionAttack)  # noqa: S101
    if subject.attack.answers_bags or is_pooled(subject.tiny.checkpoint, subject.tap):
        return
    rows = subject.release.embed(subject.candidates, subject.tap)
    lengths = {key: len(rows.rows(i)) for i, key in enumerate(rows.ids)}
    for key, tokens in zip(result.ids, result.tokens, strict=True):
        require(
            len(tokens) == lengths[key],
            f"record {key}: {lengths[key]} released rows but {len(tokens)} answers; -1 is 'no answer'",
        )


def is_reproducible(subject: AttackSubject) -> None:
    """The same seed gives the same answers."""
    again = subject.run(subject.candidates)
    require(_by_id(again) == _by_id(subject.result), "two runs with one seed differ: draw from ctx only")


def _by_id(result: AttackResult) -> dict[str, tuple[float, ...]]:
    if isinstance(result, Scores):
        return {key: (float(v),) for key, v in zip(result.ids, result.values, strict=True)}
    if isinstance(result, Inferred):
        return {key: tuple(map(float, v)) for key, v in zip(result.ids, result.scores, strict=True)}
    return {key: tuple(map(float, v)) for key, v in zip(result.ids, result.tokens, strict=True)}


def scores_higher_for_members(subject: AttackSubject) -> None:
    """A higher score means more likely a member (or planted), on a release that gives its members away."""
    attack = subject.attack
    if not isinstance(attack, (MembershipAttack, ExtractionAttack)):
        return
    members, nonmembers = subject.tiny.parts.members, subject.tiny.parts.nonmembers
    both = members + nonmembers
    candidates = Records(both.ids, both.texts, both.labels)
    result = _asked_of_an_oracle(subject, attack, members, nonmembers, candidates)
    known = dict(zip(result.ids, result.values.tolist(), strict=True))
    scores = np.array([known[key] for key in candidates.ids])
    auc = estimate([auc_part(scores, np.arange(len(both)) < len(members), candidates.ids)], level=SURE)
    require(
        auc.high >= CHANCE,
        f"scores have the wrong sign: members get lower scores than non-members (AUC {auc.value:.3f} [{auc.low:.3f}, "
        f"{auc.high:.3f}], guessing {CHANCE:g}) on a release that is sure of its members' labels alone; return minus "
        "the score, since higher means more likely a member",
    )


def _asked_of_an_oracle(
    subject: AttackSubject,
    attack: MembershipAttack | ExtractionAttack,
    members: Records,
    nonmembers: Records,
    candidates: Records,
) -> Scores:
    """What the attack says of an oracle, with shadows that are oracles of halves of the candidates."""
    labels = subject.knowledge.num_labels
    law = halves_of(Split(members, nonmembers, members.take([]), members.take([])))
    trained = [shadow_split(law, i).trained for i in range(min(attack.shadows, CONTROL_SHADOWS))]
    shelf = Shelf(trained, lambda i: lambda: Oracle(frozenset(trained[i].ids), labels))
    ctx = replace(context(), shadow_source=lambda count: shelf.shadows(count, attack.shadows))
    view = predictions_of(Memo(Oracle(frozenset(members.ids), labels)))
    ask = attack.score if isinstance(attack, MembershipAttack) else attack.extract
    return ask(view, candidates, subject.knowledge, ctx)


ATTACK_CHECKS = (
    answers_each_record_once, answers_in_the_right_form, is_reproducible, scores_higher_for_members,
)  # fmt: skip
