"""Which members an attack exposes most, named by id.

>>> import numpy as np
>>> class Run:
...     ids, scores = ("a", "b", "c", "d"), np.array([9.0, 1.0, 1.0, 0.0])
...     is_member = np.array([True, True, False, False])
>>> most_exposed([Run], 1)[0]["id"]
'a'
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpeval.measure.results import Detail
from dpeval.types import Floats

_HUGE = 1e100
_FARTHEST = 1e6
"""Standard deviations beyond which a score is not told from another: differences stay finite."""


class Scored(Protocol):
    """What is needed of a membership run."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Record ids."""
        ...

    @property
    def scores(self) -> Floats:
        """Higher means more likely a member."""
        ...

    @property
    def is_member(self) -> NDArray[np.bool_]:
        """The truth."""
        ...


def most_exposed(runs: Sequence[Scored], count: int) -> list[dict[str, Detail]]:
    """The ``count`` records whose scores betray membership most, worst first.

    A score is counted in standard deviations of that model's non-members (median and quartiles, so that no outlier
    sets the scale). A record that was a non-member of another model has its score there subtracted: a text that always
    scores high is conspicuous, not exposed. ``p`` is the share of non-members that score at least as high, over the
    models that held the record; twice the mean, which holds however the models depend (Vovk and Wang 2020, Table 1). It
    is that of one record named beforehand: among many, some look exposed by chance.
    """
    inside, outside = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    chances = defaultdict[str, list[float]](list)
    for run in runs:
        standard, tails = _standard(run), _tails(run)
        for key, member, value, tail in zip(
            run.ids, run.is_member.tolist(), standard.tolist(), tails.tolist(), strict=True
        ):
            (inside if member else outside)[key].append(value)
            if member:
                chances[key].append(tail)
    risk = {key: float(np.mean(seen)) - float(np.mean(outside.get(key, [0.0]))) for key, seen in inside.items()}
    worst = sorted(risk, key=lambda key: (-risk[key], key))[:count]
    return [
        {"id": key, "excess": risk[key], "p": merged(chances[key]), "models_as_member": len(inside[key])}
        for key in worst
    ]


def merged(p_values: Sequence[float]) -> float:
    """One p-value of several that may depend on one another in any way.

    >>> merged([0.01]), merged([0.01, 0.03])
    (0.01, 0.04)
    """
    return p_values[0] if len(p_values) == 1 else min(1.0, 2 * float(np.mean(p_values)))


def _tails(run: Scored) -> Floats:
    """For each record the share of non-members that score at least as high, itself counted as one of them."""
    rest = np.sort(run.scores[~run.is_member])
    out: Floats = (1 + len(rest) - np.searchsorted(rest, run.scores, side="left")) / (1 + len(rest))
    return out


def _standard(run: Scored) -> Floats:
    largest = float(np.abs(run.scores).max())
    # Squares of huge scores overflow; a power of two changes nothing else.
    scores = np.ldexp(run.scores, -math.frexp(largest)[1]) if largest > _HUGE else run.scores
    rest = scores[~run.is_member]
    low, middle, high = np.quantile(rest, (0.25, 0.5, 0.75))
    # Half of equal scores leave no quartile range; 1.349 is that of the standard normal distribution.
    scale = (high - low) / 1.349 or float(np.sort(rest).std()) or 1.0
    with np.errstate(over="ignore"):
        out: Floats = np.clip((scores - middle) / scale, -_FARTHEST, _FARTHEST)
    return out
