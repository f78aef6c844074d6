"""The ``[controls]`` table of a matrix file: on how many models each attack is itself tested.

>>> ControlConfig(seeds="all").first((0, 1, 2)), ControlConfig().first((0, 1, 2))
((0, 1, 2), (0,))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ControlConfig:
    """How much validating the attacks may cost."""

    seeds: int | Literal["all"] = 1
    """On how many seeds of the matrix, from the first, controls are trained and attacked. One asks whether an attack
    works at all; on several it has to work on every one, so that no single lucky model validates it."""

    def __post_init__(self) -> None:
        if self.seeds != "all" and self.seeds < 1:
            raise ValueError(f'seeds: expected at least 1, or "all", got {self.seeds}')

    def first(self, seeds: tuple[int, ...]) -> tuple[int, ...]:
        """The seeds that have every control."""
        return seeds if self.seeds == "all" else seeds[: self.seeds]
