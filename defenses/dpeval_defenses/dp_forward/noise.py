"""The released tensor of DP-Forward: bounded as a whole or row by row, then noised.

>>> x = torch.tensor([[[3.0, 4.0]], [[0.0, 0.0]]])
>>> [round(norm, 4) for norm in bounded(x, clip=1.0, normalise=True).norm(dim=(1, 2)).tolist()]
[1.0, 0.0]
>>> bounded(torch.tensor([[[3.0, 4.0], [0.0, 0.5]]]), clip=1.0, normalise=False, rows=True).tolist()
[[[0.5999993681907654, 0.7999991774559021], [0.0, 0.5]]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpeval.models.transform import Transform, normal_like

# Float32 rounds a norm by less than this, so that "at most C" holds for the numbers that really leave.
MARGIN = 1e-6
ZERO = 1e-12


def bounded(x: Tensor, *, clip: float, normalise: bool, rows: bool = False) -> Tensor:
    """Each example's (n, d) matrix scaled to Frobenius norm ``clip``, or to at most that when not ``normalise``.

    Shape (B, n, d). Results of any two inputs are at most 2·clip apart (Du et al. 2023, section 3.2). With ``rows`` it
    is each row that is scaled, and inputs that differ in one row are at most 2·clip apart. What is zero stays zero, and
    the gradient there is ``clip`` times the identity: finite, where x/‖x‖ has none.
    """
    squared = x.double().square().sum(dim=2 if rows else (1, 2), keepdim=True)
    is_zero = squared <= ZERO**2
    norm = torch.where(is_zero, 1.0, squared).sqrt()
    factor = (1 - MARGIN) * clip / norm
    return x * (factor if normalise else factor.clamp(max=1.0)).to(x.dtype)


@dataclass(frozen=True)
class NoisyRelease(Transform):
    """Bound to norm ``clip``, as a whole or row by row, then add N(0, ``sigma``²) to every entry.

    Equal singular values in the matrix Gaussian mechanism: Z ~ MN(0, σ²I, I), Du et al. 2023, Theorem 6. Without
    noise (``sigma`` = 0) only the bound is left.
    """

    clip: float
    sigma: float
    normalise: bool = True
    rows: bool = False
    """Bound each row by itself: token level."""

    def apply(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """The noised tensor, shape of ``x``; gradients flow through the bound, the noise is a constant."""
        return self.noised(self.bound(x), generators)

    def bound(self, x: Tensor) -> Tensor:
        """``x`` within the norm that the noise is calibrated to."""
        return bounded(x, clip=self.clip, normalise=self.normalise, rows=self.rows)

    def noised(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """``x`` plus noise, example i from ``generators[i]``."""
        return x if self.sigma == 0 else x.add(normal_like(x, generators), alpha=self.sigma)
