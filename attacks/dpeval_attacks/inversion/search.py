"""Exact nearest-candidate search with faiss that never turns "nothing found" into an answer.

faiss answers ``-1`` for a query with NaN and where fewer candidates exist than asked for, and prefers a zero vector to
a right one of another length. Here a query without any signal, and every ``-1``, stays :data:`NO_ANSWER`.

>>> table = np.array([[0, 0], [1, 0], [0, 1]], dtype=np.float32)
>>> queries = np.array([[0.1, 0.05], [0, 0], [np.nan, 1]], dtype=np.float32)
>>> nearest(queries, table, allowed=np.array([1, 2]))[:, 0].tolist()
[1, -1, -1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import faiss
import numpy as np
from numpy.typing import NDArray

from dpeval.types import Floats, Ints, Rows

Metric: TypeAlias = Literal["l2", "cosine"]
METRICS: tuple[Metric, ...] = ("l2", "cosine")
NO_ANSWER = -1
_CHUNK = 16384


def nearest(queries: Rows, table: Rows, *, allowed: Ints, metric: Metric = "l2", k: int = 1) -> Ints:
    """The ``k`` rows of ``table`` nearest to each query, best first, shape ``(n, k)``, as row numbers of ``table``.

    Only rows numbered in ``allowed`` are ever answered. :data:`NO_ANSWER` stands where there is none: for all of a
    query that is zero or not finite, and beyond the number of candidates.
    """
    space = SearchSpace.of(table, allowed=allowed, metric=metric)
    return space.search(queries, np.ones(len(queries)), k=k)


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """Candidates prepared for maximum inner product, which serves distance, direction and prior alike.

    Under ``l2`` candidate v scores the Gaussian log-posterior ``-g²·‖q - c_v‖²/2 + log_prior_v`` for a query q that was
    divided by its gain g, so that its noise is 1/g; under ``cosine`` it scores ``κ·cos(q, c_v) + log_prior_v``, the
    von Mises-Fisher log-posterior with concentration κ.
    """

    metric: Metric
    ids: Ints
    vectors: Rows
    concentration: float

    @classmethod
    def of(
        cls,
        table: NDArray[np.floating],
        *,
        allowed: Ints,
        metric: Metric,
        log_prior: Floats | None = None,
        concentration: float = 1.0,
    ) -> SearchSpace:
        """The rows ``allowed`` of ``table`` as candidates; ``log_prior`` has an entry for every row of ``table``."""
        ids = np.asarray(allowed, dtype=np.int64)
        norms = np.linalg.norm(table[ids], axis=1)
        usable = np.isfinite(norms) & ((norms > 0) | (metric == "l2"))
        ids, norms = ids[usable], norms[usable]
        prior = np.zeros(len(ids)) if log_prior is None else log_prior[ids]
        if metric == "cosine":
            parts = [table[ids] / norms[:, None], prior[:, None]]
        else:
            parts = [table[ids], -np.square(norms)[:, None] / 2, prior[:, None]]
        return cls(metric, ids, np.hstack(parts).astype(np.float32), concentration)

    def search(self, queries: NDArray[np.floating], gains: Floats, *, k: int = 1) -> Ints:
        """The best ``k`` candidates for each of ``queries``, shape ``(n, k)``; ``gains`` has shape ``(n,)``."""
        index = faiss.IndexFlatIP(self.vectors.shape[1])
        index.add(self.vectors)
        found = np.full((len(queries), k), NO_ANSWER, dtype=np.int64)
        norms = np.linalg.norm(queries, axis=1)
        asked = np.flatnonzero(np.isfinite(norms) & (norms > 0))
        for start in range(0, len(asked), _CHUNK):
            rows = asked[start : start + _CHUNK]
            _, at = index.search(self._lifted(queries[rows], norms[rows], gains[rows]), k)
            found[rows] = np.where(at >= 0, self.ids[np.maximum(at, 0)] if len(self.ids) else NO_ANSWER, NO_ANSWER)
        return found

    def _lifted(self, queries: NDArray[np.floating], norms: Floats, gains: Floats) -> Rows:
        ones = np.ones((len(queries), 1))
        if self.metric == "cosine":
            return np.hstack([queries * (self.concentration / norms)[:, None], ones]).astype(np.float32)
        weights = np.square(gains)[:, None]
        return np.hstack([queries * weights, weights, ones]).astype(np.float32)
