"""What an attack is granted: objects that can answer the questions of its threat model, and no others.

The release, the texts of the targets and the membership labels stay in closures; a view has no attribute that leads
to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpeval.plugin import Release
from dpeval.types import Embeddings, Predictions, Records


@dataclass(frozen=True)
class GrantedPredictions:
    """Black-box access to class log-probabilities."""

    _predict: Callable[[Records, int], Predictions]

    def predict(self, records: Records, *, draw: int = 0) -> Predictions:
        """Class log-probabilities of ``records``; another ``draw`` asks a randomised release again."""
        return self._predict(records, draw)


@dataclass(frozen=True)
class GrantedEmbeddings:
    """The targets' released embeddings, and the public client to embed texts of one's own."""

    tap: str
    _intercepted: Callable[[int], Embeddings]
    _embed: Callable[[Records, int], Embeddings]

    def intercepted(self, *, draw: int = 0) -> Embeddings:
        """The targets' released rows."""
        return self._intercepted(draw)

    def embed(self, records: Records, *, draw: int = 0) -> Embeddings:
        """What the client would release for ``records`` of the adversary's own."""
        return self._embed(records, draw)


def predictions_of(release: Release) -> GrantedPredictions:
    """Prediction access to ``release``."""
    return GrantedPredictions(lambda records, draw: release.predict(records, draw=draw))


class EmbeddingMemo:
    """Embeddings of one release, computed once for all attacks on it."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._known: dict[tuple[str, int, tuple[str, ...]], Embeddings] = {}

    def embed(self, records: Records, tap: str, draw: int) -> Embeddings:
        """``release.embed`` with memory."""
        key = (tap, draw, records.ids)
        if key not in self._known:
            self._known[key] = self._release.embed(records, tap, draw=draw)
        return self._known[key]

    def forget(self) -> None:
        """Drop what is held."""
        self._known.clear()


def embeddings_of(
    memo: EmbeddingMemo, targets: Records, tap: str, permutation: np.ndarray | None = None
) -> GrantedEmbeddings:
    """Embedding access at ``tap``. With a ``permutation`` each target gets another one's rows: the negative control."""

    def intercepted(draw: int) -> Embeddings:
        true = memo.embed(targets, tap, draw)
        return true if permutation is None else permuted(true, permutation)

    def embed(records: Records, draw: int) -> Embeddings:
        if set(records.ids) & set(targets.ids):
            raise ValueError("an attack may embed texts of its own, not the targets")
        return memo.embed(records, tap, draw)

    return GrantedEmbeddings(tap, intercepted, embed)


def permuted(embeddings: Embeddings, permutation: np.ndarray) -> Embeddings:
    """The same ids, each with the rows of another record."""
    rows = [embeddings.rows(int(i)) for i in permutation]
    offsets = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    return Embeddings(embeddings.ids, np.concatenate(rows), offsets)
