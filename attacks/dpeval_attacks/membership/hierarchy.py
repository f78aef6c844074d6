"""Likelihood ratios from few shadows: what one record's few answers leave open, all the other records tell.

Two to eight answers fix neither the mean nor the spread of a record. Empirical Bayes takes what is common to all
records for a prior. The means of a record inside and outside are drawn from one normal distribution of pairs, so that
a side with few answers, or with none, is told by the other side and by the average record. The variance of each side
is drawn from a scaled inverse chi-square distribution whose scale follows the record's difficulty (Smyth 2004,
doi:10.2202/1544-6115.1027, theorem and §6; with a trend as in Law et al. 2014, doi:10.1186/gb-2014-15-2-r29). What a
new model answers then follows a Student t, wider than the normal where the data are thin. With many shadows all of it
becomes the normal distribution fitted to each record.

>>> rng = np.random.default_rng(0)
>>> inside = rng.random((4, 300)) < 0.5
>>> answers = rng.normal(0, 3, 300) + 2 * inside + rng.normal(size=(4, 300))
>>> found = predict(answers, inside, ~inside)
>>> bool(1 < np.mean(found.centre[0] - found.centre[1]) < 3)
True
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, polygamma, psi

from dpeval.types import Floats

FEWEST = 10
"""Records with answers on both sides below which there is no prior to learn."""
SMALLEST = 1e-6
"""The least spread of log-odds that is believed: answers are computed in single precision."""
SHARE = 1e-2
"""The least spread of one record, as a share of the spread of all: a few equal answers are chance, not certainty."""
LEAST, MOST = 1.0, 1e6
"""Degrees of freedom that a prior of variances may have: from almost no information to one variance for all."""


@dataclass(frozen=True, eq=False)
class Predictive:
    """What a new model answers about n records: Student t, inside ``[0]`` and outside ``[1]``, each ``(2, n)``."""

    centre: Floats
    scale: Floats
    freedom: Floats

    def first(self, count: int) -> Predictive:
        """That of the first ``count`` records."""
        return Predictive(self.centre[:, :count], self.scale[:, :count], self.freedom[:, :count])

    def ratio(self, target: Floats) -> Floats:
        """``log p(φ | inside) - log p(φ | outside)``, shape ``(n,)``."""
        t = (target - self.centre) / self.scale
        half = (self.freedom + 1) / 2
        at_centre = gammaln(half) - gammaln(self.freedom / 2) - np.log(self.freedom) / 2 - np.log(self.scale)
        inside, outside = at_centre - half * np.log1p(np.square(t) / self.freedom)
        found: Floats = inside - outside
        return found


def learnable(ins: NDArray[np.bool_], outs: NDArray[np.bool_]) -> bool:
    """Whether enough records have answers on both sides to learn a prior from."""
    return bool((ins.any(axis=0) & outs.any(axis=0)).sum() >= FEWEST)


def predict(shadows: Floats, ins: NDArray[np.bool_], outs: NDArray[np.bool_]) -> Predictive:
    """Empirical Bayes fit to the log-odds of m shadows, shape ``(m, n)``.

    Args:
        ins, outs: which answers are used as those of a model that saw the record, and that did not, shape ``(m, n)``.
            A record may have none on either side; at least :data:`FEWEST` must have some on both.
    """
    sides = [_side(shadows, ins), _side(shadows, outs)]
    pooled = _pooled(sides)
    prior = _prior(sides, pooled)
    centre, _ = _posterior(prior, sides, np.repeat(pooled[:, None], shadows.shape[1], axis=1))
    fitted = [_moderated(side, within, centre[1]) for side, within in zip(sides, pooled, strict=True)]
    variance, freedom = np.stack([one[0] for one in fitted]), np.stack([one[1] for one in fitted])
    centre, open_ = _posterior(prior, sides, variance)
    return Predictive(centre, np.sqrt(variance + open_), freedom)


@dataclass(frozen=True, eq=False)
class _Side:
    """Answers of one kind about each record: how many, their mean (0 for none), squares around it; each ``(n,)``."""

    count: Floats
    mean: Floats
    squares: Floats

    @property
    def freedom(self) -> Floats:
        return np.maximum(self.count - 1, 0.0)


def _side(shadows: Floats, mask: NDArray[np.bool_]) -> _Side:
    count = mask.sum(axis=0).astype(np.float64)
    mean = np.where(mask, shadows, 0.0).sum(axis=0) / np.maximum(count, 1)
    return _Side(count, mean, np.where(mask, np.square(shadows - mean), 0.0).sum(axis=0))


def _pooled(sides: list[_Side]) -> Floats:
    """The variance of answers around their record's mean, inside and outside.

    A side without repeated answers takes that of the other; where neither has any, it is at most half the variance of
    the difference between the sides.
    """
    found = [float(s.squares.sum() / s.freedom.sum()) if s.freedom.any() else np.nan for s in sides]
    both = (sides[0].count > 0) & (sides[1].count > 0)
    between = float(np.var(sides[0].mean[both] - sides[1].mean[both])) / 2
    known = [one for one in found if not np.isnan(one)]
    rest = known[0] if known else between
    return np.maximum([rest if np.isnan(one) else one for one in found], SMALLEST**2)


def _prior(sides: list[_Side], pooled: Floats) -> tuple[Floats, Floats]:
    """Mean ``(2,)`` and covariance ``(2, 2)`` of a record's two true means, by moments."""
    both = (sides[0].count > 0) & (sides[1].count > 0)
    seen = np.stack([side.mean[both] for side in sides])
    noise = [within * float(np.mean(1 / side.count[both])) for side, within in zip(sides, pooled, strict=True)]
    values, vectors = np.linalg.eigh(np.cov(seen) - np.diag(noise))
    return seen.mean(axis=1), (vectors * np.maximum(values, 0.0)) @ vectors.T


def _posterior(prior: tuple[Floats, Floats], sides: list[_Side], variance: Floats) -> tuple[Floats, Floats]:
    """The true means of each record given its answers, and how far they are still open (a variance); both ``(2, n)``.

    ``variance`` ``(2, n)`` is that of one answer. With information ``A`` of the answers and prior covariance ``C`` the
    posterior covariance is ``(I + C A)⁻¹ C``, which needs neither side to have answers, nor ``C`` to be invertible.
    """
    middle, covariance = prior
    information = np.stack([side.count for side in sides]) / variance
    system = np.eye(2) + covariance[None] * information.T[:, None, :]
    left = np.linalg.solve(system, np.broadcast_to(covariance, system.shape))
    away = np.stack([side.mean for side in sides]) - middle[:, None]
    mean = middle[:, None] + np.einsum("nij,jn->in", left, information * away)
    return mean, np.maximum(np.einsum("nii->in", left), 0.0)


def _moderated(side: _Side, pooled: float, difficulty: Floats) -> tuple[Floats, Floats]:
    """Each record's variance drawn towards what records of its difficulty have, and its degrees of freedom, ``(n,)``.

    The logarithm of a sample variance with d degrees of freedom lies ``ψ(d/2) - log(d/2)`` above that of the true one,
    with variance ``ψ'(d/2)``: what spreads beyond that is spread of the true variances (Smyth 2004, §6.2). The scale
    of the prior is the geometric mean of Smyth's and the variance of all answers together: answers that fall now on one
    side of the decision and now on the other are no chi-square, and where two of them happen to agree the logarithm
    believes them too much, just for the records that stand out.
    """
    used = side.freedom > 0
    if used.sum() < FEWEST:
        return np.full(len(difficulty), pooled), np.full(len(difficulty), MOST)
    half = side.freedom[used] / 2
    logs = np.log(np.maximum(side.squares[used] / side.freedom[used], SHARE**2 * pooled)) - psi(half) + np.log(half)
    level = _trend(difficulty, logs, used)
    excess = float(np.square(logs - level[used]).sum() / (used.sum() - 2) - polygamma(1, half).mean())
    prior = float(np.clip(2 * inverse_trigamma(excess), LEAST, MOST))
    scale = np.sqrt(np.exp(level + psi(prior / 2) - np.log(prior / 2)) * pooled)
    freedom = prior + side.freedom
    return np.maximum((prior * scale + side.squares) / freedom, (SHARE * SMALLEST) ** 2), freedom


def _trend(difficulty: Floats, logs: Floats, used: NDArray[np.bool_]) -> Floats:
    """The straight line of ``logs`` over difficulty, at every record; no further out than where it was fitted."""
    seen = difficulty[used]
    spread = float(seen.std())
    if spread == 0:
        return np.full(len(difficulty), float(logs.mean()))
    slope = float(np.mean((seen - seen.mean()) * (logs - logs.mean()))) / spread**2
    line: Floats = logs.mean() + slope * (np.clip(difficulty, seen.min(), seen.max()) - seen.mean())
    return line


def inverse_trigamma(value: float) -> float:
    """``x`` with ``ψ'(x) = value``, by Newton's method on ``1/ψ'`` (Smyth 2004, appendix); infinite for no excess.

    >>> round(inverse_trigamma(float(polygamma(1, 2.5))), 6)
    2.5
    """
    if value <= 1 / MOST:
        return float("inf")
    x = 0.5 + 1 / value
    for _ in range(30):
        slope = float(polygamma(1, x))
        x += slope * (1 - slope / value) / float(polygamma(2, x))
    return x
