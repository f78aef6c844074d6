"""Randomised response for labels, and its composition with the Gaussian noise on the sequence.

>>> round(keep_probability(1.0, 2), 4)
0.7311
>>> both = sequence_and_label(mu=1.6660306, delta=1e-5, label_epsilon=2.2, num_labels=2)
>>> f"{both.sequence:.2f} {both.basic:.2f} {both.tight:.2f}"
'8.00 10.20 10.16'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from dpeval.privacy.gaussian import delta_of_gaussian, epsilon_of_gaussian
from dpeval.types import Floats, Ints


def keep_probability(epsilon: float, num_labels: int) -> float:
    """The chance that k-ary randomised response keeps the true label: 1/(1 + (k−1)·e^{−ε}).

    Every other label then has chance (1 − keep)/(k − 1). Warner 1965; Kairouz, Oh and Viswanath 2014.
    """
    _check(epsilon, num_labels)
    return 1 / (1 + (num_labels - 1) * math.exp(-epsilon))


def randomise_labels(labels: Ints, epsilon: float, num_labels: int, rng: np.random.Generator) -> Ints:
    """``labels`` (integers below ``num_labels``, shape ``(n,)``) after k-ary randomised response: ε-private each."""
    _check_labels(labels, num_labels)
    keep = rng.random(len(labels)) < keep_probability(epsilon, num_labels)
    # A shift of 1 … k−1 is uniform over the other labels; with one label there is nothing to move to.
    shift = rng.integers(1, max(num_labels, 2), size=len(labels))
    return np.where(keep, labels, (labels + shift) % num_labels).astype(np.int64)


def top_labels(epsilon: float, prior: Sequence[float]) -> tuple[int, ...]:
    """The labels that prior-aware randomised response answers with: the likeliest few that keep best.

    Ghazi, Golowich, Kumar, Manurangsi and Zhang 2021, algorithm 3 (RRWithPrior): of the k likeliest labels for each k,
    the set with the highest chance of a true answer. ``prior`` must not come from the private labels.
    """
    p = np.asarray(prior, dtype=np.float64)
    if p.ndim != 1 or not len(p) or not (p >= 0).all() or abs(p.sum() - 1) > 1e-6:
        raise ValueError(f"top_labels: expected probabilities that sum to 1, got {list(prior)!r}")
    ranked = np.argsort(-p, kind="stable")
    kept = [keep_probability(epsilon, k) * p[ranked[:k]].sum() for k in range(1, len(p) + 1)]
    return tuple(sorted(int(i) for i in ranked[: int(np.argmax(kept)) + 1]))


def randomise_labels_with_prior(labels: Ints, epsilon: float, prior: Sequence[float], rng: np.random.Generator) -> Ints:
    """Prior-aware randomised response over :func:`top_labels`: ε-private each; a label outside is drawn uniformly."""
    _check_labels(labels, len(prior))
    top = np.asarray(top_labels(epsilon, prior), dtype=np.int64)
    place = np.searchsorted(top, labels).clip(max=len(top) - 1)
    inside = top[place] == labels
    answers = randomise_labels(place.astype(np.int64), epsilon, len(top), rng)
    uniform = rng.integers(len(top), size=len(labels))
    return top[np.where(inside, answers, uniform)]


@dataclass(frozen=True, kw_only=True)
class SequenceAndLabel:
    """ε of a sequence released with Gaussian noise together with its label under randomised response, at one δ."""

    sequence: float
    """The sequence alone."""
    label: float
    """The label alone, at δ = 0."""
    basic: float
    """Sum of the two (Du et al. 2023, theorem 2)."""
    tight: float
    """The least ε of the pair; never above ``basic``."""


def sequence_and_label(mu: float, delta: float, label_epsilon: float, num_labels: int) -> SequenceAndLabel:
    """Compose a μ-Gaussian release of a sequence with one randomised response of its label.

    The label is randomised once; further releases of the sequence belong into ``mu`` (:func:`compose_gaussian`).
    """
    alone = epsilon_of_gaussian(mu, delta)
    basic = alone + label_epsilon
    tight = min(basic, _tight(mu, delta, label_epsilon, num_labels, basic))
    return SequenceAndLabel(sequence=alone, label=label_epsilon, basic=basic, tight=tight)


def pair_delta(epsilon: float, mu: float, label_epsilon: float, num_labels: int) -> float:
    """δ of the pair at ``epsilon``: the Gaussian's δ averaged over the label's privacy loss."""
    losses: Floats = label_losses(label_epsilon, num_labels)
    return math.fsum(p * delta_of_gaussian(epsilon - loss, mu) for loss, p in losses)


def label_losses(label_epsilon: float, num_labels: int) -> Floats:
    """The privacy loss of randomised response under the worst change of label: rows of (loss, probability)."""
    _check(label_epsilon, num_labels)
    keep = keep_probability(label_epsilon, num_labels)
    other = keep * math.exp(-label_epsilon)
    if num_labels == 1:
        return np.array([[0.0, 1.0]])
    return np.array([[label_epsilon, keep], [-label_epsilon, other], [0.0, (num_labels - 2) * other]])


def _tight(mu: float, delta: float, label_epsilon: float, num_labels: int, basic: float) -> float:
    if basic == math.inf or delta == 0:
        return basic

    def gap(epsilon: float) -> float:
        return math.log(max(pair_delta(epsilon, mu, label_epsilon, num_labels), 1e-320) / delta)

    if gap(0.0) <= 0:
        return 0.0
    return float(brentq(gap, 0.0, basic, xtol=1e-13, rtol=1e-14)) if gap(basic) < 0 else basic


def _check(epsilon: float, num_labels: int) -> None:
    if not epsilon >= 0 or num_labels < 1:
        raise ValueError(f"randomised response: expected epsilon >= 0 and labels >= 1, got {epsilon}, {num_labels}")


def _check_labels(labels: Ints, num_labels: int) -> None:
    if len(labels) and not (int(labels.min()) >= 0 and int(labels.max()) < num_labels):
        raise ValueError(
            f"randomised response: expected labels from 0 to {num_labels - 1}, "
            f"got {int(labels.min())} to {int(labels.max())}"
        )
