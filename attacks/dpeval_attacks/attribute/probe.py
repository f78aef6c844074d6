"""Attribute inference with a probe: a classifier from the released embedding to a sensitive attribute.

A matrix names it ``use = "attribute-probe"``. By hand, with a view, the targets' ids and a
:class:`~dpeval.plugin.Knowledge`::

    inferred = AttributeProbe(model="mlp").infer(view, targets, knowledge, ctx)

>>> AttributeProbe(model="forest")
Traceback (most recent call last):
    ...
ValueError: AttributeProbe: expected model to be one of logistic, mlp, knn, got 'forest'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from dpeval.models.text_encoding import check_same_encoding
from dpeval.plugin import AttributeAttack, Context, EmbeddingView, Knowledge
from dpeval.types import Embeddings, Floats, Inferred, Records, Rows
from dpeval_attacks.attribute.classify import MODELS, Lesson, Model, fit_classifier
from dpeval_attacks.draws import check_queries, mean_rows, order_of

MOST_VECTORS = 20_000
"""Rows that a classifier of single tokens is trained on at most, drawn at random."""


@dataclass(frozen=True, kw_only=True)
class AttributeProbe(AttributeAttack):
    """An adversary on the wire who does not care what the text says, but who wrote it or what it gives away.

    It has the released rows of the targets, the public client, and texts like theirs whose attribute it knows. It
    releases those texts itself, noise and all, and trains a classifier from released vector to attribute: ``logistic``,
    ``mlp`` (one hidden layer) or ``knn``. With ``pooling = "mean"`` a text is the mean of its rows; with ``"tokens"``
    every row votes for its text, which finds an attribute that single words give away. How hard to regularise it finds
    by cross-validation on its own texts, near-duplicates kept together; the targets take no part in any fitting. Then
    it reads the attribute off each intercepted text.

    A randomised release is asked ``queries`` times and averaged, targets and own texts alike. Its own texts it may
    release as often as it likes: with ``views`` it trains on that many differently noised copies of each, which helps
    where noise is strong and costs as many more releases. A release without noise gives one copy. ``balanced`` weighs
    attribute values alike however rare they are. A value that none of its texts has gets the lowest score.

    ``protocol = "published"`` is that of Du et al. 2023 for comparison: one noised copy, no weights for rare values.
    """

    source: ClassVar[str] = "Song and Raghunathan 2020 (arXiv:2004.00053); Du et al. 2023 (arXiv:2309.06746), sec. 6.4"
    version: ClassVar[int] = 3

    model: Model = "logistic"
    pooling: Literal["mean", "tokens"] = "mean"
    balanced: bool = True
    queries: int = 1
    views: int = 4
    protocol: Literal["sound", "published"] = "sound"

    @property
    def sound(self) -> AttributeProbe:
        """The same probe with its defaults for views and weights where it follows the published protocol."""
        return self if self.protocol == "sound" else replace(self, protocol="sound")

    @property
    def caveat(self) -> str:
        """What is wrong with the published protocol."""
        if self.protocol == "sound":
            return ""
        return (
            "trained on one noised copy of each text and without weights for rare values, so that under noise it "
            "answers the commonest value, and its overall accuracy reads as privacy"
        )

    def __post_init__(self) -> None:
        check_queries(self.queries)
        if self.model not in MODELS:
            raise ValueError(f"AttributeProbe: expected model to be one of {', '.join(MODELS)}, got {self.model!r}")
        for name, value, choices in (
            ("pooling", self.pooling, ("mean", "tokens")), ("protocol", self.protocol, ("sound", "published")),
        ):  # fmt: skip
            if value not in choices:
                raise ValueError(f"AttributeProbe: expected {name} to be one of {', '.join(choices)}, got {value!r}")
        if self.views < 1:
            raise ValueError(f"AttributeProbe: expected views >= 1, got {self.views}")

    def infer(self, view: EmbeddingView, targets: Sequence[str], knowledge: Knowledge, ctx: Context) -> Inferred:
        """Log-probability of each attribute value for each target, shape ``(n, num_attribute_values)``, finite.

        ValueError when no auxiliary record has the attribute, or one has a value outside the declared range.
        """
        check_same_encoding(getattr(view, "encoding", None), knowledge.checkpoint.text_encoding)
        known = _with_attribute(knowledge)
        lesson = self._lesson(view, known, ctx)
        balanced = self.balanced and self.protocol == "sound"
        fitted = fit_classifier(lesson, self.model, balanced=balanced, rng=ctx.rng("probe"))
        found = mean_rows(lambda draw: view.intercepted(draw=draw), self.queries)
        texts = [self._vectors(found.rows(i)) for i in order_of(found.ids, targets)]
        if not texts:
            return Inferred((), np.zeros((0, knowledge.num_attribute_values)))
        scores = fitted.log_probs(np.concatenate(texts), knowledge.num_attribute_values)
        ends = np.cumsum([len(one) for one in texts])
        votes = [part.mean(axis=0) for part in np.split(scores, ends[:-1])]
        return Inferred(tuple(targets), np.stack(votes))

    def _vectors(self, rows: Rows) -> Floats:
        """What the classifier sees of one text, shape ``(vectors, d)``: its mean row, or each row that is not zero."""
        wide = rows.astype(np.float64)
        told = wide[np.any(wide, axis=1)] if self.pooling == "tokens" else wide[:0]
        if len(told):
            return told
        return wide.mean(axis=0, keepdims=True) if len(wide) else np.zeros((1, rows.shape[1]))

    def _lesson(self, view: EmbeddingView, known: Records, ctx: Context) -> Lesson:
        copies = self._copies(view, known)
        texts = [self._vectors(one.rows(i)) for one in copies for i in order_of(one.ids, known.ids)]
        counts = [len(one) for one in texts]
        lesson = Lesson(
            features=np.concatenate(texts),
            labels=np.repeat(np.tile(np.array(known.attributes, dtype=np.int64), len(copies)), counts),
            groups=np.repeat(np.tile(np.array(known.groups, dtype=np.int64), len(copies)), counts),
        )
        if len(lesson.labels) > MOST_VECTORS:
            kept = np.zeros(len(lesson.labels), dtype=bool)
            kept[ctx.rng("vectors").permutation(len(kept))[:MOST_VECTORS]] = True
            lesson = lesson.where(kept)
        finite = np.asarray(np.isfinite(lesson.features).all(axis=1))
        if not finite.any():
            raise ValueError(f"AttributeProbe: none of the {len(known)} auxiliary embeddings is finite")
        return lesson.where(finite)

    def _copies(self, view: EmbeddingView, known: Records) -> list[Embeddings]:
        """The own texts as released in each view; a view that only repeats the first ends the asking."""
        copies: list[Embeddings] = []
        for number in range(self.views if self.protocol == "sound" else 1):
            released = mean_rows(lambda draw: view.embed(known, draw=draw), self.queries, start=number * self.queries)
            if copies and np.array_equal(released.values, copies[0].values, equal_nan=True):
                break
            copies.append(released)
        return copies


def _with_attribute(knowledge: Knowledge) -> Records:
    """The auxiliary records whose attribute is known."""
    values = knowledge.auxiliary.attributes
    known = knowledge.auxiliary.take(i for i, value in enumerate(values) if value is not None)
    if not len(known):
        raise ValueError(f"AttributeProbe: none of {len(values)} auxiliary records has the attribute; nothing to learn")
    outside = {value for value in known.attributes if value is None or not 0 <= value < knowledge.num_attribute_values}
    if outside:
        last = knowledge.num_attribute_values - 1
        raise ValueError(f"AttributeProbe: expected attribute values 0..{last}, got {sorted(map(str, outside))}")
    return known
