"""What the harness hands to a plug-in at run time: random streams of its own, a device, and progress.

>>> ctx = RunContext(seed=3)
>>> float(ctx.rng("noise").random()) == float(RunContext(seed=3).rng("noise").random())
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dpeval import seeds
from dpeval.plugin import Shadow

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
Report = Callable[[str, int, int | None], None]
"""Told (what, done, total) while work goes on."""


def silent(what: str, done: int, total: int | None) -> None:
    """A progress report to nobody."""


def no_shadows(count: int) -> Sequence[Shadow]:
    """The shadow releases of a plug-in that declared none."""
    raise ValueError(
        f"asked for {count} shadow releases, but none are declared: give the attack `shadows: int = {count}`"
    )


@dataclass(frozen=True)
class RunContext:
    """The implementation of :class:`dpeval.plugin.Context`."""

    seed: int
    device_name: str = "cpu"
    report: Report = silent
    scratch: Path | None = None
    """See :class:`dpeval.plugin.Context`."""
    shadow_source: Callable[[int], Sequence[Shadow]] = no_shadows

    @property
    def device(self) -> torch.device:
        """Where models run."""
        import torch

        return torch.device(self.device_name)

    def rng(self, *names: str | int) -> np.random.Generator:
        """A numpy generator of its own for each list of names."""
        return seeds.rng(self.seed, *names)

    def generator(self, *names: str | int) -> torch.Generator:
        """A torch CPU generator of its own for each list of names."""
        return seeds.generator(self.seed, *names)

    def progress(self, items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
        """Iterate over ``items`` and report how far the work is."""
        if total is None and isinstance(items, Sized):
            total = len(items)
        for done, item in enumerate(items):
            self.report(what, done, total)
            yield item
        if total is not None:
            self.report(what, total, total)

    def shadows(self, count: int) -> Sequence[Shadow]:
        """Up to ``count`` shadow releases, trained with the target's own defense."""
        return self.shadow_source(count)
