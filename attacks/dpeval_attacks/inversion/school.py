"""Texts of the adversary's own in several released views, with their tokens, and which of them are held out.

With a view, a :class:`~dpeval.plugin.Knowledge` and a context at hand::

    school = School.of(view, knowledge, ctx, views=4, queries=1, most=500)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeval.models.checkpoint import Checkpoint
from dpeval.plugin import Context, EmbeddingView, Knowledge
from dpeval.types import Embeddings, Records, Rows
from dpeval_attacks.draws import mean_rows, order_of
from dpeval_attacks.inversion.own import HELD_OUT, some_texts


@dataclass(frozen=True, eq=False)
class School:
    """What a decoder is trained and tried on."""

    checkpoint: Checkpoint
    texts: Records
    tokens: list[list[int]]
    views: list[list[Rows]]
    """The released rows of each text, in each view."""
    tried: NDArray[np.bool_]
    """Of each text, whether it is held out."""
    ctx: Context

    @classmethod
    def of(
        cls, view: EmbeddingView, knowledge: Knowledge, ctx: Context, *, views: int, queries: int, most: int
    ) -> School:
        """Release at most ``most`` auxiliary texts in ``views`` views of ``queries`` averaged draws each."""
        texts = some_texts(knowledge.auxiliary, most, ctx, "LearnedInversion")
        tried = np.zeros(len(texts), dtype=bool)
        tried[ctx.rng("held-out").permutation(len(texts))[: max(1, round(HELD_OUT * len(texts)))]] = True
        released = released_views(view, texts, views, queries)
        return cls(knowledge.checkpoint, texts, knowledge.checkpoint.tokens(texts), released, tried, ctx)

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of special tokens."""
        return self.checkpoint.special_ids

    def words(self, number: int) -> list[int]:
        """The tokens of a text that are not special."""
        return [token for token in self.tokens[number] if token not in self.special_ids]


def released_views(view: EmbeddingView, texts: Records, views: int, queries: int) -> list[list[Rows]]:
    """The rows of each text in each view; a view that only repeats the first ends the asking."""
    found: list[Embeddings] = []
    for number in range(views):
        released = mean_rows(lambda draw: view.embed(texts, draw=draw), queries, start=number * queries)
        if found and np.array_equal(released.values, found[0].values, equal_nan=True):
            break
        found.append(released)
    return [[one.rows(i) for i in order_of(one.ids, texts.ids)] for one in found]
