"""The record that every family of measures returns.

>>> from dpeval.types import Estimate
>>> Measures({"auc": Estimate(0.7, 0.6, 0.8, n=100)}).estimates["auc"].value
0.7
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dpeval.measure.influence import Part
from dpeval.types import Measured

Detail: TypeAlias = float | int | str | bool | tuple["Detail", ...] | Mapping[str, "Detail"] | None


@dataclass(frozen=True)
class Measures:
    """Named estimates of one cell, with what a reader must be warned of and the numbers behind them.

    ``estimates`` keeps its order, the first being the family's headline. ``details`` holds plain values only (frozen
    thresholds, false positive rates reached, most exposed ids), ready for JSON.
    """

    estimates: Mapping[str, Measured]
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Detail] = field(default_factory=dict)
    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict, compare=False, repr=False)
    """For some estimates the value of each model and the influence of each record, for tests and paired differences."""
