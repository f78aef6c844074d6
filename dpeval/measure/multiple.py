"""Many comparisons at once: Holm's correction, and ranks that show ties as ties.

>>> holm([0.01, 0.04, 0.03])
[0.03, 0.06, 0.06]
>>> tied_ranks([("a", 0.9), ("b", 0.7), ("c", 0.5)], lambda x, y: {x, y} == {"a", "c"})
[Rank(name='a', first=1, last=2), Rank(name='b', first=1, last=3), Rank(name='c', first=2, last=3)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy import stats

from dpeval.types import Estimate


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number (Holm 1979): reject where ``<= alpha``, family-wise level ``alpha``."""
    if any(not 0 <= p <= 1 for p in p_values):
        raise ValueError(f"expected p-values in [0, 1], got {list(p_values)}")
    out, reached = [0.0] * len(p_values), 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        reached = max(reached, min(1.0, (len(p_values) - place) * p_values[i]))
        out[i] = reached
    return out


def p_value(found: Estimate, null: float) -> float:
    """Two-sided p-value implied by an interval: normal, with the interval's own half-width on the side of ``null``."""
    half = found.value - found.low if null < found.value else found.high - found.value
    distance = abs(found.value - null)
    if half <= 0:
        return 1.0 if distance == 0 else 0.0
    z = float(stats.norm.ppf(0.5 + found.level / 2)) * distance / half
    return min(1.0, 2 * float(stats.norm.sf(z)))


def family_alpha(alpha: float, claims: int) -> float:
    """The level of each of ``claims`` audits so that one wrong refutation in the family has probability ``alpha``."""
    if claims < 1 or not math.isfinite(alpha):
        raise ValueError(f"expected at least one claim, got {claims}")
    return alpha / claims


@dataclass(frozen=True)
class Rank:
    """The places that an entry may take: it is behind ``first - 1`` others for certain, and before the rest."""

    name: str
    first: int
    last: int


def tied_ranks(entries: Sequence[tuple[str, float]], differ: Callable[[str, str], bool]) -> list[Rank]:
    """Ranks from the largest value down; entries whose difference is not established share places ("=").

    ``differ(a, b)`` says whether a's and b's values differ significantly, for instance from a paired interval.
    """
    ordered = sorted(entries, key=lambda entry: -entry[1])
    out = []
    for i, (name, _) in enumerate(ordered):
        above = sum(differ(other, name) for other, _ in ordered[:i])
        below = sum(differ(name, other) for other, _ in ordered[i + 1 :])
        out.append(Rank(name, above + 1, len(ordered) - below))
    return out
