"""What each record contributes to a statistic: the common form from which every interval is made.

A :class:`Part` is one trained model's value of a statistic with the influence of each record on it (the infinitesimal
jackknife): when the records are reweighted, the value moves by the weighted sum of influences. Records shared between
models, and records of one near-duplicate group, are recognised by their unit.

>>> import numpy as np
>>> part = auc_part(np.array([3.0, 1.0, 2.0, 0.0]), np.array([1, 1, 0, 0]), ("a", "b", "c", "d"))
>>> part.value
0.75
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from dpeval.measure.roc import labelled
from dpeval.types import Floats


@dataclass(frozen=True, eq=False)
class Part:
    """One model's value of a statistic.

    ``influence`` has shape ``(n,)``; ``units`` names, for each record, what was sampled independently: the record, or
    its group. ``trials`` bounds from above the number of independent yes/no trials that the value can be worth;
    ``edge`` is what it is taken to be worth at 0 % and 100 %, where all influences vanish. ``several`` says that a
    record may hold several trials (the tokens of a text), so that its variance is not that of one yes/no answer.
    """

    value: float
    influence: Floats
    units: tuple[str, ...]
    trials: float
    edge: float
    several: bool = False

    def __post_init__(self) -> None:
        if self.influence.shape != (len(self.units),):
            raise ValueError(f"Part: {len(self.units)} units but influences of shape {self.influence.shape}")


def auc_part(scores: ArrayLike, is_member: ArrayLike, units: Sequence[str]) -> Part:
    """AUC with the placements of DeLong, DeLong and Clarke-Pearson (1988) as influences.

    ``trials`` is Newcombe's (2006, Method 5) in the limit of AUC = 1: about the number of records.
    """
    data = labelled(scores, is_member)
    m, n, member = data.members, data.nonmembers, data.is_member
    overall = rankdata(data.scores)
    place = np.empty(m + n)
    place[member] = (overall[member] - rankdata(data.scores[member])) / n
    place[~member] = 1 - (overall[~member] - rankdata(data.scores[~member])) / m
    value = float(place[member].mean())
    size = np.where(member, np.sqrt(m * max(m - 1, 1)), np.sqrt(n * max(n - 1, 1)))
    trials = 2 * m * n / ((m + n) / 2 + 1)
    return Part(value, (place - value) / size, tuple(units), trials, edge=trials)


def rate_parts(called: ArrayLike, is_member: ArrayLike, units: Sequence[str]) -> tuple[Part, Part]:
    """True and false positive rate of fixed yes/no answers, as two parts over the same records."""
    yes, member = np.asarray(called, dtype=np.float64), np.asarray(is_member, dtype=np.float64)
    return ratio_part(yes * member, member, units), ratio_part(yes * (1 - member), 1 - member, units)


def ratio_part(numerator: ArrayLike, denominator: ArrayLike, units: Sequence[str]) -> Part:
    """``Σ numerator / Σ denominator`` over records, linearised (Cochran 1977, §6.3).

    At 0 % and 100 % a record counts as one trial, whatever its denominator: its tokens stand or fall together.

    Raises:
        ZeroDivisionError: the denominators sum to zero.
    """
    a, b = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    total = float(b.sum())
    if total <= 0:
        raise ZeroDivisionError("a ratio over records whose denominators sum to zero")
    value = float(a.sum()) / total
    return Part(
        value,
        (a - value * b) / total,
        tuple(units),
        max(total, 1.0),
        edge=float(np.count_nonzero(b)),
        several=bool((b > 1).any()),
    )


def combination(parts: Sequence[Part], weights: Sequence[float], constant: float = 0.0) -> Part:
    """``constant + Σ weight · part`` of parts over the same records (paired differences, averages of rates)."""
    first = parts[0]
    for other in parts[1:]:
        if other.units != first.units:
            raise ValueError("parts are combined over the same records in the same order; join them by id first")
    value = constant + sum(w * p.value for p, w in zip(parts, weights, strict=True))
    influence = np.sum([w * p.influence for p, w in zip(parts, weights, strict=True)], axis=0)
    total = sum(abs(w) for w in weights) ** 2
    trials = total / sum(w**2 / p.trials for p, w in zip(parts, weights, strict=True))
    edge = total / sum(w**2 / p.edge for p, w in zip(parts, weights, strict=True))
    return Part(value, influence, first.units, trials, edge, any(p.several for p in parts))


def difference(a: Part, b: Part) -> Part:
    """``a - b`` over the same records, so that what both share cancels."""
    return combination((a, b), (1.0, -1.0))
