"""Attribute inference with a probe: a classifier from the released embedding to a sensitive attribute.

A matrix names it ``use = "attribute-probe"``. By hand, with a view, the targets' ids and a
:class:`~dpeval.plugin.Knowledge`::

    inferred = AttributeProbe(model="mlp").infer(view, targets, knowledge, ctx)

>>> AttributeProbe(model="forest")
Traceback (most recent call last):
    ...
ValueError: AttributeProbe: expected model to be one of logistic, mlp, got 'forest'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpeval.plugin import AttributeAttack, Context, EmbeddingView, Knowledge
from dpeval.types import Floats, Inferred, Records
from dpeval_attacks.attribute.classify import MODELS, Lesson, Model, fit_classifier
from dpeval_attacks.draws import check_queries, mean_rows, order_of


@dataclass(frozen=True, kw_only=True)
class AttributeProbe(AttributeAttack):
    """An adversary on the wire who does not care what the text says, but who wrote it or what it gives away.

    It has the released rows of the targets, the public client, and texts like theirs whose attribute it knows. It
    releases those texts itself, noise and all, averages the rows of each text into one vector, and trains a classifier
    from vector to attribute: ``logistic`` or ``mlp`` (one hidden layer). How hard to regularise it finds by
    cross-validation on its own texts, near-duplicates kept together; the targets take no part in any fitting. Then it
    reads the attribute off each intercepted text.

    A randomised release is asked ``queries`` times and averaged, targets and own texts alike. Its own texts it may
    release as often as it likes: with ``views`` it trains on that many differently noised copies of each, which helps
    where noise is strong and costs as many more releases. A release without noise gives one copy. ``balanced`` weighs
    attribute values alike however rare they are. A value that none of its texts has gets the lowest score.
    """

    source: ClassVar[str] = "Song and Raghunathan 2020 (arXiv:2004.00053); Du et al. 2023 (arXiv:2309.06746), sec. 6.4"

    model: Model = "logistic"
    pooling: Literal["mean"] = "mean"
    balanced: bool = True
    queries: int = 1
    views: int = 1

    def __post_init__(self) -> None:
        check_queries(self.queries)
        if self.model not in MODELS:
            raise ValueError(f"AttributeProbe: expected model to be one of {', '.join(MODELS)}, got {self.model!r}")
        if self.pooling != "mean":
            raise ValueError(f"AttributeProbe: expected pooling 'mean', got {self.pooling!r}")
        if self.views < 1:
            raise ValueError(f"AttributeProbe: expected views >= 1, got {self.views}")

    def infer(self, view: EmbeddingView, targets: Sequence[str], knowledge: Knowledge, ctx: Context) -> Inferred:
        """Log-probability of each attribute value for each target, shape ``(n, num_attribute_values)``, finite.

        ValueError when no auxiliary record has the attribute, or one has a value outside the declared range.
        """
        known = _with_attribute(knowledge)
        lesson = self._lesson(view, known)
        fitted = fit_classifier(lesson, self.model, balanced=self.balanced, rng=ctx.rng("probe"))
        found = mean_rows(lambda draw: view.intercepted(draw=draw), self.queries)
        features = found.pooled()[order_of(found.ids, targets)]
        return Inferred(tuple(targets), fitted.log_probs(features, knowledge.num_attribute_values))

    def _lesson(self, view: EmbeddingView, known: Records) -> Lesson:
        copies = self._copies(view, known)
        lesson = Lesson(
            features=np.concatenate(copies),
            labels=np.tile(np.array(known.attributes, dtype=np.int64), len(copies)),
            groups=np.tile(np.array(known.groups, dtype=np.int64), len(copies)),
        )
        finite = np.asarray(np.isfinite(lesson.features).all(axis=1))
        if not finite.any():
            raise ValueError(f"AttributeProbe: none of the {len(known)} auxiliary embeddings is finite")
        return lesson.where(finite)

    def _copies(self, view: EmbeddingView, known: Records) -> list[Floats]:
        """The pooled own texts in each view; a view that only repeats the first ends the asking."""
        copies: list[Floats] = []
        for number in range(self.views):
            released = mean_rows(lambda draw: view.embed(known, draw=draw), self.queries, start=number * self.queries)
            pooled = released.pooled()[order_of(released.ids, known.ids)]
            if copies and np.array_equal(pooled, copies[0], equal_nan=True):
                break
            copies.append(pooled)
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
