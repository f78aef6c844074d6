"""Record bootstrap for statistics without a usable influence function, such as TPR at a low FPR; vectorised.

All models are resampled together, by unit, so that records shared between models stay shared. 2,000 resamples of 10,000
scores take about a second.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> run = Ranked.of(np.array([3.0, 1.0, 2.0, 0.0]), np.array([1, 1, 0, 0]), np.arange(4))
>>> auc_replicates([run], units=4, resamples=3, rng=rng).shape
(1, 3)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpeval.measure.roc import labelled
from dpeval.types import Floats, Ints

_CELLS_AT_ONCE = 2_000_000
"""Resamples × records held at a time: bounds memory to some 50 MB."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """Scores of one model sorted from the most member-like, with the unit (``0..units-1``) of each record.

    ``last_of_tie`` marks the last record of each group of equal scores: only there a threshold can stand.
    """

    is_member: NDArray[np.bool_]
    unit: Ints
    last_of_tie: NDArray[np.bool_]

    @classmethod
    def of(cls, scores: ArrayLike, is_member: ArrayLike, unit: ArrayLike) -> Ranked:
        """Sort once; resampling then only reweights."""
        data = labelled(scores, is_member)
        order = np.argsort(-data.scores, kind="stable")
        ordered = data.scores[order]
        last = np.append(ordered[1:] != ordered[:-1], True)
        return cls(data.is_member[order], np.asarray(unit, dtype=np.int64)[order], last)


Statistic: TypeAlias = Callable[[Ranked, Floats], Floats]
"""Weights of shape ``(resamples, n)`` in ranked order to values of shape ``(resamples,)``; NaN where undefined."""


def replicates(
    runs: Sequence[Ranked], statistic: Statistic, *, units: int, resamples: int, rng: np.random.Generator
) -> Floats:
    """Bootstrap values, shape ``(R, resamples)``: each resample draws units with replacement, for all runs."""
    step = max(1, _CELLS_AT_ONCE // units)
    columns = []
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        drawn = rng.integers(0, units, size=(count, units), dtype=np.int64)
        drawn += np.arange(count, dtype=np.int64)[:, None] * units
        weights = np.bincount(drawn.ravel(), minlength=count * units).reshape(count, units)
        columns.append(np.stack([statistic(run, weights[:, run.unit].astype(np.float64)) for run in runs]))
    return np.concatenate(columns, axis=1)


def over_models(drawn: Floats, rng: np.random.Generator) -> Floats:
    """The second level: from values of shape ``(R, resamples)`` the mean over R models drawn with replacement.

    Shape ``(resamples,)``. Records were drawn for all models together, so what they share stays shared.
    """
    models, resamples = drawn.shape
    chosen = rng.integers(0, models, size=(models, resamples))
    out: Floats = np.take_along_axis(drawn, chosen, axis=0).mean(axis=0)
    return out


def weighted_auc(run: Ranked, weights: Floats) -> Floats:
    """AUC of each reweighted sample, shape ``(resamples,)``."""
    below, members, nonmembers = _at_ties(run, weights)
    step = np.diff(below.members, axis=1, prepend=0.0)
    above = np.concatenate([np.zeros((len(weights), 1)), below.nonmembers[:, :-1]], axis=1)
    beaten = nonmembers[:, None] - (above + below.nonmembers) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        out: Floats = (step * beaten).sum(axis=1) / (members * nonmembers)
    return out


def weighted_tpr(fpr: float) -> Statistic:
    """TPR at the last point at or below ``fpr`` of each reweighted sample."""

    def statistic(run: Ranked, weights: Floats) -> Floats:
        below, members, nonmembers = _at_ties(run, weights)
        allowed = np.floor(fpr * nonmembers + 1e-9)[:, None]
        points = (below.nonmembers <= allowed).sum(axis=1)
        hit = np.concatenate([np.zeros((len(weights), 1)), below.members], axis=1)[np.arange(len(weights)), points]
        with np.errstate(invalid="ignore", divide="ignore"):
            out: Floats = hit / members
        return out

    return statistic


@dataclass(frozen=True, eq=False)
class _Cumulative:
    members: Floats
    nonmembers: Floats


def _at_ties(run: Ranked, weights: Floats) -> tuple[_Cumulative, Floats, Floats]:
    members = np.cumsum(np.where(run.is_member, weights, 0.0), axis=1)[:, run.last_of_tie]
    both = np.cumsum(weights, axis=1)[:, run.last_of_tie]
    found = _Cumulative(members, both - members)
    return found, found.members[:, -1], found.nonmembers[:, -1]


def auc_replicates(runs: Sequence[Ranked], *, units: int, resamples: int, rng: np.random.Generator) -> Floats:
    """Bootstrap values of the AUC, shape ``(R, resamples)``."""
    return replicates(runs, weighted_auc, units=units, resamples=resamples, rng=rng)


def tpr_replicates(
    runs: Sequence[Ranked], fpr: float, *, units: int, resamples: int, rng: np.random.Generator
) -> Floats:
    """Bootstrap values of TPR at ``fpr``, shape ``(R, resamples)``."""
    return replicates(runs, weighted_tpr(fpr), units=units, resamples=resamples, rng=rng)
