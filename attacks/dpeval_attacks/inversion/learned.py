"""Embedding inversion by a decoder trained on texts of the adversary's own, noised as the targets are.

A matrix names it ``use = "invert-learned"``. By hand, with a view, the targets' ids and a
:class:`~dpeval.plugin.Knowledge`::

    recovered = LearnedInversion(kind="bag").recover(view, targets, knowledge, ctx)

>>> LearnedInversion(kind="bag").answers_bags, LearnedInversion().unfit(None, "output")
(True, 'one pooled row, no row per token; kind = "bag" reads it')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpeval.fitness import POOLED
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.dependence import is_pooled
from dpeval.plugin import Context, EmbeddingView, InversionAttack, Knowledge
from dpeval.types import Ints, Recovered, Rows
from dpeval_attacks.draws import check_queries, mean_rows, order_of
from dpeval_attacks.inversion.bags import bags_of_pooled, bags_of_rows, guessed_rows
from dpeval_attacks.inversion.composed import compose, whole_words
from dpeval_attacks.inversion.decoder import Training
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.own import answers_of, asked_rows, check_reading, led_by, rankings_of
from dpeval_attacks.inversion.posterior import in_parts
from dpeval_attacks.inversion.rowdecoder import RowDecoder
from dpeval_attacks.inversion.school import School, released_views
from dpeval_attacks.inversion.search import NO_ANSWER


@dataclass(frozen=True, kw_only=True)
class LearnedInversion(InversionAttack):
    """An adversary on the wire who trains a decoder instead of modelling the release.

    It releases texts of its own through the public client, noise and all, several times over (``views``; a release
    without noise gives one), and trains decoders from released vectors to tokens; a part of its texts is held out and
    says when to stop and what to trust. Where the release tells nothing, what is left is how common words are.

    ``kind = "position"`` names a token for each row, out of the whole vocabulary: a picture bound to the public word
    embeddings and a small network over the tokens of its own texts, mixed as held-out rows tell; ``top_k`` tokens, best
    first. ``kind = "bag"`` says which tokens a text holds, and how often, by those probabilities summed over its rows;
    where one pooled row is all that is released, by a multi-label decoder with a share of the public word embeddings,
    for which ``composed`` further texts are made up of pieces of its own and words of the vocabulary. How sure it must
    be to answer is chosen for the best F1 on the held-out texts. Special tokens are never answered.

    ``hidden`` is the width of a hidden layer beside the linear path, 0 for none. ``queries`` draws of a randomised
    release are averaged, for the targets and in each view alike.
    """

    source: ClassVar[str] = (
        "Song and Raghunathan 2020 (arXiv:2004.00053), sec. 3.2 (multi-label and multi-set decoders)"
    )
    version: ClassVar[int] = 3
    reads_pooled: ClassVar[bool] = True

    kind: Literal["position", "bag"] = "position"
    hidden: int = 0
    views: int = 4
    queries: int = 1
    epochs: int = 40
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4
    max_auxiliary: int = 1000
    composed: int = 2000
    top_k: int = 1

    def __post_init__(self) -> None:
        check_queries(self.queries)
        if self.kind not in ("position", "bag"):
            raise ValueError(f"LearnedInversion: expected kind to be position or bag, got {self.kind!r}")
        for name, least in (
            ("hidden", 0),
            ("views", 1),
            ("epochs", 1),
            ("max_auxiliary", 2),
            ("composed", 0),
            ("top_k", 1),
        ):
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
        most = self.max_auxiliary
        school = School.of(view, knowledge, ctx, views=self.views, queries=self.queries, most=most)
        if self.kind == "position":
            return self._by_position(school, rows, tuple(targets))
        if not is_pooled(knowledge.checkpoint, view.tap):
            return Recovered(tuple(targets), bags_of_rows(school, rows, self.training))
        bags = bags_of_pooled(school, rows, self.training, made_up=self._made_up(school, view))
        return Recovered(tuple(targets), bags)

    def _by_position(self, school: School, rows: list[Rows], targets: tuple[str, ...]) -> Recovered:
        decoder, study = RowDecoder.fit(school, self.training)
        asked, places = asked_rows(rows, study)
        best = np.full((len(asked), self.top_k), NO_ANSWER, dtype=np.int64)
        fine = np.isfinite(asked.rows).all(axis=1) & np.any(asked.rows, axis=1)
        if fine.any():
            best[fine] = np.concatenate(in_parts(asked.where(fine), lambda part: self._best(decoder, part)))
        if decoder.blind and fine.any():
            usable = [np.where(np.isfinite(text), text, 0) for text in rows]
            guess = np.where(fine, guessed_rows(school, decoder, study, usable, places), NO_ANSWER)
            best = led_by(guess, best)[:, : self.top_k] if self.top_k > 1 else guess[:, None]
        answers = answers_of(best[:, 0], places, rows, school.special_ids)
        return Recovered(targets, answers, rankings_of(best, places, rows, school.special_ids))

    def _best(self, decoder: RowDecoder, part: Sample) -> Ints:
        probs = decoder.probs(part)
        few = min(self.top_k, probs.shape[1])
        top = np.argpartition(-probs, few - 1, axis=1)[:, :few]
        order = np.argsort(-np.take_along_axis(probs, top, axis=1), axis=1, kind="stable")
        found = np.full((len(part), self.top_k), NO_ANSWER, dtype=np.int64)
        found[:, :few] = decoder.posterior.allowed[np.take_along_axis(top, order, axis=1)]
        return found

    def _made_up(self, school: School, view: EmbeddingView) -> tuple[Sequence[Rows], list[list[int]]]:
        """Released made-up texts of pieces of texts that are not held out, with their tokens."""
        learnt = school.texts.take(np.flatnonzero(~school.tried).tolist()).texts
        rng = school.ctx.rng("composed")
        made = compose(learnt, whole_words(school.checkpoint), self.composed, rng)
        if not len(made):
            return (), []
        released = released_views(view, made, 1, self.queries)[0]
        good = [i for i, rows in enumerate(released) if np.isfinite(rows).all()]
        tokens = school.checkpoint.tokens(made)
        words = [[t for t in tokens[i] if t not in school.special_ids] for i in good]
        return [released[i] for i in good], words

    @property
    def training(self) -> Training:
        """How the decoder is trained."""
        return Training(
            self.epochs, learning_rate=self.learning_rate, weight_decay=self.weight_decay, hidden=self.hidden
        )
