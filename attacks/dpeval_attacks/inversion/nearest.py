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
from dpeval.types import Embeddings, Floats, Ints, Records, Recovered
from dpeval_attacks.draws import check_queries, mean_rows, order_of
from dpeval_attacks.inversion.observation import Picture, Sample, fit_picture, log_frequencies
from dpeval_attacks.inversion.public import public_rows
from dpeval_attacks.inversion.reader import Reader
from dpeval_attacks.inversion.search import METRICS, NO_ANSWER, Metric
from dpeval_attacks.inversion.study import Layout, Study, aligned, study_releases

HELD_OUT = 0.2
"""Share of the auxiliary texts on which the adversary tries its pictures before it uses one."""
HELD_OUT_ROWS = 600
GOOD_ENOUGH = 0.995
"""Held-out accuracy above which no second picture is tried."""


@dataclass(frozen=True, kw_only=True)
class NearestInversion(InversionAttack):
    """An adversary on the wire between a user's device and the server, who wants to read what the user wrote.

    It has the released rows, the public checkpoint with its word-embedding table, the public client, and texts like
    the user's. It releases those texts itself, noise and all, and fits how a token's word embedding and position turn
    into a released row, and how the rest scatters. It fits the same on the clear rows of the public checkpoint, which
    carry no noise, and keeps whichever picture reads held-out texts better: the public one where the model before the
    tap was left as published, the learnt one where it was trained. Then it reads each intercepted row as the nearest
    candidate among all vocabulary entries (faiss, exact). Special tokens are never an answer; rows it takes for special
    tokens or padding, rows of zeros and broken rows stay unanswered. Where the release pads to a fixed number of rows it
    guesses the length from the rows' energies.

    ``metric``: ``l2`` is the Mahalanobis distance under the fitted noise, ``cosine`` the angle after the same whitening.
    ``prior`` adds how often a token occurs in the auxiliary texts, as Bayes' rule says. ``ridge`` is relative to the
    spread of the word embeddings. ``queries`` draws of a randomised release are averaged, for the targets and for its
    own texts alike. ``max_auxiliary`` bounds the texts it learns from.
    """

    source: ClassVar[str] = "Song and Raghunathan 2020 (arXiv:2004.00053); Du et al. 2023 (arXiv:2309.06746), section 6.3"

    metric: Metric = "l2"
    prior: bool = True
    ridge: float = 0.1
    queries: int = 1
    max_auxiliary: int = 500

    def __post_init__(self) -> None:
        check_queries(self.queries)
        if self.metric not in METRICS:
            raise ValueError(f"NearestInversion: expected metric to be one of {', '.join(METRICS)}, got {self.metric!r}")
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
        lesson = self._learn(view, knowledge, ctx)
        found = mean_rows(lambda draw: view.intercepted(draw=draw), self.queries)
        at = order_of(found.ids, targets)
        return Recovered(tuple(targets), _answers(found, at, lesson))

    def _learn(self, view: EmbeddingView, knowledge: Knowledge, ctx: Context) -> _Lesson:
        texts = self._auxiliary(knowledge, ctx)
        checkpoint = knowledge.checkpoint
        tokens = checkpoint.tokens(texts)
        released = mean_rows(lambda draw: view.embed(texts, draw=draw), self.queries)
        released = _in_order(released, texts.ids)
        study = study_releases(released, tokens, special_ids=checkpoint.special_ids)
        table = checkpoint.input_embeddings()
        tried = _tried(len(texts), ctx)[study.texts]
        learnt, held_out = study.sample.where(~tried), _some(study.sample.where(tried), ctx)
        reader = self._reader(fit_picture(learnt, table, ridge=self.ridge), learnt, study, checkpoint)
        if reader.accuracy(held_out) >= GOOD_ENOUGH:
            picture = fit_picture(study.sample, table, ridge=self.ridge)
        else:
            clear = aligned(public_rows(checkpoint, texts, view.tap, ctx.device), tokens, np.ones(len(texts)))
            public = fit_picture(clear, table, ridge=self.ridge)
            rival = self._reader(public, learnt, study, checkpoint)
            won = rival.accuracy(held_out) >= reader.accuracy(held_out)
            picture = public if won else fit_picture(study.sample, table, ridge=self.ridge)
        return _Lesson(study, self._reader(picture, study.sample, study, checkpoint), checkpoint.special_ids)
