"""The contract of an attack, on a tiny model: right ids, finite answers, no hidden randomness."""

from __future__ import annotations

from dpeval.controls import UntrainedControl
from dpeval.plugin import (
    Attack,
    AttributeAttack,
    ExtractionAttack,
    InversionAttack,
    Knowledge,
    MembershipAttack,
)
from dpeval.testing.bench import Tiny, context, global_randomness_watched, require
from dpeval.types import AttackResult, Inferred, Records, Recovered, Scores
from dpeval.views import Memo, embeddings_of, predictions_of


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
        self.tap = self._tap()
        with global_randomness_watched("the attack"):
            self.result = self.run(self.candidates)

    def _tap(self) -> str:
        taps = [*self.tiny.checkpoint.positions()]
        fit = [tap for tap in taps if self.attack.unfit(self.tiny.checkpoint, tap) is None]
        require(bool(fit), f"unfit at every tap of the tiny model: {self.attack.unfit(self.tiny.checkpoint, taps[-1])}")
        return fit[-1]

    def run(self, candidates: Records, seed: int = 0) -> AttackResult:
        """What the attack returns for ``candidates``."""
        if isinstance(self.attack, MembershipAttack):
            return self.attack.score(predictions_of(Memo(self.release)), candidates, self.knowledge, context(seed))
        if isinstance(self.attack, ExtractionAttack):
            return self.attack.extract(predictions_of(Memo(self.release)), candidates, self.knowledge, context(seed))
        view = embeddings_of(Memo(self.release), candidates, self.tap)
        if isinstance(self.attack, InversionAttack):
            return self.attack.recover(view, candidates.ids, self.knowledge, context(seed))
        require(isinstance(self.attack, AttributeAttack), "not one of the attack bases of dpeval.plugin")
        assert isinstance(self.attack, AttributeAttack)  # noqa: S101 - told to the type checker
        return self.attack.infer(view, candidates.ids, self.knowledge, context(seed))


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


ATTACK_CHECKS = (answers_each_record_once, answers_in_the_right_form, is_reproducible)
