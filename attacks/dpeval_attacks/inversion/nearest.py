"""Embedding inversion by nearest neighbour: read each released row as the token that explains it best.

A matrix names it ``use = "invert-nearest"``. By hand, with a view, the targets' ids and a
:class:`~dpeval.plugin.Knowledge`::

    recovered = NearestInversion().recover(view, targets, knowledge, ctx)

>>> NearestInversion().unfit(None, "output")
'one pooled row, no row per token'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from dpeval.fitness import POOLED
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.dependence import is_pooled
from dpeval.plugin import Context, EmbeddingView, InversionAttack, Knowledge
from dpeval.types import Floats, Recovered
from dpeval_attacks.draws import check_queries, mean_rows, order_of
from dpeval_attacks.inversion.exact import ExactReader, TokenRows
from dpeval_attacks.inversion.observation import Picture, Sample, fit_picture, log_frequencies
from dpeval_attacks.inversion.own import OwnTexts, answers_of, asked_rows, noise_scale, rankings_of, release_own
from dpeval_attacks.inversion.public import public_sample
from dpeval_attacks.inversion.published import CAVEAT_NEAREST, read_as_published
from dpeval_attacks.inversion.reader import Reader, ReadsRows
from dpeval_attacks.inversion.search import INDEXES, IndexKind
from dpeval_attacks.inversion.search import Metric as SearchMetric

Metric: TypeAlias = Literal["l2", "cosine", "likelihood"]
METRICS: tuple[Metric, ...] = ("l2", "cosine", "likelihood")
GOOD_ENOUGH = 0.995
"""Held-out accuracy above which the first picture is used as it is."""
ENOUGH_ROWS = 150
"""So many held-out rows read without a mistake, and no more are tried."""
FEW_TEXTS = 8
"""So many texts tell whether the release is the public model as it stands."""
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
    whitening. ``likelihood`` takes the noise scale from the defense's published claim instead of fitting it, and where
    a clear row depends on token and position alone (the input embeddings) computes every candidate's row in the public
    model: no picture, the exact posterior. ``prior`` adds how often a token occurs in the auxiliary texts, as Bayes'
    rule says. ``ridge`` is relative to the spread of the word embeddings. ``queries`` draws of a randomised release are
    averaged, for the targets and for its own texts alike. ``max_auxiliary`` bounds the texts it learns from. ``index``
    is how faiss searches: ``flat`` compares with every candidate, ``ivf`` with those near the query, ``auto`` takes
    ``ivf`` above a quarter of a million candidates. ``top_k`` tokens of each row are named, best first: from 5 and from
    10 on the report has the recall among so many. ``protocol = "published"`` is that of Du et al. 2023, for comparison
    beside this attack: the nearest raw word embedding, through a least-squares map where the tap is not the input.
    """

    source: ClassVar[str] = "Song and Raghunathan 2020 (arXiv:2004.00053); Du et al. 2023 (arXiv:2309.06746), sec. 6.3"
    version: ClassVar[int] = 3

    metric: Metric = "l2"
    prior: bool = True
    ridge: float = 1.0
    queries: int = 1
    max_auxiliary: int = 500
    index: IndexKind = "auto"
    top_k: int = 1
    protocol: Literal["sound", "published"] = "sound"

    @property
    def sound(self) -> NearestInversion:
        """The same attack, adapted to the release where it follows the published protocol."""
        return self if self.protocol == "sound" else replace(self, protocol="sound")

    @property
    def caveat(self) -> str:
        """What is wrong with the published protocol."""
        return CAVEAT_NEAREST if self.protocol == "published" else ""

    def __post_init__(self) -> None:
        check_queries(self.queries)
        for name, value, known in (
            ("metric", self.metric, METRICS),
            ("index", self.index, INDEXES),
            ("protocol", self.protocol, ("sound", "published")),
        ):
            if value not in known:
                raise ValueError(f"NearestInversion: expected {name} to be one of {', '.join(known)}, got {value!r}")
        if not self.ridge >= 0:
            raise ValueError(f"NearestInversion: expected ridge >= 0, got {self.ridge}")
        if self.top_k < 1:
            raise ValueError(f"NearestInversion: expected top_k >= 1, got {self.top_k}")
        if self.max_auxiliary < 2:
            raise ValueError(f"NearestInversion: expected max_auxiliary >= 2 texts, got {self.max_auxiliary}")

    def unfit(self, checkpoint: Checkpoint, tap: str | None) -> str | None:
        """A pooled release has no row per token to read."""
        return POOLED if tap == "output" or (tap is not None and is_pooled(checkpoint, tap)) else None

    def recover(self, view: EmbeddingView, targets: Sequence[str], knowledge: Knowledge, ctx: Context) -> Recovered:
        """For each target a token id per released row; ``-1`` where the row is special, padding, zero or not finite."""
        found = mean_rows(lambda draw: view.intercepted(draw=draw), self.queries)
        rows = [found.rows(i) for i in order_of(found.ids, targets)]
        if not rows:
            return Recovered((), ())
        own = release_own(view, knowledge, ctx, queries=self.queries, most=self.max_auxiliary, who=type(self).__name__)
        asked, places = asked_rows(rows, own.study)
        if self.protocol == "published":
            at_input = view.tap == "embedding" and own.width == own.table.shape[1]
            learn_on = None if at_input else own.study.sample
            best = read_as_published(asked.rows, table=own.table, allowed=own.allowed, learn_on=learn_on, k=self.top_k)
        else:
            best = self.reader(own, view, knowledge, ctx).best(asked, self.top_k)
        answers = answers_of(best[:, 0], places, rows, own.special_ids)
        return Recovered(tuple(targets), answers, rankings_of(best, places, rows, own.special_ids))

    def reader(self, own: OwnTexts, view: EmbeddingView, knowledge: Knowledge, ctx: Context) -> ReadsRows:
        """The way of reading rows that does best on held-out texts of the adversary's own."""
        school = _School.of(self, own, view, knowledge, ctx)
        learn_on, try_on = own.parted(ctx)
        sample = own.study.sample
        exact = school.exact(sample)
        if exact is not None and exact.unexplained <= school.picture(sample, self.ridge).unexplained(sample):
            return exact
        tried = school.read_by(school.picture(learn_on, self.ridge), learn_on)
        few = try_on.where(np.arange(len(try_on)) < ENOUGH_ROWS)
        if len(few) == ENOUGH_ROWS and tried.accuracy(few) == 1:
            return tried
        held_out = tried.accuracy(try_on)
        if held_out >= GOOD_ENOUGH:
            return tried
        clear = self._public(own, view, knowledge, ctx)
        rival = None if clear is None else school.picture(clear, self.ridge * PUBLIC_RIDGE)
        if rival is not None and school.read_by(rival, learn_on).accuracy(try_on) >= held_out:
            return school.read_by(rival, sample)
        return school.read_by(school.picture(sample, self.ridge), sample)

    @staticmethod
    def _public(own: OwnTexts, view: EmbeddingView, knowledge: Knowledge, ctx: Context) -> Sample | None:
        """The clear public rows of own texts; ``None`` where there are none, or where they are what is released."""

        def rows(count: int) -> Sample | None:
            texts, tokens = own.texts.take(range(count)), own.tokens[:count]
            return public_sample(knowledge.checkpoint, texts, tokens, view.tap, width=own.width, device=ctx.device)

        few = rows(min(FEW_TEXTS, len(own.texts)))
        released = own.study.sample.rows[: 0 if few is None else len(few)]
        if few is None or (few.rows.shape == released.shape and np.allclose(few.rows, released, rtol=0, atol=1e-5)):
            return None
        return rows(len(own.texts))


@dataclass(frozen=True, eq=False)
class _School:
    """What does not change from one way of reading to the next."""

    attack: NearestInversion
    own: OwnTexts
    log_prior: Floats | None
    noise: float
    rows: TokenRows | None

    @classmethod
    def of(
        cls, attack: NearestInversion, own: OwnTexts, view: EmbeddingView, knowledge: Knowledge, ctx: Context
    ) -> _School:
        prior = log_frequencies(own.study.inner_tokens, len(own.table)) if attack.prior else None
        if attack.metric != "likelihood":
            return cls(attack, own, prior, 0.0, None)
        noise = noise_scale(view, own.texts, knowledge.claim, attack.queries)
        rows = TokenRows.of(knowledge.checkpoint, view.tap, own.texts, own.tokens, width=own.width, device=ctx.device)
        return cls(attack, own, prior, noise, rows)

    def exact(self, sample: Sample) -> ExactReader | None:
        if self.rows is None:
            return None
        return ExactReader.of(self.rows, sample, allowed=self.own.allowed, log_prior=self.log_prior, noise=self.noise)

    def picture(self, sample: Sample, ridge: float) -> Picture:
        return fit_picture(sample, self.own.table, ridge=ridge)

    def read_by(self, picture: Picture, sample: Sample) -> Reader:
        metric: SearchMetric = "cosine" if self.attack.metric == "cosine" else "l2"
        return Reader.of(
            picture,
            sample,
            allowed=self.own.allowed,
            metric=metric,
            log_prior=self.log_prior,
            noise=self.noise,
            index=self.attack.index,
        )
