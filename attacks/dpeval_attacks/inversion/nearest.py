"""Embedding inversion by nearest neighbour: read each released row as the token that explains it best.

A matrix names it ``use = "invert-nearest"``. By hand, with a view, the targets' ids and a
:class:`~dpeval.plugin.Knowledge`::

    recovered = NearestInversion().recover(view, targets, knowledge, ctx)

>>> NearestInversion().unfit(None, "output")
'one pooled row, no row per token'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpeval.models.checkpoint import Checkpoint
from dpeval.plugin import Context, EmbeddingView, InversionAttack, Knowledge
from dpeval.types import Ints, Records, Recovered, Rows
from dpeval_attacks.draws import check_queries, mean_rows, order_of
from dpeval_attacks.inversion.observation import Picture, Sample, fit_picture, log_frequencies
from dpeval_attacks.inversion.public import public_sample
from dpeval_attacks.inversion.reader import Reader
from dpeval_attacks.inversion.search import METRICS, NO_ANSWER, Metric
from dpeval_attacks.inversion.study import Study, study_releases

HELD_OUT = 0.2
"""Share of the auxiliary texts on which the adversary tries its pictures before it uses one."""
HELD_OUT_ROWS = 600
GOOD_ENOUGH = 0.995
"""Held-out accuracy above which no second picture is tried."""
PUBLIC_RIDGE = 0.1
"""Clear public rows carry no noise and need this share of the ridge."""


@dataclass(frozen=True, kw_only=True)
class NearestInversion(InversionAttack):
    """An adversary on the wire between a user's device and the server, who wants to read what the user wrote.

    It has the released rows, the public checkpoint with its word-embedding table, the public client, and texts like
    the user's. It releases those texts itself, noise and all, and fits how a token's word embedding and position turn
    into a released row, and how the rest scatters. It fits the same on the clear rows of the public checkpoint, which
    carry no noise, and keeps whichever picture reads held-out texts better: the public one where the model before the
    tap was left as published, the learnt one where it was trained. Then it reads each intercepted row as the nearest
    candidate among all vocabulary entries (faiss, exact). Special tokens are never an answer; rows it takes for special
    tokens or padding, rows of zeros and broken rows stay unanswered. Where the release pads to a fixed number of rows
    it guesses the length from the rows' energies.

    ``metric``: ``l2`` is the Mahalanobis distance under the fitted noise, ``cosine`` the angle after the same
    whitening. ``prior`` adds how often a token occurs in the auxiliary texts, as Bayes' rule says. ``ridge`` is
    relative to the spread of the word embeddings. ``queries`` draws of a randomised release are averaged, for the
    targets and for its own texts alike. ``max_auxiliary`` bounds the texts it learns from.
    """

    source: ClassVar[str] = "Song and Raghunathan 2020 (arXiv:2004.00053); Du et al. 2023 (arXiv:2309.06746), sec. 6.3"

    metric: Metric = "l2"
    prior: bool = True
    ridge: float = 1.0
    queries: int = 1
    max_auxiliary: int = 500

    def __post_init__(self) -> None:
        check_queries(self.queries)
        if self.metric not in METRICS:
            raise ValueError(
                f"NearestInversion: expected metric to be one of {', '.join(METRICS)}, got {self.metric!r}"
            )
        if not self.ridge >= 0:
            raise ValueError(f"NearestInversion: expected ridge >= 0, got {self.ridge}")
        if self.max_auxiliary < 2:
            raise ValueError(f"NearestInversion: expected max_auxiliary >= 2 texts, got {self.max_auxiliary}")

    def unfit(self, checkpoint: Checkpoint, tap: str | None) -> str | None:
        """A pooled release has no row per token to read."""
        del checkpoint
        return "one pooled row, no row per token" if tap == "output" else None

    def recover(self, view: EmbeddingView, targets: Sequence[str], knowledge: Knowledge, ctx: Context) -> Recovered:
        """For each target a token id per released row; ``-1`` where the row is special, padding, zero or not finite."""
        found = mean_rows(lambda draw: view.intercepted(draw=draw), self.queries)
        rows = [found.rows(i) for i in order_of(found.ids, targets)]
        if not rows:
            return Recovered((), ())
        return Recovered(tuple(targets), self._learn(view, knowledge, ctx).answers(rows))

    def _learn(self, view: EmbeddingView, knowledge: Knowledge, ctx: Context) -> _Lesson:
        checkpoint = knowledge.checkpoint
        texts = _sample_of(knowledge.auxiliary, self.max_auxiliary, ctx)
        tokens = checkpoint.tokens(texts)
        released = mean_rows(lambda draw: view.embed(texts, draw=draw), self.queries)
        rows = [released.rows(i) for i in order_of(released.ids, texts.ids)]
        study = study_releases(texts.ids, rows, tokens, special_ids=checkpoint.special_ids)
        school = _School(self, checkpoint.input_embeddings(), study, checkpoint.special_ids)
        picture = school.picture(study.sample, self.ridge)
        learn_on, try_on = _parted(study, len(texts), ctx)
        held_out = school.reader(school.picture(learn_on, self.ridge), learn_on).accuracy(try_on)
        if held_out < GOOD_ENOUGH:
            width = study.sample.rows.shape[1]
            clear = public_sample(checkpoint, texts, tokens, view.tap, width=width, device=ctx.device)
            rival = None if clear is None else school.picture(clear, self.ridge * PUBLIC_RIDGE)
            if rival is not None and school.reader(rival, learn_on).accuracy(try_on) >= held_out:
                picture = rival
        return _Lesson(study, school.reader(picture, study.sample), checkpoint.special_ids)


@dataclass(frozen=True, eq=False)
class _School:
    """What does not change from one picture to the next."""

    attack: NearestInversion
    table: Rows
    study: Study
    special_ids: frozenset[int]

    def picture(self, sample: Sample, ridge: float) -> Picture:
        return fit_picture(sample, self.table, ridge=ridge)

    def reader(self, picture: Picture, sample: Sample) -> Reader:
        said = self.study.inner_tokens
        # A special token met inside texts (unknown words, a separator) competes, so that its rows are not misread.
        barred = self.special_ids - set(said.tolist())
        allowed = np.array([v for v in range(len(self.table)) if v not in barred], dtype=np.int64)
        prior = log_frequencies(said, len(self.table)) if self.attack.prior else None
        return Reader.of(picture, sample, allowed=allowed, metric=self.attack.metric, log_prior=prior)


@dataclass(frozen=True, eq=False)
class _Lesson:
    """What the adversary takes from its own texts to the intercepted ones."""

    study: Study
    reader: Reader
    special_ids: frozenset[int]

    def answers(self, texts: Sequence[Rows]) -> tuple[tuple[int, ...], ...]:
        """A token id or -1 for each row of each text; one search for all."""
        layouts = [self.study.layout(rows) for rows in texts]
        inner = [rows[part.first : part.last] for rows, part in zip(texts, layouts, strict=True)]
        counts = [len(rows) for rows in inner]
        asked = Sample(
            rows=np.concatenate(inner),
            tokens=np.full(sum(counts), NO_ANSWER),
            positions=np.concatenate([part.first + np.arange(n) for part, n in zip(layouts, counts, strict=True)]),
            gains=np.repeat([part.gain for part in layouts], counts),
        )
        read = self.reader.read(asked)
        read[np.isin(read, list(self.special_ids))] = NO_ANSWER
        pieces = np.split(read, np.cumsum(counts)[:-1])
        return tuple(
            _padded(piece, part.first, len(rows)) for piece, part, rows in zip(pieces, layouts, texts, strict=True)
        )


def _padded(read: Ints, first: int, length: int) -> tuple[int, ...]:
    whole = np.full(length, NO_ANSWER, dtype=np.int64)
    whole[first : first + len(read)] = read
    return tuple(whole.tolist())


def _sample_of(auxiliary: Records, most: int, ctx: Context) -> Records:
    if len(auxiliary) < 2:
        raise ValueError(f"NearestInversion: expected at least 2 auxiliary texts to learn from, got {len(auxiliary)}")
    if len(auxiliary) <= most:
        return auxiliary
    return auxiliary.take(np.sort(ctx.rng("auxiliary").choice(len(auxiliary), most, replace=False)).tolist())


def _parted(study: Study, texts: int, ctx: Context) -> tuple[Sample, Sample]:
    """The rows to learn on, and some rows of other texts to try the result on."""
    rng = ctx.rng("held-out")
    tried = np.zeros(texts, dtype=bool)
    tried[rng.permutation(texts)[: max(1, round(HELD_OUT * texts))]] = True
    inside = np.flatnonzero(tried[study.texts] & study.is_inner)
    chosen = np.sort(rng.permutation(inside)[:HELD_OUT_ROWS])
    keep = np.zeros(len(study.texts), dtype=bool)
    keep[chosen] = True
    return study.sample.where(~tried[study.texts]), study.sample.where(keep)
