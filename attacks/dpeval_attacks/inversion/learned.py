"""Embedding inversion by a decoder trained on texts of the adversary's own, noised as the targets are.

A matrix names it ``use = "invert-learned"``. By hand, with a view, the targets' ids and a
:class:`~dpeval.plugin.Knowledge`::

    recovered = LearnedInversion(kind="bag").recover(view, targets, knowledge, ctx)

>>> LearnedInversion(kind="bag").answers_bags, LearnedInversion().unfit(None, "output")
(True, 'one pooled row, no row per token; kind = "bag" reads it')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpeval.fitness import POOLED
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.dependence import is_pooled
from dpeval.plugin import Context, EmbeddingView, InversionAttack, Knowledge
from dpeval.types import Embeddings, Floats, Ints, Records, Recovered, Rows
from dpeval_attacks.draws import check_queries, mean_rows, order_of
from dpeval_attacks.inversion.decoder import Decoder, Lesson, Training, Vectors, fit_decoder
from dpeval_attacks.inversion.own import HELD_OUT, answers_of, asked_rows, check_reading, some_texts
from dpeval_attacks.inversion.search import NO_ANSWER
from dpeval_attacks.inversion.study import Study, study_releases

_THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Probabilities above which a token is answered; chosen on held-out texts."""


@dataclass(frozen=True, kw_only=True)
class LearnedInversion(InversionAttack):
    """An adversary on the wire who trains a decoder instead of modelling the release.

    It releases texts of its own through the public client, noise and all, several times over (``views``; a release
    without noise gives one), and trains a small network from released vectors to tokens; a part of its texts is held
    out and says when to stop. ``kind = "position"`` names one token for each row. ``kind = "bag"`` pools the rows of a
    text (or takes the one pooled row that is released) and says of each token whether the text holds it; how sure it
    must be to answer is chosen for the best F1 on the held-out texts. Only tokens of its own texts can be answered,
    special ones never.

    ``hidden`` is the width of a hidden layer beside the linear path, 0 for none. ``queries`` draws of a randomised
    release are averaged, for the targets and in each view alike.
    """

    source: ClassVar[str] = (
        "Song and Raghunathan 2020 (arXiv:2004.00053), sec. 3.2 (multi-label and multi-set decoders)"
    )
    version: ClassVar[int] = 2
    reads_pooled: ClassVar[bool] = True

    kind: Literal["position", "bag"] = "position"
    hidden: int = 0
    views: int = 4
    queries: int = 1
    epochs: int = 40
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4
    max_auxiliary: int = 1000

    def __post_init__(self) -> None:
        check_queries(self.queries)
        if self.kind not in ("position", "bag"):
            raise ValueError(f"LearnedInversion: expected kind to be position or bag, got {self.kind!r}")
        for name, least in (("hidden", 0), ("views", 1), ("epochs", 1), ("max_auxiliary", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"LearnedInversion: expected {name} >= {least}, got {getattr(self, name)}")
        if not self.learning_rate > 0 or not self.weight_decay >= 0:
            got = f"{self.learning_rate} and {self.weight_decay}"
            raise ValueError(f"LearnedInversion: expected learning_rate > 0 and weight_decay >= 0, got {got}")

    @property
    def answers_bags(self) -> bool:
        """A bag decoder's answers have no order."""
        return self.kind == "bag"

    def unfit(self, checkpoint: Checkpoint, tap: str | None) -> str | None:
        """A position-wise decoder needs a row per token."""
        pooled = tap == "output" or (tap is not None and is_pooled(checkpoint, tap))
        return f'{POOLED}; kind = "bag" reads it' if pooled and self.kind == "position" else None

    def recover(self, view: EmbeddingView, targets: Sequence[str], knowledge: Knowledge, ctx: Context) -> Recovered:
        """For each target a token per released row, ``-1`` for none; or the bag of tokens it seems to hold."""
        check_reading(view, knowledge.checkpoint)
        found = mean_rows(lambda draw: view.intercepted(draw=draw), self.queries)
        rows = [found.rows(i) for i in order_of(found.ids, targets)]
        if not rows:
            return Recovered((), ())
        school = _School.of(self, view, knowledge, ctx)
        read = school.bags(rows) if self.kind == "bag" else school.by_position(rows)
        return Recovered(tuple(targets), read)

    @property
    def training(self) -> Training:
        """How the decoder is trained."""
        return Training(
            self.epochs, learning_rate=self.learning_rate, weight_decay=self.weight_decay, hidden=self.hidden
        )


@dataclass(frozen=True, eq=False)
class _School:
    """Own texts in several views, with their tokens, and which are held out."""

    attack: LearnedInversion
    tokens: list[list[int]]
    views: list[list[Rows]]
    tried: np.ndarray
    special_ids: frozenset[int]
    pooled: bool
    ctx: Context

    @classmethod
    def of(cls, attack: LearnedInversion, view: EmbeddingView, knowledge: Knowledge, ctx: Context) -> _School:
        checkpoint = knowledge.checkpoint
        texts = some_texts(knowledge.auxiliary, attack.max_auxiliary, ctx, type(attack).__name__)
        tried = np.zeros(len(texts), dtype=bool)
        tried[ctx.rng("held-out").permutation(len(texts))[: max(1, round(HELD_OUT * len(texts)))]] = True
        views = _views(view, texts, attack.views, attack.queries)
        pooled = is_pooled(checkpoint, view.tap)
        return cls(attack, checkpoint.tokens(texts), views, tried, checkpoint.special_ids, pooled, ctx)

    # --- one token for each row ---

    def by_position(self, rows: Sequence[Rows]) -> tuple[tuple[int, ...], ...]:
        ids = [str(i) for i in range(len(self.tokens))]
        studies = [study_releases(ids, v, self.tokens, special_ids=self.special_ids) for v in self.views]
        asked, places = asked_rows(rows, studies[0])
        known = np.unique(studies[0].inner_tokens)
        read = np.full(len(asked), NO_ANSWER, dtype=np.int64)
        fine = np.isfinite(asked.rows).all(axis=1) & np.any(asked.rows, axis=1)
        if len(known) and fine.any():
            decoder = self._position_decoder(studies, known)
            vectors = _scaled(asked.rows[fine], asked.gains[fine], asked.positions[fine])
            read[fine] = known[decoder.scores(vectors).argmax(axis=1)]
        return answers_of(read, places, rows, self.special_ids)

    def _position_decoder(self, studies: Sequence[Study], known: Ints) -> Decoder:
        learn, held = [], []
        for study in studies:
            inside = study.is_inner
            mine = self.tried[study.texts]
            sample = study.sample
            learn.append(_scaled(*(x[inside & ~mine] for x in (sample.rows, sample.gains, sample.positions))))
            held.append(_scaled(*(x[inside & mine] for x in (sample.rows, sample.gains, sample.positions))))
        first = studies[0]
        truth = np.searchsorted(known, first.sample.tokens)
        mine = self.tried[first.texts]
        learnt, tried = truth[first.is_inner & ~mine], truth[first.is_inner & mine]
        shares = (np.bincount(learnt, minlength=len(known)) + 0.05) / (len(learnt) + 0.05 * len(known))
        same = [view for view in learn if len(view.rows) == len(learnt)]
        return fit_decoder(
            Lesson(same, learnt, held[0], tried),
            self.attack.training,
            several=False,
            log_prior=np.log(shares),
            generator=self.ctx.generator("decoder"),
            device=self.ctx.device,
        )

    # --- a bag for each text ---

    def bags(self, rows: Sequence[Rows]) -> tuple[tuple[int, ...], ...]:
        known = np.array(sorted({t for ids in self.tokens for t in ids} - self.special_ids), dtype=np.int64)
        vectors = _pooled(rows)
        fine = np.isfinite(vectors.rows).all(axis=1) & np.any(vectors.rows, axis=1)
        if not len(known) or not fine.any():
            return ((),) * len(rows)
        decoder, threshold = self._bag_decoder(known)
        scores = iter(decoder.scores(Vectors(vectors.rows[fine], vectors.positions[fine])))
        return tuple(_bag(next(scores), known, threshold) if good else () for good in fine)

    def _bag_decoder(self, known: Ints) -> tuple[Decoder, float]:
        holds = np.zeros((len(self.tokens), len(known)), dtype=np.float32)
        for i, ids in enumerate(self.tokens):
            holds[i, [int(np.searchsorted(known, t)) for t in ids if t not in self.special_ids]] = 1.0
        pooled = [_pooled(view) for view in self.views]
        usable = np.logical_and.reduce([np.isfinite(view.rows).all(axis=1) for view in pooled])
        learn, held = usable & ~self.tried, usable & self.tried
        shares = (holds[learn].sum(axis=0) + 0.05) / (int(learn.sum()) + 0.1)
        lesson = Lesson(
            [Vectors(view.rows[learn], view.positions[learn]) for view in pooled],
            holds[learn],
            Vectors(pooled[0].rows[held], pooled[0].positions[held]),
            holds[held],
        )
        decoder = fit_decoder(
            lesson,
            self.attack.training,
            several=True,
            log_prior=np.log(shares / (1 - np.minimum(shares, 1 - 1e-6))),
            generator=self.ctx.generator("decoder"),
            device=self.ctx.device,
        )
        return decoder, self._threshold(decoder.scores(lesson.held_out), known, np.flatnonzero(held))

    def _threshold(self, scores: Floats, known: Ints, texts: Ints) -> float:
        """The probability that gives the held-out texts the best F1."""

        def f1(threshold: float) -> float:
            right = said = asked = 0
            for row, i in zip(scores, texts, strict=True):
                bag = Counter(_bag(row, known, threshold))
                truth = Counter(t for t in self.tokens[i] if t not in self.special_ids)
                right += (bag & truth).total()
                said, asked = said + bag.total(), asked + truth.total()
            return 2 * right / max(1, said + asked)

        return max(_THRESHOLDS, key=f1)


def _views(view: EmbeddingView, texts: Records, views: int, queries: int) -> list[list[Rows]]:
    """The rows of each text in each view; a view that only repeats the first ends the asking."""
    found: list[Embeddings] = []
    for number in range(views):
        released = mean_rows(lambda draw: view.embed(texts, draw=draw), queries, start=number * queries)
        if found and np.array_equal(released.values, found[0].values, equal_nan=True):
            break
        found.append(released)
    return [[one.rows(i) for i in order_of(one.ids, texts.ids)] for one in found]


def _scaled(rows: np.ndarray, gains: Floats, positions: Ints) -> Vectors:
    return Vectors((rows / gains[:, None]).astype(np.float32), np.asarray(positions, dtype=np.int64))


def _pooled(texts: Sequence[Rows]) -> Vectors:
    """The mean row of each text, scaled to its own number of rows of strength: a short text is not a weak one."""
    rows = np.stack([text.mean(axis=0, dtype=np.float64) if len(text) else np.zeros(text.shape[1]) for text in texts])
    return Vectors(rows.astype(np.float32), np.zeros(len(texts), dtype=np.int64))


def _bag(scores: Floats, known: Ints, threshold: float) -> tuple[int, ...]:
    """The tokens above the threshold, surest first; the surest alone where none is."""
    order = np.argsort(-scores, kind="stable")
    least = np.log(threshold / (1 - threshold))
    count = max(1, int(np.count_nonzero(scores > least)))
    return tuple(int(t) for t in known[order[:count]])
