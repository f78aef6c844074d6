"""How much the models' values vary with the records, where records of one group (or the tokens of a text) go together.

Influences are summed by unit before they are squared. With units of unequal size that sum of squares is too small on
average, and rests on fewer units than there are: each unit is weighed up by its share (Bell and McCaffrey 2002), and
the degrees of freedom are those of Satterthwaite under equally correlated records (Imbens and Kolesár 2016, §4), so
that one large group and many small ones do not pass for many groups.

>>> effective_units([1, 1, 1, 1], correlation=0.5), round(effective_units([10, 1, 1, 1], correlation=0.5), 2)
(4.0, 1.11)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpeval.measure.influence import Part
from dpeval.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class RecordCovariance:
    """Record-level covariance of the models' values, shape (R, R), and how many distinct ``units`` are behind it.

    ``clustered`` where the variance of a unit is estimated, and not that of one yes/no answer; ``effective`` is then
    what the units are worth, by default their number.
    """

    matrix: Floats
    units: int
    clustered: bool
    effective: float | None = None

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variances: one less than the units are worth; infinite where nothing is estimated.

        At least one: fewer would make quantiles that no data can narrow.
        """
        if not self.clustered:
            return np.inf
        return max(1.0, (self.units if self.effective is None else self.effective) - 1)


def record_covariance(parts: Sequence[Part]) -> RecordCovariance:
    """Covariance from influences summed by unit, over all models together."""
    names, codes = np.unique(np.concatenate([np.asarray(p.units, dtype=np.str_) for p in parts]), return_inverse=True)
    return covariance_of(parts, np.split(codes, np.cumsum([len(p.units) for p in parts])[:-1]), len(names))


def covariance_of(parts: Sequence[Part], units: Sequence[Ints], count: int) -> RecordCovariance:
    """The same for units that are numbered already: ``0..count-1``, for the records of each part."""
    sums, sizes = np.zeros((2, len(parts), count))
    for row, (part, at) in enumerate(zip(parts, units, strict=True)):
        sums[row] = np.bincount(at, weights=part.influence, minlength=count)
        sizes[row] = _sizes(part, at, count)
    clustered = any(p.several for p in parts) or bool((sizes > 1).any())
    if not clustered or count < 2:
        return RecordCovariance(sums @ sums.T, count, clustered)
    shares = sizes / sizes.sum(axis=1, keepdims=True)
    weighed = sums / np.sqrt(np.maximum(1 - shares, 1 / count))
    single = sum(float(p.influence @ p.influence) for p in parts)
    mean = sizes.mean(axis=0)
    correlation = _correlation(mean, float((sums**2).sum()) / single) if single > 0 else 1.0
    return RecordCovariance(weighed @ weighed.T, count, clustered, effective_units(mean, correlation))


def _sizes(part: Part, units: Ints, count: int) -> Ints:
    """Records of each unit that the value depends on: a true positive rate says nothing of non-members."""
    counted = part.influence != 0
    out: Ints = np.bincount(units[counted] if counted.any() else units, minlength=count)
    return out


def _correlation(sizes: Floats, design_effect: float) -> float:
    """Of two records of one unit, from how much larger the variance is than that of as many single records."""
    pairs = float((sizes * np.maximum(sizes - 1, 0)).sum())
    return min(1.0, max(0.0, (design_effect - 1) * float(sizes.sum()) / pairs)) if pairs > 0 else 0.0


def effective_units(sizes: ArrayLike, correlation: float) -> float:
    """The number of equal units with as well known a variance: ``(Σ v)² / Σ v²``, ``v`` that of each unit's sum.

    Args:
        sizes: records of each unit, shape ``(units,)``.
        correlation: of two records of one unit, from 0 to 1.
    """
    size = np.asarray(sizes, dtype=np.float64)
    variance = size * (1 + np.maximum(size - 1, 0) * correlation)
    return float(variance.sum() ** 2 / (variance**2).sum())
