"""What was done to the data, as plain records; what it is worth is the accountants' business (``sampled``).

In all of them σ is the *noise multiplier*: the deviation of the noise on the summed gradients divided by the clipping
norm C, whatever the adjacency. Replacing a record moves the sum by up to 2C; that factor 2 belongs to the accountants.

>>> SampledGaussian(noise_multiplier=1.0, sampling_rate=0.01, steps=1000).sampling
'poisson'
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar, TypeAlias


@dataclass(frozen=True)
class SampledGaussian:
    """DP-SGD with Poisson sampling: each record joins each of ``steps`` updates by a coin of ``sampling_rate``."""

    noise_multiplier: float
    sampling_rate: float
    steps: int

    sampling: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        _check(self, self.steps)
        if not 0 <= self.sampling_rate <= 1:
            raise ValueError(f"SampledGaussian: expected 0 <= sampling_rate <= 1, got {self.sampling_rate}")


@dataclass(frozen=True)
class FixedSizeGaussian:
    """Every update draws ``batch`` of ``num_records`` records without replacement, afresh; N is public."""

    noise_multiplier: float
    batch: int
    num_records: int
    steps: int

    sampling: ClassVar[str] = "fixed-size without replacement"

    def __post_init__(self) -> None:
        _check(self, self.steps)
        if not 0 <= self.batch <= self.num_records or self.num_records < 1:
            raise ValueError(f"FixedSizeGaussian: expected 0 <= batch <= N, got {self.batch} of {self.num_records}")


@dataclass(frozen=True)
class ShuffledGaussian:
    """Passes over shuffled batches, each record in one batch of each of ``epochs`` (begun) passes; N is public."""

    noise_multiplier: float
    epochs: int

    sampling: ClassVar[str] = "shuffled batches"

    def __post_init__(self) -> None:
        _check(self, self.epochs)


Mechanism: TypeAlias = SampledGaussian | FixedSizeGaussian | ShuffledGaussian


def reveals_nothing(mechanism: Mechanism) -> bool:
    """Whether no record ever enters a step, or the noise is infinite."""
    if mechanism.noise_multiplier == math.inf:
        return True
    match mechanism:
        case SampledGaussian():
            return mechanism.steps == 0 or mechanism.sampling_rate == 0
        case FixedSizeGaussian():
            return mechanism.steps == 0 or mechanism.batch == 0
        case ShuffledGaussian():
            return mechanism.epochs == 0


def _check(mechanism: Mechanism, count: int) -> None:
    name = type(mechanism).__name__
    if not mechanism.noise_multiplier >= 0:
        raise ValueError(f"{name}: expected noise_multiplier >= 0, got {mechanism.noise_multiplier}")
    if not _is_whole(count) or count < 0:
        raise ValueError(f"{name}: expected a whole number of steps or epochs >= 0, got {count!r}")


def _is_whole(count: object) -> bool:
    # 735.0 is refused too: a step count that was a float on the way is how steps get lost.
    return isinstance(count, Integral) and not isinstance(count, bool)
