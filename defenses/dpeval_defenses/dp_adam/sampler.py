"""Which records take part in a step: Poisson draws, as the accountant assumes them.

Each step draws from a stream of its own, named by the step's number. A resumed run, a second process, or a run
interrupted at any moment therefore draws exactly what the unbroken one would have drawn, and no state has to be kept.

>>> sampler = PoissonSampler(num_records=1000, rate=0.05, entropy=7)
>>> draw = sampler.draw(step=0)
>>> bool((draw == sampler.draw(step=0)).all()), len(draw) == len(sampler.draw(step=1))
(True, False)
>>> [len(part) for part in micro_batches(draw, size=32)]
[32, 25]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpeval.types import Ints


class Sampler(Protocol):
    """Draws the records of each step; positions are ascending in ``0..num_records-1``."""

    @property
    def num_records(self) -> int:
        """How many records there are to draw from."""
        ...

    @property
    def rate(self) -> float:
        """The chance that a given record takes part in a given step."""
        ...

    def draw(self, step: int) -> Ints:
        """The positions drawn for ``step``, shape ``(drawn,)``; possibly none."""
        ...


def expected_rate(batch_size: int, num_records: int) -> float:
    """The sampling rate that draws ``batch_size`` records on average: min(1, batch_size / num_records)."""
    if batch_size < 1 or num_records < 1:
        raise ValueError(f"expected batch_size >= 1 and num_records >= 1, got {batch_size} and {num_records}")
    return min(1.0, batch_size / num_records)


@dataclass(frozen=True)
class PoissonSampler:
    """Every record takes part in every step by its own coin of probability ``rate``.

    Draws differ in size and may be empty: an empty draw is a step like any other, and is accounted like one.
    ``entropy`` is the secret that the draws come from; the amplification by sampling holds only while it stays secret.
    """

    num_records: int
    rate: float
    entropy: int

    def __post_init__(self) -> None:
        if self.num_records < 1:
            raise ValueError(f"PoissonSampler: expected num_records >= 1, got {self.num_records}")
        if not 0 < self.rate <= 1:
            raise ValueError(f"PoissonSampler: expected 0 < rate <= 1, got {self.rate}; use expected_rate()")

    def draw(self, step: int) -> Ints:
        """The records of ``step``: independent coins, fresh in every step."""
        coins = _stream(self.entropy, step).random(self.num_records)
        return np.flatnonzero(coins < self.rate).astype(np.int64)


@dataclass(frozen=True)
class FixedSizeSampler:
    """Each step takes a fresh uniformly random subset of exactly ``batch_size`` records, without replacement.

    Not Poisson sampling, and not to be accounted as such: the bounds for it hold for replacing a record only.
    """

    num_records: int
    batch_size: int
    entropy: int

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= self.num_records:
            raise ValueError(
                f"FixedSizeSampler: expected 1 <= batch_size <= {self.num_records} records, got {self.batch_size}"
            )

    @property
    def rate(self) -> float:
        """The share of the records in each subset."""
        return self.batch_size / self.num_records

    def draw(self, step: int) -> Ints:
        """The subset of ``step``, ascending."""
        subset = _stream(self.entropy, step).choice(self.num_records, self.batch_size, replace=False, shuffle=False)
        return np.sort(subset).astype(np.int64)


def micro_batches(draw: Ints, size: int) -> Iterator[Ints]:
    """Consecutive parts of ``draw`` of at most ``size`` records, so that a draw of any size fits into memory."""
    if size < 1:
        raise ValueError(f"expected a micro-batch size >= 1, got {size}")
    for start in range(0, len(draw), size):
        yield draw[start : start + size]


def _stream(entropy: int, step: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(step,)))
