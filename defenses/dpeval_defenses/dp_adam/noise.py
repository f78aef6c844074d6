"""The Gaussian noise of DP-SGD, from a source of its own that nothing else draws from.

Noise is named by the step and by the parameter's place in the list of trained parameters. No two of them share a
stream, whatever the number of processes, and a resumed run continues with the noise that the unbroken run would have
had. (torch's CPU generator is not used: it keeps 32 bits of its seed, few enough for two steps to meet or for an
adversary to try them all.)

>>> noise = SeededNoise(entropy=7)
>>> z = noise.standard(step=3, index=0, shape=(2, 3))
>>> tuple(z.shape), bool((z == noise.standard(step=3, index=0, shape=(2, 3))).all())
((2, 3), True)
>>> bool((z == noise.standard(step=4, index=0, shape=(2, 3))).any())
False
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch

from dpeval.types import Floats

_CHUNK = 1 << 18
"""Values made at a time, so that the float64 working space stays small beside the parameters."""


class Noise(Protocol):
    """A source of standard Gaussian noise."""

    @property
    def repeatable(self) -> bool:
        """Whether a second run draws the same noise."""
        ...

    def standard(self, step: int, index: int, shape: Sequence[int]) -> torch.Tensor:
        """Independent N(0, 1) entries, float32 on the CPU, for parameter number ``index`` in ``step``."""
        ...


@dataclass(frozen=True)
class SeededNoise:
    """Noise that depends on nothing but ``entropy``, step and parameter: for experiments that can be repeated.

    ``entropy`` is the secret of the whole guarantee. Whoever knows it can take the noise off again.
    """

    entropy: int
    repeatable: ClassVar[bool] = True

    def standard(self, step: int, index: int, shape: Sequence[int]) -> torch.Tensor:
        """See :class:`Noise`; the same for the same step and index."""
        stream = np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(step, index)))
        return torch.from_numpy(stream.standard_normal(tuple(shape), dtype=np.float32))


@dataclass(frozen=True)
class SecureNoise:
    """Noise from the operating system's cryptographic generator; such a run cannot be repeated.

    Each value is the sum of four independent Box-Muller Gaussians over two, computed in float64 (Holohan and Braghin
    2021, arXiv 2107.10138), so that the noise cannot be told from the low bits of the output, as Mironov (2012) did for
    the Laplace mechanism, without trying all combinations of three of the four. What remains: values are rounded to
    float32, and the clipped sum is itself a floating-point sum whose rounding depends on the data.
    """

    repeatable: ClassVar[bool] = False
    terms: ClassVar[int] = 4

    def standard(self, step: int, index: int, shape: Sequence[int]) -> torch.Tensor:
        """See :class:`Noise`; fresh at every call."""
        del step, index
        values = np.empty(math.prod(shape), dtype=np.float32)
        for start in range(0, len(values), _CHUNK):
            part = values[start : start + _CHUNK]
            terms = [_box_muller(_uniform(len(part)), _uniform(len(part))) for _ in range(self.terms)]
            part[:] = np.sum(terms, axis=0) / math.sqrt(self.terms)
        return torch.from_numpy(values).reshape(tuple(shape))


def _uniform(size: int) -> Floats:
    """Uniform on the 2^53 multiples of 2^-53 in (0, 1], from the operating system."""
    words = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
    uniform: Floats = ((words >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53
    return uniform


def _box_muller(radius: Floats, angle: Floats) -> Floats:
    """Box and Muller (1958): N(0, 1) from two uniform variables in (0, 1]."""
    normal: Floats = np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * math.pi * angle)
    return normal
