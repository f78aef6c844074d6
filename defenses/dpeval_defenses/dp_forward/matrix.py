"""Matrix noise of any shape: Z = U·N·Vᵀ whose weakest direction is as strong as privacy asks for.

Only the smallest singular values of U and V matter (Du et al. 2023, Theorem 6); the others, and the bases, are free.

>>> release = MatrixRelease(clip=1.0, sigma=0.6, row_scales=(1.0, 4.0), column_scales=(2.0,), basis="random")
>>> report = release.factors(3, 2).check(epsilon=8.0, delta=1e-5, sensitivity=1.0)
>>> round(report.product, 6), report.holds
(0.6, False)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from dpeval.models.transform import normal_like
from dpeval.privacy.matrix_gaussian import MatrixNoise
from dpeval.types import Floats
from dpeval_defenses.dp_forward.accounting import NoisePlan, Shape
from dpeval_defenses.dp_forward.noise import NoisyRelease

Basis: TypeAlias = Literal["axes", "random"]


@dataclass(frozen=True)
class MatrixRelease(NoisyRelease):
    """Bound, then add Z = U·N·Vᵀ; ``sigma`` is the deviation in the weakest direction, σ_min(U)·σ_min(V)."""

    row_scales: tuple[float, ...] = (1.0,)
    """Singular values of U relative to each other; repeated as often as there are rows."""
    column_scales: tuple[float, ...] = (1.0,)
    """The same for V and the columns."""
    basis: Basis = "axes"
    """Along rows and columns themselves, or along orthogonal bases drawn from ``basis_seed``."""
    basis_seed: int = 0

    def __post_init__(self) -> None:
        for name in ("row_scales", "column_scales"):
            values = tuple(float(v) for v in getattr(self, name))
            check_scales(name, values)
            object.__setattr__(self, name, values)  # a list when it comes back from JSON

    def factors(self, rows: int, width: int) -> MatrixNoise:
        """U and V for a release of ``rows`` × ``width``."""
        left = self.sigma * _relative(self.row_scales, rows)
        right = _relative(self.column_scales, width)
        if self.basis == "axes":
            return MatrixNoise.from_singular_values(left, right)
        bases = (orthogonal(n, self.basis_seed, side) for side, n in enumerate((rows, width)))
        return MatrixNoise.from_singular_values(left, right, *bases)

    def noised(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """``x`` plus U·N·Vᵀ, the products in float64: rounding must not weaken the weakest direction."""
        if self.sigma == 0:
            return x
        left, right = self._tensors(x.shape[1], x.shape[2])
        normal = normal_like(x, generators).cpu().double()
        # One product of one shape for each example: the same to the bit in any batch.
        noise = torch.stack([_times(left, _times(right, each.T).T) for each in normal])
        return x + noise.to(x.dtype).to(x.device)

    def _tensors(self, rows: int, width: int) -> tuple[Tensor, Tensor]:
        if (rows, width) not in self._made:
            noise = self.factors(rows, width)
            axes = self.basis == "axes"
            self._made[rows, width] = (_factor(noise.left, axes), _factor(noise.right, axes))
        return self._made[rows, width]

    @cached_property
    def _made(self) -> dict[tuple[int, int], tuple[Tensor, Tensor]]:
        return {}


def check_condition(release: MatrixRelease, plan: NoisePlan, shape: Shape) -> None:
    """Raise ValueError unless the factors that noise is drawn with meet what ``plan`` rests on.

    Their singular values are computed, not taken from the settings.
    """
    left, right = release.factors(shape.rows, shape.width).singular_values()
    product = float(left[-1] * right[-1])
    if not product >= plan.sigma * (1 - 1e-9):
        raise ValueError(
            f"matrix noise: the smallest singular values of U and V multiply to {product:.6g}, and ε needs "
            f"{plan.sigma:.6g}; expected scales of less different size"
        )


def check_scales(name: str, values: Sequence[float]) -> None:
    """Raise ValueError unless all are positive and finite: a direction without noise is not private."""
    if not values or not all(0 < v < float("inf") for v in values):
        raise ValueError(f"{name}: expected one or more singular values > 0, got {list(values)}")


def orthogonal(size: int, seed: int, side: int) -> Floats:
    """An orthogonal basis drawn uniformly (Haar) from ``seed``: QR of a normal matrix, signs fixed (Mezzadri 2007)."""
    q, r = np.linalg.qr(np.random.default_rng([seed, side, size]).standard_normal((size, size)))
    return np.asarray(q * np.sign(np.diag(r)), dtype=np.float64)


def _relative(scales: Sequence[float], size: int) -> Floats:
    return np.resize(np.asarray(scales, dtype=np.float64), size) / min(scales)


def _factor(matrix: Floats, diagonal: bool) -> Tensor:
    return torch.from_numpy(np.diag(matrix).copy() if diagonal else matrix)


def _times(factor: Tensor, x: Tensor) -> Tensor:
    return factor.unsqueeze(1) * x if factor.ndim == 1 else factor @ x
