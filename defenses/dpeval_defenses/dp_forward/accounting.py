"""What DP-Forward's noise is worth: σ for a target ε, and the claim that follows from it.

Sequence level: the whole matrix of a text is bounded by C, so any two texts are at most 2C apart (Du et al. 2023,
section 3.2, Theorem 1). Releases of one text compose exactly: k Gaussian releases are one with μ√k.

>>> plan = plan_noise(epsilon=8.0, delta=1e-5, clip=1.0, releases=1)
>>> round(plan.sigma, 4), round(plan.epsilon, 4)
(1.2005, 8.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpeval.privacy.gaussian import analytic_gaussian_sigma, epsilon_of_gaussian, gaussian_mu
from dpeval.types import Adjacency, Claim, Trust, Unit

MECHANISM = "analytic Gaussian on the forward tensor (aMGM with equal singular values)"
ACCOUNTANT = "exact Gaussian (Balle and Wang 2018, Theorem 8)"


@dataclass(frozen=True)
class NoisePlan:
    """The noise of one release, and what ``releases`` of them give."""

    sigma: float
    delta: float
    sensitivity: float
    releases: int
    epsilon: float
    """Of all releases together."""
    epsilon_per_release: float


def plan_noise(*, epsilon: float, delta: float, clip: float, releases: int) -> NoisePlan:
    """The smallest noise with which ``releases`` releases of one text are (ε, δ)-private together."""
    sensitivity = 2 * clip
    sigma = math.sqrt(releases) * analytic_gaussian_sigma(epsilon, delta, sensitivity)
    together = epsilon_of_gaussian(gaussian_mu(sigma, sensitivity, releases), delta)
    return NoisePlan(
        sigma=sigma,
        delta=delta,
        sensitivity=sensitivity,
        releases=releases,
        epsilon=together,
        epsilon_per_release=epsilon_of_gaussian(gaussian_mu(sigma, sensitivity), delta),
    )


def claim_of(plan: NoisePlan, *, training: str, position: str, rows: int, clip: float) -> Claim:
    """The claim of a DP-Forward model: local, per sequence, any two texts; with what it leaves out."""
    return Claim(
        epsilon=plan.epsilon,
        delta=plan.delta,
        unit=Unit.SEQUENCE,
        trust=Trust.LOCAL,
        adjacency=Adjacency.ANY_TWO_INPUTS,
        mechanism=MECHANISM,
        accountant=ACCOUNTANT,
        scope=_SCOPES[training].format(position=position, rows=rows, releases=plan.releases),
        excludes=_excludes(training),
        details=(
            ("sigma", plan.sigma),
            ("sensitivity", plan.sensitivity),
            ("clip", clip),
            ("releases", plan.releases),
            ("epsilon per release", plan.epsilon_per_release),
            ("rows", rows),
            ("position", position),
            ("training", training),
        ),
    )


_SCOPES = {
    "frozen": (
        "each text (its words, their order and their number), released once as the noised tensor of {rows} rows at "
        "{position}: a training text in training, any other text when it is sent for an answer"
    ),
    "frozen-fresh": (
        "each training text over its {releases} noised releases at {position}, one in each epoch; "
        "a text that is only sent for an answer is released once, at the smaller ε per release"
    ),
    "trained": (
        "each text that is sent to the trained model for an answer, released once as the noised tensor of {rows} rows "
        "at {position}"
    ),
}


def _excludes(training: str) -> tuple[str, ...]:
    common = ("labels", "a text released more often: every release adds to ε", "attacks on floating-point arithmetic")
    if training != "trained":
        return common
    return ("the training records: their clear texts update the layers before the noise (a trusted trainer)", *common)
