"""Intervals over training seeds and records at once.

A value measured on R trained models varies because the models differ (between) and because the records are a sample
(within); the same records serve several models. The variance of the mean over models is

    V = C + max(D, S²) / R

with C the covariance of two models' values that the records they share bring, D the rest of a model's record-level
variance, and S² the spread between models that was seen. C is known well and gets the normal quantile (Student's for
groups, :mod:`~dpeval.measure.clusters`); max(D, S²) / R rests on R - 1 differences and gets Student's quantile, with
more degrees of freedom the more D exceeds S² (:mod:`~dpeval.measure.freedom`). The squares of both half-widths add up.
Values in [0, 1] get a score (Wilson) interval with the effective number of trials that V implies; it is never of zero
width. Models near 0 or 1 differ less than those in the middle, so that a few of them understate V: where three models
or more differ by more than records explain, the interval of the log-odds is covered as well.

Coverage (tests/calibration, and a wider map of designs): nominal 95 %, observed 91 to 98 % for one model, 93 to 98.8 %
for 3 and more, the upper end where models do not differ. With two models no interval of useful width is exact: theirs
are wide, and cover 91 to 99.8 %. Where most models are at 98 % or more and a few far below (a spread four times what
records explain), skewness costs coverage: 85 to 95 % for 3 to 10 models, 75 to 88 % for two.

>>> from dpeval.measure.influence import ratio_part
>>> estimate([ratio_part([0] * 20, [1] * 20, [f"r{i}" for i in range(20)])])
Estimate(value=0.0, low=0.0, high=0.16112515805281938, n=20, level=0.95, models=1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import special, stats

from dpeval.measure.clusters import RecordCovariance, record_covariance
from dpeval.measure.freedom import own_freedom
from dpeval.measure.influence import Part
from dpeval.types import Estimate, Floats

_SMALLEST_P = 1e-12
_FEW_LOPSIDED = 2
"""So few models get the score interval alone: it is wide already."""


class Scale(StrEnum):
    """What values are possible, which decides the shape of the interval."""

    RATE = "in [0, 1]"
    DIFFERENCE = "in [-1, 1]"
    FREE = "unbounded"


@dataclass(frozen=True)
class Bounds:
    """A two-sided interval."""

    low: float
    high: float


def wilson(rate: float, trials: float, quantile: float) -> Bounds:
    """Score interval of a rate over ``trials`` (possibly fractional, "effective") trials (Wilson 1927)."""
    z2 = quantile**2
    middle = (rate + z2 / (2 * trials)) / (1 + z2 / trials)
    half = quantile * math.sqrt(rate * (1 - rate) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return Bounds(max(0.0, min(middle - half, rate)), min(1.0, max(middle + half, rate)))


def clopper_pearson(successes: int, trials: int, level: float = 0.95) -> Bounds:
    """Exact interval of a binomial rate (Clopper and Pearson 1934), two-sided."""
    exact = stats.binomtest(successes, trials).proportion_ci(level, method="exact")
    return Bounds(float(exact.low), float(exact.high))


@dataclass(frozen=True)
class Trials:
    """Upper bound on the effective number of yes/no trials, and their number where the value is 0 % or 100 %."""

    most: float
    edge: float


@dataclass(frozen=True)
class _Asked:
    """A two-sided level, and whether it tests a null of which every model is an instance (see :func:`significance`)."""

    level: float
    sharp: bool = False


@dataclass(frozen=True)
class _Spread:
    """Variance of the mean over models: what records shared by all models bring, and the rest."""

    shared: float
    own: float
    record_freedom: float
    models: int = 1
    explained: float = math.inf
    """What records alone would make of the spread between models, over the spread seen."""

    @property
    def models_differ(self) -> bool:
        """Whether they do by more than records explain."""
        return self.explained < 1

    @property
    def variance(self) -> float:
        """Of the mean over models."""
        return self.shared + self.own

    def quantile(self, asked: _Asked) -> float:
        """What multiplies the standard deviation: each part has its own quantile, and the squares add up."""
        level = asked.level
        if self.variance <= 0:
            return _quantile(level, self.record_freedom)
        freedom = own_freedom(self.models, self.explained, asked.level) if self.models > 1 else self.record_freedom
        squares = (
            self.shared * _quantile(level, self.record_freedom) ** 2
            + self.own * _quantile(level, min(freedom, self.record_freedom)) ** 2
        )
        return math.sqrt(squares / self.variance)


def _spread(values: Floats, within: RecordCovariance, least: float, *, sharp: bool = False) -> _Spread:
    models, matrix = len(values), within.matrix
    record_freedom = within.freedom
    records = float(matrix.sum()) / models**2
    if models == 1 or sharp:
        return _Spread(max(records, least), 0.0, record_freedom)
    mean_covariance = (float(matrix.sum()) - float(np.trace(matrix))) / (models * (models - 1))
    explained = float(np.trace(matrix)) / models - mean_covariance
    seen = float(values.var(ddof=1))
    shared = max(0.0, max(records, least) - explained / models)
    own = max(explained, seen, 0.0) / models
    return _Spread(shared, own, record_freedom, models, explained / seen if seen > 0 else math.inf)


def _quantile(level: float, freedom: float) -> float:
    tail = 0.5 + level / 2
    return float(special.ndtri(tail) if freedom > 1e6 else special.stdtrit(freedom, tail))


def hierarchical(
    values: Sequence[float],
    within: RecordCovariance,
    *,
    n: int,
    trials: Trials,
    level: float = 0.95,
    scale: Scale = Scale.RATE,
    sharp: bool = False,
) -> Estimate:
    """Interval of the mean over models (see the module's docstring).

    Args:
        values: the statistic of each of R models.
        within: record-level covariance of those R values, from influences or bootstrap replicates.
        n: records per model, for the label.
        trials: what the value can be worth in yes/no trials, inside (0, 1) and at its edges.
        level: two-sided confidence level.
        scale: the range of possible values.
        sharp: for tests alone, see :func:`significance`.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or within.matrix.shape != (len(array), len(array)):
        raise ValueError(f"expected R values and an (R, R) covariance, got {array.shape} and {within.matrix.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"expected finite values, got {array.tolist()}")
    value = float(array.mean())
    if within.clustered and within.units < 2:
        # One group says nothing of how groups vary.
        return Estimate(value, *_WHOLE[scale], n=n, level=level, models=len(array))
    bounds = _BOUNDS[scale](value, array, within, trials, _Asked(level, sharp))
    return Estimate(value, min(bounds.low, value), max(bounds.high, value), n=n, level=level, models=len(array))


def _rate_bounds(value: float, values: Floats, within: RecordCovariance, trials: Trials, asked: _Asked) -> Bounds:
    rate = min(max(value, 0.0), 1.0)
    binomial = rate * (1 - rate)
    spread = _spread(values, within, least=binomial / trials.most, sharp=asked.sharp)
    quantile = spread.quantile(asked)
    effective = binomial / spread.variance if binomial > 0 else trials.edge
    score = wilson(rate, effective, quantile)
    if not spread.models_differ or len(values) <= _FEW_LOPSIDED or binomial == 0:
        return score
    logit = _logit_bounds(rate, quantile * math.sqrt(spread.variance) / binomial)
    return Bounds(min(score.low, logit.low), max(score.high, logit.high))


def _logit_bounds(rate: float, half: float) -> Bounds:
    """The normal interval of the log-odds, whose standard error the delta method gives."""
    middle = float(special.logit(rate))
    return Bounds(float(special.expit(middle - half)), float(special.expit(middle + half)))


def _difference_bounds(value: float, values: Floats, within: RecordCovariance, trials: Trials, asked: _Asked) -> Bounds:
    spread = _spread(values, within, least=0.0, sharp=asked.sharp)
    z = _quantile(asked.level, math.inf)
    # Where nothing differs on n records a difference of this size is still possible (Tango 1998, no discordant pair).
    half = max(spread.quantile(asked) * math.sqrt(spread.variance), z**2 / (trials.edge + z**2))
    return Bounds(max(value - half, -1.0), min(value + half, 1.0))


def _free_bounds(value: float, values: Floats, within: RecordCovariance, trials: Trials, asked: _Asked) -> Bounds:
    del trials
    spread = _spread(values, within, least=0.0, sharp=asked.sharp)
    half = spread.quantile(asked) * math.sqrt(spread.variance)
    return Bounds(value - half, value + half)


_WHOLE = {Scale.RATE: (0.0, 1.0), Scale.DIFFERENCE: (-1.0, 1.0), Scale.FREE: (-math.inf, math.inf)}
_BOUNDS = {Scale.RATE: _rate_bounds, Scale.DIFFERENCE: _difference_bounds, Scale.FREE: _free_bounds}


def total_trials(parts: Sequence[Part], distinct: int) -> Trials:
    """Trials behind the mean over models; at the edges only distinct units count, however many models saw them."""
    per_unit = float(np.mean([p.edge / len(set(p.units)) for p in parts]))
    return Trials(most=sum(p.trials for p in parts), edge=max(1.0, per_unit * distinct))


def estimate(parts: Sequence[Part], *, level: float = 0.95, scale: Scale = Scale.RATE) -> Estimate:
    """The mean of one statistic over trained models, with its interval over models and records."""
    if not parts:
        raise ValueError("expected the parts of at least one model, got none")
    within = record_covariance(parts)
    return hierarchical(
        [p.value for p in parts],
        within,
        n=min(len(p.units) for p in parts),
        trials=total_trials(parts, within.units),
        level=level,
        scale=scale,
    )


def critical(parts: Sequence[Part], level: float) -> float:
    """How many standard errors the interval reaches at ``level``: 1.96 for many models at 95 %, 4.30 for three."""
    within = record_covariance(parts)
    return _spread(np.array([p.value for p in parts]), within, least=0.0).quantile(_Asked(level))


def sharp_reach(parts: Sequence[Part], level: float) -> float:
    """How far from a sharp null the mean over models must lie to be significant at ``level``."""
    within = record_covariance(parts)
    spread = _spread(np.array([p.value for p in parts]), within, least=0.0, sharp=True)
    return spread.quantile(_Asked(level, sharp=True)) * math.sqrt(spread.variance)


def significance(parts: Sequence[Part], null: float, *, scale: Scale = Scale.RATE, sharp: bool = False) -> float:
    """Two-sided p-value of ``null``: one minus the largest level whose interval still leaves it out.

    Taken from the intervals themselves, so that few models weigh as little at p = 0.001 as they do at 0.05.

    Args:
        parts: one for each model.
        null: the value under the hypothesis.
        scale: the range of possible values.
        sharp: whether the hypothesis is about every model (nothing leaks from any: guessing) and not about the mean
            over trainings (two defenses leak equally, though each training differs). Under it models differ by what
            records explain and nothing else, so that the spread between them takes no part.
    """
    within = record_covariance(parts)
    trials, values = total_trials(parts, within.units), [p.value for p in parts]

    def excluded(level: float) -> bool:
        found = hierarchical(values, within, n=within.units, trials=trials, level=level, scale=scale, sharp=sharp)
        return found.excludes(null)

    low, high = _SMALLEST_P, 1.0
    if excluded(1 - low):
        return low
    while high / low > 1 + 1e-3:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if excluded(1 - middle) else (middle, high)
    return high
