"""Amplification by shuffling: what n locally randomised reports are worth once a trusted shuffler hides who sent which.

>>> amplify(100_000, 4.0, delta=1e-6).epsilon < amplified_closed_form(100_000, 4.0, delta=1e-6)
True
>>> amplify(67_349, 8.0, delta=1e-6, local_delta=1e-5).vacuous
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from dpeval.types import Floats


@dataclass(frozen=True, kw_only=True)
class ShuffleReport:
    """The central guarantee of shuffled local reports, or the statement that there is none."""

    epsilon: float
    """Central ε, replace-one; the local ε where shuffling proves nothing better."""
    delta: float
    """Central δ in all, the local failures included; the local δ where ``vacuous``."""
    vacuous: bool
    """Whether the amplified δ reaches 1, so that only the local guarantee is left."""
    amplified: bool
    """Whether ε is below the local one."""
    method: str
    note: str


def amplify(
    n: int, local_epsilon: float, *, delta: float, local_delta: float = 0.0, binary_response: bool = False
) -> ShuffleReport:
    """Central (ε, δ) of ``n`` shuffled reports, each (``local_epsilon``, ``local_delta``)-private.

    Numerical bound by hiding among clones (Feldman, McMillan and Talwar 2021, theorem 3.1) and, for ``local_delta``
    > 0, theorem 3.8. ``binary_response`` uses the more frequent clones that are proven for two-valued randomised
    response only; the same for general randomisers was published and withdrawn (arXiv:2208.04591, erratum).
    """
    _check(n, local_epsilon, delta)
    if not 0 <= local_delta < 1 or (binary_response and local_delta > 0):
        raise ValueError(f"amplify: expected 0 <= local_delta < 1, and 0 for randomised response, got {local_delta}")
    clone = 2 / (math.exp(local_epsilon) + 1) if binary_response else math.exp(-local_epsilon)
    central = min(local_epsilon, _smallest_epsilon(n, local_epsilon, clone, delta))
    total = delta + approximate_extra_delta(n, central, local_epsilon, local_delta)
    if total >= 1:
        note = f"no guarantee from shuffling: its δ would be {total:.3g}; only the local one holds"
        return ShuffleReport(
            epsilon=local_epsilon, delta=local_delta, vacuous=True, amplified=False, method="local", note=note
        )
    amplified = central < local_epsilon
    method = "clones, binary randomised response" if binary_response else "clones, any randomiser"
    note = "" if amplified else "no amplification at this ε and n: the local guarantee is as good"
    return ShuffleReport(
        epsilon=central,
        delta=total if amplified else local_delta,
        vacuous=False,
        amplified=amplified,
        method=method if amplified else "local",
        note=note,
    )


def approximate_extra_delta(n: int, epsilon: float, local_epsilon: float, local_delta: float) -> float:
    """What local failures add to the central δ: (e^ε+1)·(1+e^{−ε₀}/2)·n·δ₀ (Feldman et al. 2021, theorem 3.8)."""
    return (math.exp(epsilon) + 1) * (1 + math.exp(-local_epsilon) / 2) * n * local_delta


def amplified_closed_form(n: int, local_epsilon: float, *, delta: float) -> float | None:
    """The closed-form bound of Feldman, McMillan and Talwar 2021, theorem 3.1; ``None`` outside its range.

    It holds for ε₀ ≤ ln(n/(16·ln(2/δ))) and any ε₀-private randomiser; :func:`amplify` is tighter.
    """
    _check(n, local_epsilon, delta)
    if local_epsilon > math.log(n / (16 * math.log(2 / delta))):
        return None
    growth = math.exp(local_epsilon)
    inner = 8 * math.sqrt(growth * math.log(4 / delta) / n) + 8 * growth / n
    return math.log1p(math.tanh(local_epsilon / 2) * inner)


def shuffled_delta(epsilon: float, n: int, local_epsilon: float, clone_probability: float) -> float:
    """δ of the pair of distributions that dominates every shuffled ε₀-private protocol, at ``epsilon``.

    C ~ Bin(n−1, p) clones; A ~ Bin(C, ½); the pair is (A+Δ, C−A+1−Δ) against its mirror image, Δ ~ Bernoulli(a) with
    a = e^{ε₀}/(e^{ε₀}+1). Rounded up by the mass of the values of C left out (below 1e-15).
    """
    return _delta(epsilon, local_epsilon, _clone_counts(n, clone_probability, 1e-15))


@dataclass(frozen=True, eq=False)
class _CloneCounts:
    values: Floats
    weights: Floats
    missing: float


def _clone_counts(n: int, probability: float, left_out: float) -> _CloneCounts:
    law = binom(n - 1, probability)
    values = np.arange(max(int(law.ppf(left_out / 2)), 0), int(law.isf(left_out / 2)) + 1)
    missing = float(law.cdf(values[0] - 1) + law.sf(values[-1]))
    return _CloneCounts(values.astype(np.float64), law.pmf(values), missing)


def _delta(epsilon: float, local_epsilon: float, clones: _CloneCounts) -> float:
    high = 1 / (1 + math.exp(-local_epsilon))
    low = 1 - high
    growth = math.exp(epsilon)
    if growth * low >= high:
        return 0.0
    odds = (high - growth * low) / (growth * high - low)
    cut = np.ceil((clones.values + 1) * odds / (1 + odds)) - 1
    at = binom.cdf(cut, clones.values, 0.5)
    below = at - binom.pmf(cut, clones.values, 0.5)
    terms = np.asarray(high * at + low * below - growth * (high * below + low * at))
    return float(clones.weights @ terms.clip(min=0.0)) + clones.missing


def _smallest_epsilon(n: int, local_epsilon: float, clone: float, delta: float) -> float:
    clones = _clone_counts(n, clone, delta * 1e-7)

    def gap(epsilon: float) -> float:
        return math.log(max(_delta(epsilon, local_epsilon, clones), 1e-300) / delta)

    if gap(0.0) <= 0:
        return 0.0
    if gap(local_epsilon) > 0:
        return math.inf
    return float(brentq(gap, 0.0, local_epsilon, rtol=1e-9)) * (1 + 2e-9)


def _check(n: int, local_epsilon: float, delta: float) -> None:
    if n < 1 or not 0 <= local_epsilon < math.inf or not 0 < delta < 1:
        raise ValueError(
            f"shuffling: expected n >= 1, finite epsilon >= 0 and 0 < delta < 1, got {n}, {local_epsilon}, {delta}"
        )
