"""What DP-Forward's noise is worth: σ for a target ε, by mechanism, and the ε that σ really gives.

Sequence level: the whole matrix of a text is bounded by C, so any two texts are at most 2C apart (Du et al. 2023,
section 3.2, Theorem 1). Releases of one text compose exactly: k Gaussian releases are one with μ√k.

>>> plan = plan_noise(epsilon=8.0, delta=1e-5, clip=1.0, releases=1)
>>> round(plan.sigma, 4), round(plan.epsilon, 4)
(1.2005, 8.0)
>>> published = plan_noise(epsilon=8.0, delta=1e-5, clip=1.0, releases=3, paper_compat=True)
>>> round(published.sigma, 4), round(published.epsilon_per_release, 2), round(published.epsilon, 2)
(0.6002, 19.12, 40.52)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dpeval.privacy.gaussian import (
    analytic_gaussian_sigma,
    classic_gaussian_sigma,
    epsilon_of_gaussian,
    gaussian_mu,
)
from dpeval.privacy.matrix_gaussian import mvg_budget

Mechanism: TypeAlias = Literal["analytic", "matrix", "classic", "mvg"]

MECHANISMS: dict[str, str] = {
    "analytic": "analytic Gaussian on the forward tensor (aMGM with equal singular values)",
    "matrix": "analytic matrix Gaussian on the forward tensor (aMGM, sigma in its weakest direction)",
    "classic": "classic Gaussian on the forward tensor, valued by its exact ε",
    "mvg": "matrix-variate Gaussian (MVG, equal row budgets) on the forward tensor, valued by its exact ε",
}


@dataclass(frozen=True)
class NoisePlan:
    """The noise of one release, and what ``releases`` of them give."""

    sigma: float
    """Deviation in the weakest direction."""
    delta: float
    sensitivity: float
    """What two neighbouring inputs can really be apart, whatever the calibration took."""
    releases: int
    nominal: float
    """The ε that was asked for; what holds is ``epsilon``."""

    @property
    def mu(self) -> float:
        """Of all releases together."""
        return gaussian_mu(self.sigma, self.sensitivity, self.releases)

    @property
    def epsilon(self) -> float:
        """Of all releases together, exactly."""
        return epsilon_of_gaussian(self.mu, self.delta)

    @property
    def epsilon_per_release(self) -> float:
        """Of one of them, exactly."""
        return epsilon_of_gaussian(gaussian_mu(self.sigma, self.sensitivity), self.delta)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Size of a released matrix and the largest Frobenius norm that it can have; only MVG asks for it."""

    rows: int
    width: int
    norm: float


def plan_noise(
    *,
    epsilon: float,
    delta: float,
    clip: float,
    releases: int,
    stretch: float = 1.0,
    mechanism: Mechanism = "analytic",
    shape: Shape | None = None,
    paper_compat: bool = False,
) -> NoisePlan:
    """The smallest noise with which ``releases`` releases of one text are (ε, δ)-private together by ``mechanism``.

    Two inputs are 2·``clip``·``stretch`` apart at most; ``stretch`` is what linear maps after the bound do to that.
    With ``paper_compat`` the noise is the published one: calibrated to one release of sensitivity 1 whatever C is
    (Du et al.'s code), so that ε, computed from what is really released, comes out above the one asked for.
    """
    sensitivity = 2 * clip * stretch
    assumed, counted = (1.0, 1) if paper_compat else (sensitivity, releases)
    sigma = _sigma(mechanism, epsilon, delta, assumed, counted, shape, beyond_theorem=paper_compat)
    return NoisePlan(sigma=sigma, delta=delta, sensitivity=sensitivity, releases=releases, nominal=epsilon)


def _sigma(
    mechanism: Mechanism, epsilon: float, delta: float, sensitivity: float, releases: int, shape: Shape | None,
    *, beyond_theorem: bool,
) -> float:  # fmt: skip
    if mechanism in ("analytic", "matrix"):
        return math.sqrt(releases) * analytic_gaussian_sigma(epsilon, delta, sensitivity)
    if mechanism == "classic":
        return math.sqrt(releases) * classic_gaussian_sigma(epsilon, delta, sensitivity, beyond_theorem=beyond_theorem)
    if shape is None:
        raise ValueError("mvg: expected the shape of the release, got None")
    # The theorem is stated for one release; several add up in ε and δ.
    budget = mvg_budget(
        shape.rows, shape.width, gamma=shape.norm, sensitivity=sensitivity,
        epsilon=epsilon / releases, delta=delta / releases,
    )  # fmt: skip
    return budget.iid_sigma
