"""What an attack is granted: objects that can answer the questions of its threat model, and no others.

The release, the texts of the targets and the membership labels stay in closures; a view has no attribute that leads
to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeval.models.text_encoding import TextEncoding
from dpeval.plugin import Release
from dpeval.types import Embeddings, Predictions, PrivacyClaim, Records


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
    encoding: TextEncoding | None = None

    def intercepted(self, *, draw: int = 0) -> Embeddings:
        """The targets' released rows."""
        return self._intercepted(draw)

    def embed(self, records: Records, *, draw: int = 0) -> Embeddings:
        """What the client would release for ``records`` of the adversary's own."""
        return self._embed(records, draw)


class Memo:
    """Answers of one release, computed once for all attacks on it.

    What is computed at once are whole *pools* in their own order, whoever asks first and for whichever part: a release
    whose answers depend a little on the batch still gives every attack the same numbers in every order of cells.
    """

    def __init__(self, release: Release | Callable[[], Release], pools: Sequence[Records] = ()) -> None:
        self._opener = release
        self._pools = sorted((p for p in pools if len(p)), key=len)
        self._predicted: dict[tuple[int, int], Predictions] = {}
        self._embedded: dict[tuple[str, int, int], Embeddings] = {}

    def predict(self, records: Records, draw: int) -> Predictions:
        """``release.predict`` with memory."""
        number = self._pool(records)
        if number is None:
            return self._release.predict(records, draw=draw)
        key = (draw, number)
        if key not in self._predicted:
            self._predicted[key] = self._release.predict(self._pools[number], draw=draw)
        known = self._predicted[key]
        return Predictions(records.ids, known.log_probs[positions(known.ids, records.ids)])

    def embed(self, records: Records, tap: str, draw: int) -> Embeddings:
        """``release.embed`` with memory."""
        number = self._pool(records)
        if number is None:
            return self._release.embed(records, tap, draw=draw)
        key = (tap, draw, number)
        if key not in self._embedded:
            self._embedded[key] = self._release.embed(self._pools[number], tap, draw=draw)
        known = self._embedded[key]
        return chosen(known, positions(known.ids, records.ids), records.ids)

    @property
    def _release(self) -> Release:
        return self._opener if isinstance(self._opener, Release) else self._opener()

    @property
    def encoding(self) -> TextEncoding | None:
        """How the release reads texts."""
        return self._release.encoding

    @property
    def claim(self) -> PrivacyClaim:
        """What the release states."""
        return self._release.claim

    def forget(self) -> None:
        """Drop what is held."""
        self._predicted.clear()
        self._embedded.clear()

    def _pool(self, records: Records) -> int | None:
        """The smallest pool that holds every one of ``records``, by id and text."""
        for number, pool in enumerate(self._pools):
            texts = dict(zip(pool.ids, pool.texts, strict=True))
            if all(texts.get(key) == text for key, text in zip(records.ids, records.texts, strict=True)):
                return number
        return None


def predictions_of(memo: Memo) -> GrantedPredictions:
    """Prediction access to a release."""
    return GrantedPredictions(memo.predict)


def embeddings_of(
    memo: Memo, targets: Records, tap: str, permutation: NDArray[np.int64] | None = None
) -> GrantedEmbeddings:
    """Embedding access at ``tap``. With a ``permutation`` each target gets another one's rows: the negative control."""

    def intercepted(draw: int) -> Embeddings:
        true = memo.embed(targets, tap, draw)
        return true if permutation is None else chosen(true, permutation, targets.ids)

    def embed(records: Records, draw: int) -> Embeddings:
        if set(records.ids) & set(targets.ids):
            raise ValueError("an attack may embed texts of its own, not the targets")
        return memo.embed(records, tap, draw)

    return GrantedEmbeddings(tap, intercepted, embed, memo.encoding)


def positions(ids: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """Where each wanted id stands."""
    where = {key: i for i, key in enumerate(ids)}
    return np.array([where[key] for key in wanted], dtype=np.int64)


def chosen(embeddings: Embeddings, at: NDArray[np.int64], ids: tuple[str, ...]) -> Embeddings:
    """The rows of the records at ``at``, under the names ``ids``."""
    rows = [embeddings.rows(int(i)) for i in at]
    offsets = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    values = np.concatenate(rows) if rows else embeddings.values[:0]
    return Embeddings(ids, values, offsets)
