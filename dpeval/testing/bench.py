"""What plug-ins are checked on: a tiny model, generated reviews, and helpers to notice hidden randomness."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dpeval.context import RunContext
from dpeval.data.config import SplitConfig
from dpeval.data.split import split
from dpeval.models.checkpoint import Checkpoint
from dpeval.plugin import Task
from dpeval.tiny import tiny_checkpoint, tiny_dataset
from dpeval.types import Dataset, Split


class ContractError(AssertionError):
    """A plug-in breaks the contract of :mod:`dpeval.plugin`."""


@dataclass(frozen=True, eq=False)
class Tiny:
    """A tiny world: a data set, its split, and a checkpoint."""

    dataset: Dataset
    parts: Split
    checkpoint: Checkpoint

    @classmethod
    def make(cls, folder: Path) -> Tiny:
        """Build it in ``folder``."""
        dataset = tiny_dataset()
        return cls(dataset, split(dataset, 0, SplitConfig()), tiny_checkpoint(folder))

    @property
    def task(self) -> Task:
        """A training task on the members."""
        return Task(train=self.parts.members, num_labels=len(self.dataset.label_names), checkpoint=self.checkpoint)


def context(seed: int = 0) -> RunContext:
    """A context on the CPU."""
    return RunContext(seed)


def require(condition: bool, message: str) -> None:
    """Raise a ContractError unless ``condition`` holds."""
    if not condition:
        raise ContractError(message)


@contextmanager
def global_randomness_watched(what: str) -> Iterator[None]:
    """Raise if the block moves a global generator: its results would depend on what ran before."""
    before = _global_state()
    yield
    moved = [
        name for name, old, new in zip(("random", "numpy", "torch"), before, _global_state(), strict=True) if old != new
    ]
    require(
        not moved, f"{what} draws from the global generator of {', '.join(moved)}; draw from ctx.rng or ctx.generator"
    )


def _global_state() -> tuple[bytes, bytes, bytes]:
    legacy = np.random.get_state(legacy=False)  # noqa: NPY002 - read to see that nobody uses it
    numpy_state = repr(legacy["state"]["key"].tobytes() if "key" in legacy["state"] else legacy)
    position = repr(legacy["state"].get("pos"))
    return repr(random.getstate()).encode(), (numpy_state + position).encode(), bytes(torch.get_rng_state().numpy())
