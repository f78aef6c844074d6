"""Asking a randomised release several times and averaging the answers, as any adversary would who may ask again.

A release that adds no noise answers every draw alike; it is then asked twice at most.

>>> import numpy as np
>>> from dpeval.types import Predictions
>>> noisy = [Predictions(("a",), np.log([[0.5, 0.5]])), Predictions(("a",), np.log([[0.7, 0.3]]))]
>>> np.exp(mean_probabilities(lambda draw: noisy[draw], 2).log_probs).round(3).tolist()
[[0.6, 0.4]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.special import logsumexp

from dpeval.types import Embeddings, Floats, Predictions


def mean_probabilities(ask: Callable[[int], Predictions], queries: int) -> Predictions:
    """Log of the mean probability over the draws ``0..queries-1``, in log space throughout.

    ``ask(draw)`` returns log-probabilities of shape ``(n, classes)``, with the same ids in the same order each time.
    """
    first = ask(0)
    layers = _until_repeated(first.log_probs, (_same_ids(first, ask(k)).log_probs for k in range(1, queries)))
    if len(layers) == 1:
        return first
    return Predictions(first.ids, logsumexp(np.stack(layers), axis=0) - np.log(len(layers)))


def mean_rows(ask: Callable[[int], Embeddings], queries: int, start: int = 0) -> Embeddings:
    """The mean released row over the draws ``start..start+queries-1``; summed in float64, returned in float32."""
    first = ask(start)
    if queries == 1:
        return first
    total = first.values.astype(np.float64)
    count = 1
    for k in range(start + 1, start + queries):
        again = _same_rows(first, ask(k))
        if count == 1 and np.array_equal(again.values, first.values, equal_nan=True):
            return first
        total += again.values
        count += 1
    return Embeddings(first.ids, (total / count).astype(np.float32), first.offsets)


def check_queries(queries: int) -> None:
    """Refuse a number of queries below one."""
    if queries < 1:
        raise ValueError(f"expected queries >= 1, got {queries}; 1 asks the release once")


def order_of(found: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where in ``found`` each of the ``wanted`` record ids stands; a missing id is an error that names it."""
    at = {key: i for i, key in enumerate(found)}
    missing = [key for key in wanted if key not in at]
    if missing:
        raise ValueError(
            f"the release answered {len(found)} records, but not {missing[:5]} ({len(missing)} missing); "
            "a view answers every record it is asked about"
        )
    return [at[key] for key in wanted]


def _until_repeated(first: Floats, others: Iterator[Floats]) -> list[Floats]:
    layers = [first]
    for values in others:
        if len(layers) == 1 and np.array_equal(values, first, equal_nan=True):
            break
        layers.append(values)
    return layers


def _same_ids(first: Predictions, other: Predictions) -> Predictions:
    if first.ids != other.ids:
        raise ValueError("two draws answered different record ids; a draw changes the noise, never the records")
    return other


def _same_rows(first: Embeddings, other: Embeddings) -> Embeddings:
    if first.ids != other.ids or not np.array_equal(first.offsets, other.offsets):
        raise ValueError("two draws released different record ids or row counts; a draw changes the noise alone")
    return other
