"""DeLong's variance of an AUC, and his test of two attacks on the same records (DeLong et al. 1988).

The interval of a single model's AUC (:func:`dpeval.measure.intervals.estimate` of
:func:`~dpeval.measure.influence.auc_part`) rests on this variance, shaped as a score interval so that it stays inside
[0, 1] and has a width at an AUC of 1.

>>> found = delong([3.0, 1.0, 4.0, 1.5, 2.0, 0.0], [1, 1, 1, 0, 0, 0])
>>> round(found.auc, 4), round(found.variance, 4)
(0.7778, 0.0617)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike
from scipy import stats

from dpeval.measure.influence import Part, auc_part, difference


@dataclass(frozen=True)
class DeLong:
    """An AUC (or a difference of two) with its variance over records."""

    auc: float
    variance: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The symmetric normal interval of the original paper, not cut to the possible range."""
        half = float(stats.norm.ppf(0.5 + level / 2)) * math.sqrt(self.variance)
        return self.auc - half, self.auc + half

    def p_value(self, null: float) -> float:
        """Two-sided; 1 where nothing varies and nothing differs."""
        if self.variance == 0:
            return 1.0 if self.auc == null else 0.0
        return 2 * float(stats.norm.sf(abs(self.auc - null) / math.sqrt(self.variance)))


def delong(scores: ArrayLike, is_member: ArrayLike) -> DeLong:
    """AUC and its DeLong variance; scores and labels of shape ``(n,)``."""
    return _of(auc_part(scores, is_member, _names(scores)))


def delong_difference(first: ArrayLike, second: ArrayLike, is_member: ArrayLike) -> DeLong:
    """AUC of ``first`` minus that of ``second``, scores of the same records in the same order."""
    names = _names(first)
    return _of(difference(auc_part(first, is_member, names), auc_part(second, is_member, names)))


def _names(scores: ArrayLike) -> tuple[str, ...]:
    return tuple(map(str, range(len(scores))))  # type: ignore[arg-type]


def _of(part: Part) -> DeLong:
    return DeLong(part.value, float(part.influence @ part.influence))
