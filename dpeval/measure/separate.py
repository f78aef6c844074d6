"""Two values that were measured in separate experiments: the interval of their difference, and how likely it is chance.

Two 95 % intervals that do not overlap differ by more than a test at 5 % asks for, and two that overlap may differ for
certain: overlap is no test. The interval of the difference adds the squares of the half-widths on the sides that face
each other (MOVER: Zou and Donner 2008, eq. 6), so that it keeps the lopsidedness of both. It takes the two for
independent. Where they share records or seeds they mostly vary together, and it is then too wide, not too narrow.

>>> difference_of(Estimate(0.60, 0.56, 0.64, n=500), Estimate(0.53, 0.50, 0.56, n=500)).excludes(0.0)
True
"""

from __future__ import annotations

import math

from scipy import stats

from dpeval.types import Estimate


def difference_of(one: Estimate, other: Estimate) -> Estimate:
    """``one - other`` with its interval, at the level that both share.

    Raises:
        ValueError: the two have intervals of different levels.
    """
    if one.level != other.level:
        raise ValueError(f"expected intervals of one level, got {one.level} and {other.level}")
    value = one.value - other.value
    low = value - math.hypot(one.value - one.low, other.high - other.value)
    high = value + math.hypot(one.high - one.value, other.value - other.low)
    return Estimate(value, low, high, min(one.n, other.n), one.level, min(one.models, other.models))


def separate_p_value(one: Estimate, other: Estimate) -> float:
    """Two-sided p-value of no difference: at the level of the intervals it agrees with :func:`difference_of`.

    Other levels are reached by Student's distribution with the degrees of freedom of the trained models of both sides
    (normal for one model each), so that few models do not weigh more at a smaller level than they do at theirs.
    """
    found = difference_of(one, other)
    if found.value == 0:
        return 1.0
    half = found.value - found.low if found.value > 0 else found.high - found.value
    if half == 0:
        return 0.0
    freedom = one.models + other.models - 2
    law = stats.t(freedom) if freedom else stats.norm()
    return min(1.0, 2 * float(law.sf(law.ppf(0.5 + found.level / 2) * abs(found.value) / half)))
