"""How probable each token is for each row: a fitted picture's likelihood, tempered by what held-out texts say of it.

The likelihood of a picture that was fitted on few noisy rows is too sure of itself. One number, chosen on texts that
were held out, scales its logarithm: 1 where the rows tell tokens apart, 0 where they tell nothing. What is left then is
how often each token stands at each place: what anybody would guess.

>>> rng = np.random.default_rng(0)
>>> table = rng.standard_normal((6, 4)).astype(np.float32)
>>> tokens = rng.integers(1, 6, 400)
>>> sample = Sample(rows=table[tokens] + 0.01, tokens=tokens, positions=np.zeros(400, int), gains=np.ones(400))
>>> found = fit_posterior(sample, sample, table, allowed=np.arange(1, 6))
>>> bool(np.all(found.allowed[found.log_probs(sample).argmax(axis=1)] == tokens)), found.temper > 0
(True, True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy.special import log_softmax

from dpeval.types import Floats, Ints, Rows
from dpeval_attacks.inversion.observation import Picture, Sample, Whitening, fit_picture, of_vocabulary

RIDGE = 1.0
_TEMPERS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
_PLACE_COUNTS = 20.0
"""Rows at a place that weigh as much as all places together do, in the prior of that place."""
_AT_ONCE = 512
_Found = TypeVar("_Found")


@dataclass(frozen=True, eq=False)
class Habits:
    """How often each allowed token stands at each place."""

    shares: Floats
    """Over all places, (K,)."""
    at: tuple[tuple[Ints, Floats], ...]
    """Of each place: the tokens met there (numbers among the allowed), and how often."""

    @classmethod
    def of(cls, sample: Sample, allowed: Ints) -> Habits:
        """Counted on rows of known tokens, every token with a twentieth of a count more."""
        number = np.searchsorted(allowed, sample.tokens)
        counts = np.bincount(number, minlength=len(allowed)) + 0.05
        last = int(sample.positions.max())
        places = [np.unique(number[sample.positions == p], return_counts=True) for p in range(last + 1)]
        return cls(counts / counts.sum(), tuple((kinds, n.astype(np.float64)) for kinds, n in places))

    def log_prior(self, place: int) -> Floats:
        """Of each allowed token at this place, (K,)."""
        mixed = _PLACE_COUNTS * self.shares
        if place < len(self.at):
            kinds, counts = self.at[place]
            mixed[kinds] += counts
        found: Floats = np.log(mixed / mixed.sum())
        return found


@dataclass(frozen=True, eq=False)
class Posterior:
    """``temper`` times the log-likelihood under the picture, plus the log-prior of the place."""

    picture: Picture
    whitening: Whitening
    vectors: Rows
    """The whitened row of each allowed token, (K, d)."""
    allowed: Ints
    habits: Habits
    temper: float

    def log_probs(self, sample: Sample) -> Rows:
        """Of each allowed token for each row, (n, K), float32."""
        found: Rows = log_softmax(self.temper * self.likelihoods(sample) + self.priors(sample), axis=1)
        return found

    def likelihoods(self, sample: Sample) -> Rows:
        """Log-likelihood of each allowed token, up to a constant of the row, (n, K)."""
        clear = sample.rows / sample.gains[:, None] - self.picture.offset(sample.positions)
        queries = (clear @ self.whitening.matrix).astype(np.float32)
        halves = np.einsum("kd,kd->k", self.vectors, self.vectors) / 2
        found: Rows = (queries @ self.vectors.T - halves) * np.square(sample.gains).astype(np.float32)[:, None]
        return found

    def priors(self, sample: Sample) -> Rows:
        """Log-prior of each allowed token at the place of each row, (n, K)."""
        places, which = np.unique(sample.positions, return_inverse=True)
        found: Rows = np.stack([self.habits.log_prior(int(p)) for p in places]).astype(np.float32)[which]
        return found


def fit_posterior(sample: Sample, held_out: Sample, table: Rows, *, allowed: Ints) -> Posterior:
    """The picture, its noise and the habits of ``sample``; the temper that makes ``held_out`` most probable."""
    picture = fit_picture(sample, table, ridge=RIDGE).scaled_to(sample)
    whitening = Whitening.of(picture, sample)
    vectors = of_vocabulary(picture.words, picture.matrix @ whitening.matrix)[allowed]
    first = Posterior(picture, whitening, vectors, allowed, Habits.of(sample, allowed), 1.0)
    truth = np.searchsorted(allowed, held_out.tokens)
    if not len(held_out):
        return first
    likelihoods, priors = first.likelihoods(held_out), first.priors(held_out)

    def probability(temper: float) -> float:
        return float(log_softmax(temper * likelihoods + priors, axis=1)[np.arange(len(truth)), truth].sum())

    return replace(first, temper=max(_TEMPERS, key=probability))


def in_parts(sample: Sample, of: Callable[[Sample], _Found]) -> list[_Found]:
    """``of`` each part of ``sample`` in turn: probabilities of a whole vocabulary are large."""
    numbers = np.arange(len(sample))
    return [of(sample.where(numbers // _AT_ONCE == part)) for part in range(-(-len(sample) // _AT_ONCE))]
