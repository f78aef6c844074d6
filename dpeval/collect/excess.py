"""Memorisation apart from population knowledge: what an embedding attack gets out of members more than out of others.

A high leak on both sides is what embeddings tell of any text; an excess on members is what training left behind
(validity guard V21).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeval.measure.attribute import AttributeRun
from dpeval.measure.influence import Part, difference, ratio_part
from dpeval.measure.intervals import Scale, estimate
from dpeval.measure.inversion import InversionRun
from dpeval.measure.recovery import Scope, count_bag, count_positions
from dpeval.types import Floats, Measured, Undefined

Membership = Sequence[NDArray[np.bool_]]
R = TypeVar("R", InversionRun, AttributeRun)


def inversion_excess(runs: Sequence[InversionRun], members: Membership, level: float) -> Measured:
    """Content words recovered (in place, or as bags where there are no places): members minus non-members."""

    def counted(run: InversionRun) -> tuple[Floats, Floats]:
        scope = Scope(run.never, run.content)
        count = count_positions if run.by_row else count_bag
        tallies = [count(g, t, scope) for g, t in zip(run.guessed, run.truth, strict=True)]
        return np.array([t.right for t in tallies], dtype=np.float64), np.array(
            [t.asked for t in tallies], dtype=np.float64
        )

    return _excess(runs, members, counted, level)


def attribute_excess(runs: Sequence[AttributeRun], members: Membership, level: float) -> Measured:
    """Attribute accuracy: members minus non-members."""
    return _excess(
        runs, members, lambda run: ((run.answers == run.truth).astype(np.float64), np.ones(len(run.truth))), level
    )


def _excess(
    runs: Sequence[R], members: Membership, counted: Callable[[R], tuple[Floats, Floats]], level: float
) -> Measured:
    parts: list[Part] = []
    for run, member in zip(runs, members, strict=True):
        right, asked = counted(run)
        try:
            sides = [ratio_part(right * side, asked * side, run.units) for side in (member, ~member)]
        except ZeroDivisionError:
            return Undefined("no target on one of the two sides")
        parts.append(difference(*sides))
    return estimate(parts, level=level, scale=Scale.DIFFERENCE) if parts else Undefined("nothing was attacked")
