"""What an adversary reads off a model's answer to guess whether it was trained on the record.

Each signal is a pure function of log-probabilities ``(n, classes)`` in float64 and labels ``(n,)``; it returns ``(n,)``
and is oriented so that HIGHER MEANS MORE LIKELY A MEMBER. Everything stays in log space: probabilities that a float
would round to one or zero still differ.

>>> log_odds(np.array([[-8.7e-27, -60.0]]), np.array([0])).tolist()
[60.0]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import logsumexp

from dpeval.types import Floats, Ints

Signal: TypeAlias = Literal["confidence", "entropy", "modified-entropy", "loss", "top-confidence", "margin"]

FLOOR = -1e6
"""Log-probabilities are raised to this, so that a class given probability zero leaves every signal finite."""

LABEL_FREE: frozenset[str] = frozenset({"entropy", "top-confidence"})
"""The signals that do not look at the true label."""


def signal_values(signal: Signal, log_probs: Floats, labels: Ints) -> Floats:
    """The named signal of each record, shape ``(n,)``, float64 and finite.

    ValueError for fewer than two classes, for NaN log-probabilities, and for a label that is no class of the model.
    """
    _check(signal, log_probs, labels)
    return SIGNALS[signal](np.maximum(log_probs, FLOOR), labels)


def log_odds(log_probs: Floats, labels: Ints) -> Floats:
    """``log p_y - log Σ_{j≠y} p_j``: Carlini et al. (2022)'s confidence, monotone in ``p_y`` and without ties."""
    return log_true(log_probs, labels) - _log_of_others(log_probs, labels)


def log_true(log_probs: Floats, labels: Ints) -> Floats:
    """``log p_y``: the loss of Yeom et al. (2018), its sign turned."""
    true: Floats = log_probs[np.arange(len(labels)), labels]
    return true


def negative_entropy(log_probs: Floats, labels: Ints) -> Floats:
    """``Σ_j p_j log p_j``: Shokri et al. (2017), Salem et al. (2019); does not look at the label."""
    del labels
    total: Floats = np.sum(np.exp(log_probs) * log_probs, axis=1)
    return total


def negative_modified_entropy(log_probs: Floats, labels: Ints) -> Floats:
    """``(1 - p_y) log p_y + Σ_{j≠y} p_j log(1 - p_j)``: Song and Mittal (2021), eq. 6, its sign turned."""
    wrong = np.exp(log_probs)
    wrong[np.arange(len(labels)), labels] = 0.0
    of_wrong = np.sum(wrong * _log_complement(log_probs), axis=1)
    total: Floats = np.exp(_log_of_others(log_probs, labels)) * log_true(log_probs, labels) + of_wrong
    return total


def top_log_odds(log_probs: Floats, labels: Ints) -> Floats:
    """The log-odds of the predicted class: Salem et al. (2019)'s top posterior; does not look at the label."""
    del labels
    return log_odds(log_probs, np.argmax(log_probs, axis=1))


def log_margin(log_probs: Floats, labels: Ints) -> Floats:
    """``log p_y - max_{j≠y} log p_j``: how far the true class is ahead of its strongest rival."""
    lead: Floats = log_true(log_probs, labels) - _without(log_probs, labels).max(axis=1)
    return lead


SIGNALS: dict[Signal, Callable[[Floats, Ints], Floats]] = {
    "confidence": log_odds,
    "entropy": negative_entropy,
    "modified-entropy": negative_modified_entropy,
    "loss": log_true,
    "top-confidence": top_log_odds,
    "margin": log_margin,
}


def _without(log_probs: Floats, labels: Ints) -> Floats:
    rest = log_probs.copy()
    rest[np.arange(len(labels)), labels] = -np.inf
    return rest


def _log_of_others(log_probs: Floats, labels: Ints) -> Floats:
    others: Floats = logsumexp(_without(log_probs, labels), axis=1)
    return others


def _log_complement(log_probs: Floats) -> Floats:
    """``log(1 - p_j)`` of every class: by ``log1p`` where ``p_j`` is small, by summing the others for the largest."""
    top = np.argmax(log_probs, axis=1)
    rows = np.arange(len(top))
    capped = np.exp(log_probs)
    capped[rows, top] = 0.0
    complement = np.log1p(-capped)
    complement[rows, top] = _log_of_others(log_probs, top)
    return complement


def _check(signal: Signal, log_probs: Floats, labels: Ints) -> None:
    classes = log_probs.shape[1]
    if classes < 2:
        raise ValueError(f"a membership signal needs at least 2 classes, got log-probabilities of {classes}")
    if np.isnan(log_probs).any():
        bad = int(np.isnan(log_probs).any(axis=1).sum())
        raise ValueError(f"{bad} of {len(log_probs)} records got NaN log-probabilities: the release is broken")
    outside = (labels < 0) | (labels >= classes)
    if signal not in LABEL_FREE and outside.any():
        raise ValueError(
            f"signal {signal!r} needs the true label of each record, 0..{classes - 1}, got {labels[outside][0]} "
            f"({int(outside.sum())} records); {' and '.join(sorted(LABEL_FREE))} need none"
        )
