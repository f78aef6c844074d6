"""Nearest-candidate search with faiss that never turns "nothing found" into an answer.

faiss answers ``-1`` for a query with NaN and where fewer candidates exist than asked for, and prefers a zero vector to
a right one of another length. Here a query without any signal, and every ``-1``, stays :data:`NO_ANSWER`.

>>> table = np.array([[0, 0], [1, 0], [0, 1]], dtype=np.float32)
>>> queries = np.array([[0.1, 0.05], [0, 0], [np.nan, 1]], dtype=np.float32)
>>> nearest(queries, table, allowed=np.array([1, 2]))[:, 0].tolist()
[1, -1, -1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import faiss
import numpy as np
from numpy.typing import NDArray

from dpeval.types import Floats, Ints, Rows

Part: TypeAlias = slice | Ints
Metric: TypeAlias = Literal["l2", "cosine"]
IndexKind: TypeAlias = Literal["auto", "flat", "ivf"]
METRICS: tuple[Metric, ...] = ("l2", "cosine")
INDEXES: tuple[IndexKind, ...] = ("auto", "flat", "ivf")
NO_ANSWER = -1
LARGE = 1 << 18
"""Candidates above which ``auto`` searches an inverted file instead of all of them."""
_CHUNK = 16384
_SHORTLIST = 64
_TRAINING_PER_LIST = 64


def nearest(
    queries: NDArray[np.floating], table: NDArray[np.floating], *, allowed: Ints, metric: Metric = "l2", k: int = 1
) -> Ints:
    """The ``k`` rows of ``table`` nearest to each query, best first, shape ``(n, k)``, as row numbers of ``table``.

    Only rows numbered in ``allowed`` are ever answered. :data:`NO_ANSWER` stands where there is none: for all of a
    query that is zero or not finite, and beyond the number of candidates. Exact, at the speed of the bare search.
    """
    ids = np.asarray(allowed, dtype=np.int64)
    whole = len(ids) == len(table) and bool(np.array_equal(ids, np.arange(len(table))))
    vectors = _single(table if whole else table[ids])
    norms = _norms(vectors)
    usable = np.isfinite(norms) & ((norms > 0) | (metric == "l2"))
    if not usable.all():
        ids, vectors, norms = ids[usable], vectors[usable], norms[usable]
    if metric == "cosine":
        vectors = vectors / norms[:, None]
    single = _single(queries)
    return _filled(single, ids, k, lambda part: _knn(single[part], vectors, k, metric))


def _knn(queries: Rows, vectors: Rows, k: int, metric: Metric) -> Ints:
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    if metric == "cosine":
        queries = queries / _norms(queries)[:, None]
    at: Ints = faiss.knn(queries, vectors, k, metric=kind)[1]
    return at


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """Candidates prepared for maximum inner product, which serves distance, direction and prior alike.

    Under ``l2`` candidate v scores the Gaussian log-posterior ``-g²·‖q - c_v‖²/2 + log_prior_v`` for a query q that was
    divided by its gain g, so that its noise is 1/g; under ``cosine`` it scores ``κ·cos(q, c_v) + log_prior_v``, the
    von Mises-Fisher log-posterior with concentration κ.

    A *flat* index compares with every candidate. An *inverted file* (``ivf``) looks only where candidates are near the
    query, takes the 64 nearest there, and orders those by the posterior: approximate, for tables of many hundred
    thousand entries.
    """

    metric: Metric
    ids: Ints
    vectors: Rows
    concentration: float
    index: IndexKind = "auto"

    @classmethod
    def of(
        cls,
        table: NDArray[np.floating],
        *,
        allowed: Ints,
        metric: Metric,
        log_prior: Floats | None = None,
        concentration: float = 1.0,
        index: IndexKind = "auto",
    ) -> SearchSpace:
        """The rows ``allowed`` of ``table`` as candidates; ``log_prior`` has an entry for every row of ``table``."""
        ids = np.asarray(allowed, dtype=np.int64)
        chosen = table[ids]
        norms = np.linalg.norm(chosen, axis=1)
        usable = np.isfinite(norms) & ((norms > 0) | (metric == "l2"))
        if not usable.all():
            ids, norms, chosen = ids[usable], norms[usable], chosen[usable]
        width = table.shape[1]
        vectors = np.empty((len(ids), width + (2 if metric == "l2" else 1)), dtype=np.float32)
        vectors[:, :width] = chosen / norms[:, None] if metric == "cosine" else chosen
        if metric == "l2":
            vectors[:, width] = -np.square(norms) / 2
        vectors[:, -1] = 0.0 if log_prior is None else log_prior[ids]
        return cls(metric, ids, vectors, concentration, index)

    @classmethod
    def of_parts(cls, parts: Iterable[Rows], *, ids: Ints, width: int, log_prior: Floats) -> SearchSpace:
        """Candidates by distance that come part by part, (n, width) each, in the order of ``ids``; all are finite."""
        vectors = np.empty((len(ids), width + 2), dtype=np.float32)
        start = 0
        for part in parts:
            into = vectors[start : start + len(part)]
            into[:, :width] = part
            into[:, width] = np.einsum("ij,ij->i", part, part) / -2
            start += len(part)
        vectors[:, -1] = log_prior[ids]
        return cls("l2", ids, vectors, 1.0)

    @property
    def width(self) -> int:
        """Columns of a candidate, without those that carry length and prior."""
        return int(self.vectors.shape[1]) - (2 if self.metric == "l2" else 1)

    def of_ids(self, ids: Ints) -> Rows:
        """The vectors of candidates by their id, shape of ``ids`` and the width; every id must be a candidate."""
        found: Rows = self.vectors[np.searchsorted(self.ids, ids), : self.width]
        return found

    @property
    def inverted(self) -> bool:
        """Whether an inverted file is searched."""
        return self.index == "ivf" or (self.index == "auto" and len(self.ids) > LARGE)

    def search(self, queries: NDArray[np.floating], gains: Floats, *, k: int = 1) -> Ints:
        """The best ``k`` candidates for each of ``queries``, shape ``(n, k)``; ``gains`` has shape ``(n,)``."""
        single = _single(queries)

        def find(part: Part) -> Ints:
            lifted = self._lifted(single[part], gains[part])
            if self.inverted:
                return self._reranked(single[part], lifted, k)
            at: Ints = faiss.knn(lifted, self.vectors, k, metric=faiss.METRIC_INNER_PRODUCT)[1]
            return at

        return _filled(single, self.ids, k, find)

    def _lifted(self, queries: Rows, gains: Floats) -> Rows:
        lifted = np.ones((len(queries), self.vectors.shape[1]), dtype=np.float32)
        if self.metric == "cosine":
            lifted[:, :-1] = queries * (self.concentration / _norms(queries))[:, None]
            return lifted
        weights = np.square(gains)
        lifted[:, : self.width] = queries * weights[:, None]
        lifted[:, self.width] = weights
        return lifted

    def _reranked(self, queries: Rows, lifted: Rows, k: int) -> Ints:
        if self.metric == "cosine":
            queries = queries / _norms(queries)[:, None]
        _, near = self._file.search(np.ascontiguousarray(queries), max(k, _SHORTLIST))
        scores = np.einsum("nd,nkd->nk", lifted, self.vectors[np.maximum(near, 0)])
        scores[near < 0] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        found: Ints = np.take_along_axis(near, best, axis=1)
        return found

    @cached_property
    def _file(self) -> Any:
        points = np.ascontiguousarray(self.vectors[:, : self.width])
        lists = max(1, min(round(4 * len(points) ** 0.5), len(points) // 40))
        file = faiss.IndexIVFFlat(faiss.IndexFlatL2(self.width), self.width, lists)
        step = max(1, len(points) // (lists * _TRAINING_PER_LIST))
        file.cp.min_points_per_centroid = 1
        file.train(np.ascontiguousarray(points[::step]))
        file.add(points)
        file.nprobe = max(1, lists // 8)
        return file


def _filled(queries: Rows, ids: Ints, k: int, find: Callable[[Part], Ints]) -> Ints:
    """``find`` the places in ``ids`` of each answerable query, part by part; no answer elsewhere."""
    found = np.full((len(queries), k), NO_ANSWER, dtype=np.int64)
    if not len(ids):
        return found
    asked = _answerable(queries)
    whole = len(asked) == len(queries)
    for start in range(0, len(asked), _CHUNK):
        # A slice is a view: where every query can be answered, none is copied.
        part: Part = slice(start, start + _CHUNK) if whole else asked[start : start + _CHUNK]
        at = find(part)
        found[part] = np.where(at >= 0, ids[np.maximum(at, 0)], NO_ANSWER)
    return found


def _answerable(queries: Rows) -> Ints:
    norms = _norms(queries)
    return np.flatnonzero(np.isfinite(norms) & (norms > 0))


def _norms(rows: Rows) -> NDArray[np.float32]:
    norms: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms


def _single(rows: NDArray[np.floating]) -> Rows:
    single: Rows = np.ascontiguousarray(rows, dtype=np.float32)
    return single
