"""Gaussian noise for matrices: the analytic matrix mechanism of DP-Forward, and the older MVG mechanism.

A release is f(X) + Z with Z = U·N·Vᵀ, N standard normal of shape n × d; its row covariance is UUᵀ and its column
covariance VVᵀ. What decides privacy is only the smallest singular value of U times the smallest of V.

>>> report = amgm_condition([2.0, 1.0, 0.75], [3.0, 0.9], epsilon=8.0, delta=1e-5, sensitivity=1.0)
>>> report.holds, round(report.product, 3), round(report.needed, 3), round(report.epsilon, 2)
(True, 0.675, 0.6, 6.95)
>>> f"{mvg_budget(128, 768, gamma=1.0, sensitivity=1.0, epsilon=8.0, delta=1e-5).iid_sigma:.3g}"
'2.14e+07'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpeval.privacy.gaussian import analytic_gaussian_sigma, epsilon_of_gaussian, gaussian_mu, gaussian_mu_for
from dpeval.types import Floats


@dataclass(frozen=True, kw_only=True)
class AmgmReport:
    """Whether given singular values make one matrix release (ε, δ)-private, and the ε that they really give."""

    holds: bool
    product: float
    """σ_min(U)·σ_min(V): the noise in its weakest direction."""
    needed: float
    """The product that the condition asks for; also the deviation of independent noise that just meets it."""
    epsilon: float
    """The smallest ε that these singular values satisfy at δ."""


def amgm_bound(epsilon: float, delta: float) -> float:
    """The bound B(ε, δ) of DP-Forward (Du et al. 2023, theorem 6): privacy holds iff S₂/B ≤ σ_min(U)·σ_min(V)."""
    if not (0 <= epsilon < math.inf and 0 < delta < 1):
        raise ValueError(f"amgm_bound: expected finite epsilon >= 0 and 0 < delta < 1, got {epsilon}, {delta}")
    return gaussian_mu_for(epsilon, delta)


def amgm_condition(
    left_singular_values: Sequence[float],
    right_singular_values: Sequence[float],
    epsilon: float,
    delta: float,
    sensitivity: float,
) -> AmgmReport:
    """Check the necessary and sufficient condition for Z = U·N·Vᵀ (Du et al. 2023, theorem 6).

    Give all n singular values of U and all d of V. ``sensitivity`` is in Frobenius norm: 2C where any input may be
    replaced by any other and each is normalised to norm C.
    """
    product = _smallest("left", left_singular_values) * _smallest("right", right_singular_values)
    needed = analytic_gaussian_sigma(epsilon, delta, sensitivity)
    true = epsilon_of_gaussian(gaussian_mu(product, sensitivity), delta)
    # ``needed`` is rounded up by 1e-11; factors that meet it exactly may lose an ulp in the product.
    return AmgmReport(holds=product >= needed * (1 - 1e-11), product=product, needed=needed, epsilon=true)


def _smallest(side: str, values: Sequence[float]) -> float:
    if not len(values) or not all(0 <= v < math.inf for v in values):
        raise ValueError(f"amgm: expected one or more finite {side} singular values >= 0, got {list(values)!r}")
    return float(min(values))


@dataclass(frozen=True, eq=False)
class MatrixNoise:
    """The distribution of Z = U·N·Vᵀ, given by the factors ``left`` (n × n) and ``right`` (d × d)."""

    left: Floats
    right: Floats

    def __post_init__(self) -> None:
        for name, factor in (("left", self.left), ("right", self.right)):
            if factor.ndim != 2 or factor.shape[0] != factor.shape[1] or not np.isfinite(factor).all():
                raise ValueError(f"MatrixNoise: expected a finite square {name} factor, got shape {factor.shape}")

    @classmethod
    def from_singular_values(
        cls,
        left: ArrayLike,
        right: ArrayLike,
        left_basis: Floats | None = None,
        right_basis: Floats | None = None,
    ) -> MatrixNoise:
        """Factors with these singular values along the columns of orthogonal bases (the axes by default)."""
        return cls(_factor("left", left, left_basis), _factor("right", right, right_basis))

    def singular_values(self) -> tuple[Floats, Floats]:
        """The singular values of U and of V, largest first; computed from the factors, not taken on trust."""
        left, right = (np.linalg.svd(f, compute_uv=False).astype(np.float64) for f in (self.left, self.right))
        return left, right

    def check(self, epsilon: float, delta: float, sensitivity: float) -> AmgmReport:
        """:func:`amgm_condition` for these factors."""
        left, right = self.singular_values()
        return amgm_condition(left.tolist(), right.tolist(), epsilon, delta, sensitivity)

    def draw(self, rng: np.random.Generator) -> Floats:
        """One Z, shape (n, d), float64."""
        return self.left @ rng.standard_normal((len(self.left), len(self.right))) @ self.right.T


def _factor(side: str, values: ArrayLike, basis: Floats | None) -> Floats:
    diagonal = np.asarray(values, dtype=np.float64)
    if diagonal.ndim != 1 or not (diagonal >= 0).all():
        raise ValueError(f"MatrixNoise: expected a list of {side} singular values >= 0, got {values!r}")
    if basis is None:
        return np.diag(diagonal)
    if basis.shape != (len(diagonal),) * 2 or not np.allclose(basis.T @ basis, np.eye(len(diagonal)), atol=1e-8):
        raise ValueError(f"MatrixNoise: expected an orthogonal {side} basis of {len(diagonal)} columns")
    return np.asarray(basis * diagonal, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class MvgBudget:
    """The precision budget of the MVG mechanism and the numbers it is made of.

    Privacy needs ‖sv(Σ⁻¹)‖₂·‖sv(Ψ⁻¹)‖₂ ≤ ``budget``, Σ and Ψ the row and column covariance.
    """

    alpha: float
    beta: float
    zeta: float
    budget: float
    iid_sigma: float
    """Deviation of independent, equal noise that uses the budget up."""


def mvg_budget(rows: int, cols: int, *, gamma: float, sensitivity: float, epsilon: float, delta: float) -> MvgBudget:
    """The budget of the MVG mechanism (Chanyaswad et al. 2018, theorem 4) for an n × d release.

    ``gamma`` bounds the Frobenius norm of the released matrix, ``sensitivity`` its change. The condition is only
    sufficient and its noise grows with n·d: at 128 × 768 it asks for about 1e7 times the noise of the analytic one.
    """
    if rows < 1 or cols < 1 or not (gamma > 0 and sensitivity > 0 and epsilon > 0 and 0 < delta < 1):
        raise ValueError(
            "mvg_budget: expected rows, cols >= 1, gamma, sensitivity, epsilon > 0 and 0 < delta < 1, "
            f"got {rows}, {cols}, {gamma}, {sensitivity}, {epsilon}, {delta}"
        )
    size, index = rows * cols, np.arange(1, min(rows, cols) + 1)
    harmonic, harmonic_half = float((1 / index).sum()), float((1 / np.sqrt(index)).sum())
    zeta = 2 * math.sqrt(-size * math.log(delta)) - 2 * math.log(delta) + size
    alpha = (harmonic + harmonic_half) * gamma**2 + 2 * harmonic * gamma * sensitivity
    beta = 2 * size**0.25 * zeta * harmonic * sensitivity
    # −β+√(β²+8αε) loses all its digits for large matrices, towards too little noise; this form subtracts nothing.
    root = 8 * alpha * epsilon / (beta + math.sqrt(beta**2 + 8 * alpha * epsilon))
    budget = (root / (2 * alpha)) ** 2
    return MvgBudget(alpha=alpha, beta=beta, zeta=zeta, budget=budget, iid_sigma=math.sqrt(math.sqrt(size) / budget))


def mvg_iid_sigma(rows: int, cols: int, *, gamma: float, sensitivity: float, epsilon: float, delta: float) -> float:
    """The deviation of independent noise under :func:`mvg_budget`."""
    budget = mvg_budget(rows, cols, gamma=gamma, sensitivity=sensitivity, epsilon=epsilon, delta=delta)
    return budget.iid_sigma


def mvg_holds(budget: MvgBudget, row_variances: Sequence[float], col_variances: Sequence[float]) -> bool:
    """Whether covariances with these eigenvalues stay inside the budget."""
    if min(*row_variances, *col_variances) <= 0:
        raise ValueError("mvg_holds: expected variances > 0; a direction without noise is not private")
    spent = math.hypot(*(1 / v for v in row_variances)) * math.hypot(*(1 / v for v in col_variances))
    return spent <= budget.budget
