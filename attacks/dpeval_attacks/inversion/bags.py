"""Bags of tokens: from the probabilities of each row, or from one pooled row by a multi-label decoder.

With a :class:`~dpeval_attacks.inversion.school.School` and released texts at hand::

    bags = bags_of_rows(school, rows, training)
    bags = bags_of_pooled(school, rows, training, made_up=released_composed_texts)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpeval.types import Ints, Rows
from dpeval_attacks.inversion.decoder import Decoder, Lesson, Training, Vectors, fit_decoder
from dpeval_attacks.inversion.own import asked_rows
from dpeval_attacks.inversion.posterior import in_parts
from dpeval_attacks.inversion.rowdecoder import RowDecoder
from dpeval_attacks.inversion.school import School
from dpeval_attacks.inversion.search import NO_ANSWER
from dpeval_attacks.inversion.slots import Occupied, Slot, answer, best_threshold, occupied, slots_of
from dpeval_attacks.inversion.study import Study

Bags = tuple[tuple[int, ...], ...]
_SLOWER = 5.0
"""So much smaller are steps for all tokens at once, of which most are rare."""
_REPEATED = 0.02
"""A second occurrence of a token is a class of its own where this share of texts has one."""


def bags_of_rows(school: School, texts: Sequence[Rows], training: Training) -> Bags:
    """The expected number of each token over the rows of a text says which slots it has."""
    decoder, study = RowDecoder.fit(school, training)
    held = np.flatnonzero(school.tried)
    tried = _counted(decoder, study, [school.views[0][i] for i in held], school)
    threshold = best_threshold(tried, [school.words(int(i)) for i in held])
    fine = [bool(len(rows) and np.isfinite(rows).all() and np.any(rows)) for rows in texts]
    found = iter(_counted(decoder, study, [rows for rows, good in zip(texts, fine, strict=True) if good], school))
    return tuple(answer(next(found), threshold) if good else () for good in fine)


def guessed_rows(
    school: School, decoder: RowDecoder, study: Study, texts: Sequence[Rows], places: Sequence[tuple[int, int]]
) -> Ints:
    """For a decoder that is blind: the likeliest bag of each text, spread over its rows; the rest stay unanswered.

    Naming the commonest token in every row would be right once or twice a text; a bag of common tokens more often.
    """
    held = np.flatnonzero(school.tried)
    tried = _counted(decoder, study, [school.views[0][i] for i in held], school)
    threshold = best_threshold(tried, [school.words(int(i)) for i in held])
    found = [np.full(count, NO_ANSWER, dtype=np.int64) for _, count in places]
    for rows, slots in zip(found, _counted(decoder, study, texts, school), strict=True):
        bag = answer(slots, threshold)[: len(rows)]
        rows[: len(bag)] = bag
    return np.concatenate(found)


def _counted(decoder: RowDecoder, study: Study, texts: Sequence[Rows], school: School) -> list[Occupied]:
    if not texts:
        return []
    asked, places = asked_rows(texts, study)
    text = np.repeat(np.arange(len(texts)), [count for _, count in places])
    expected = np.zeros((len(texts), len(decoder.posterior.allowed)), dtype=np.float32)
    start = 0
    for probs in in_parts(asked, decoder.probs):
        np.add.at(expected, text[start : start + len(probs)], probs)
        start += len(probs)
    ordinary = ~np.isin(decoder.posterior.allowed, list(school.special_ids))
    tokens = decoder.posterior.allowed[ordinary]
    return [occupied(row[ordinary].astype(np.float64), tokens) for row in expected]


def bags_of_pooled(
    school: School, texts: Sequence[Rows], training: Training, *, made_up: tuple[Sequence[Rows], list[list[int]]]
) -> Bags:
    """A decoder from the pooled row to slots; ``made_up`` are further released texts with their tokens."""
    training = replace(training, learning_rate=training.learning_rate / _SLOWER)
    vectors = _pooled(texts)
    fine = np.isfinite(vectors.rows).all(axis=1) & np.any(vectors.rows, axis=1)
    classes = _Classes.of(school, made_up[1])
    if not len(classes.slots) or not fine.any():
        return ((),) * len(texts)
    decoder, held, numbers = _fit(school, classes, training, made_up)
    tried = [classes.occupied(row) for row in decoder.scores(held)]
    threshold = best_threshold(tried, [school.words(int(i)) for i in numbers])
    scores = iter(decoder.scores(Vectors(vectors.rows[fine], vectors.positions[fine])))
    return tuple(answer(classes.occupied(next(scores)), threshold) if good else () for good in fine)


@dataclass(frozen=True, eq=False)
class _Classes:
    """What a decoder of pooled rows names."""

    slots: list[Slot]

    @classmethod
    def of(cls, school: School, made_up: Sequence[Sequence[int]]) -> _Classes:
        own = [slots_of(school.words(i)) for i in range(len(school.tokens))]
        firsts = {token for ids in (*school.tokens, *made_up) for token in ids} - school.special_ids
        counts: dict[Slot, int] = {}
        for slots in own:
            for slot in slots:
                counts[slot] = counts.get(slot, 0) + 1
        least = max(2.0, _REPEATED * len(own))
        repeated = [slot for slot, n in counts.items() if slot[1] and n >= least]
        return cls(sorted([(token, 0) for token in firsts] + repeated))

    def marks(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Which classes each text has, (n, classes), as 0 and 1."""
        at = {slot: i for i, slot in enumerate(self.slots)}
        found = np.zeros((len(texts), len(self.slots)), dtype=np.float32)
        for i, tokens in enumerate(texts):
            found[i, [at[slot] for slot in slots_of(tokens) if slot in at]] = 1.0
        return found

    @property
    def tokens(self) -> Ints:
        """The token of each class."""
        return np.array([token for token, _ in self.slots], dtype=np.int64)

    def occupied(self, scores: NDArray[np.floating]) -> Occupied:
        """Slots by their log-odds, likeliest first."""
        order, probs = np.argsort(-scores, kind="stable"), expit(scores)
        return [(self.slots[i], float(probs[i])) for i in order[: max(1, int(np.sum(probs > 0.01)))]]


def _fit(
    school: School, classes: _Classes, training: Training, made_up: tuple[Sequence[Rows], list[list[int]]]
) -> tuple[Decoder, Vectors, Ints]:
    """The decoder, the held-out vectors, and the numbers of their texts."""
    holds = classes.marks([school.words(i) for i in range(len(school.tokens))])
    pooled = [_pooled(view) for view in school.views]
    usable = np.logical_and.reduce([np.isfinite(view.rows).all(axis=1) for view in pooled])
    learn, held = usable & ~school.tried, usable & school.tried
    shares = (holds[learn].sum(axis=0) + 0.05) / (int(learn.sum()) + 0.1)
    others = _pooled(made_up[0]) if len(made_up[0]) else None
    table = school.checkpoint.input_embeddings()[classes.tokens]
    tried = Vectors(pooled[0].rows[held], pooled[0].positions[held])
    lesson = Lesson(
        [Vectors(view.rows[learn], view.positions[learn]) for view in pooled],
        holds[learn],
        tried,
        holds[held],
        made_up=None if others is None else (others, classes.marks(made_up[1])),
        table=(table - table.mean(axis=0)) / (float(table.std()) or 1.0),
    )
    decoder = fit_decoder(
        lesson,
        training,
        several=True,
        log_prior=np.log(shares / (1 - np.minimum(shares, 1 - 1e-6))),
        generator=school.ctx.generator("decoder"),
        device=school.ctx.device,
    )
    return decoder, tried, np.flatnonzero(held)


def _pooled(texts: Sequence[Rows]) -> Vectors:
    rows = np.stack([text.mean(axis=0, dtype=np.float64) if len(text) else np.zeros(text.shape[1]) for text in texts])
    return Vectors(rows.astype(np.float32), np.zeros(len(texts), dtype=np.int64))
