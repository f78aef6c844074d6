"""Audit of a *local* claim: can two inputs be told apart by what leaves the device?

The same two inputs are released many times with fresh noise. A direction and a threshold are fitted on some of the
draws and the error rates counted on the others, so that the bound holds whatever was fitted. Draws are independent
trials by construction, and any pair of inputs will do to refute.

>>> rng = np.random.default_rng(0)
>>> first, second = rng.normal(size=(2000, 8)), rng.normal(size=(2000, 8)) + 3.0
>>> 4 < audit_releases(first, second, delta=1e-5).bound.epsilon < 6
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpeval.measure.epsilon import EpsilonBound, gaussian_bound, rate_bound
from dpeval.measure.rates import rate_threshold
from dpeval.types import Floats

_DRAWS_PER_DIMENSION = 5
"""Draws per dimension from which a full covariance is estimated; with fewer only its diagonal."""


@dataclass(frozen=True)
class ReleaseAudit:
    """``bound`` assumes nothing; ``gaussian`` assumes Gaussian noise and is for reading, never for refuting."""

    bound: EpsilonBound
    gaussian: EpsilonBound


def audit_releases(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float,
    alpha: float = 0.05,
    direction: ArrayLike | None = None,
    seed: int = 0,
) -> ReleaseAudit:
    """Bound ε between two inputs from repeated releases.

    Args:
        first: draws of one input's released tensor, flattened: shape ``(draws, k)``, finite, at least 4 draws.
        second: draws of the other's, same shape.
        delta: the δ of the claim.
        alpha: one-sided level.
        direction: shape ``(k,)``; the difference of the two noiseless tensors where the auditor knows it. Otherwise the
            difference of means is fitted, which for k beyond the number of draws costs most of the power.
        seed: which draws fit and which count.
    """
    a, b = _checked(first), _checked(second)
    if a.shape != b.shape:
        raise ValueError(f"expected as many draws of both inputs, of one width, got {a.shape} and {b.shape}")
    order = np.random.default_rng(seed).permutation(len(a))
    fitting = _fitting_draws(len(a), direction is not None)
    fit, count = order[:fitting], order[fitting:]
    rule = _fit(a[fit], b[fit], None if direction is None else np.asarray(direction, dtype=np.float64), delta, alpha)
    tp, fp = (
        int((a[count] @ rule.direction >= rule.threshold).sum()),
        int((b[count] @ rule.direction >= rule.threshold).sum()),
    )
    n = len(count)
    return ReleaseAudit(
        rate_bound(tp=tp, members=n, fp=fp, nonmembers=n, delta=delta, alpha=alpha),
        gaussian_bound(tp=tp, members=n, fp=fp, nonmembers=n, delta=delta, alpha=alpha),
    )


def needed_draws(epsilon: float, *, delta: float, alpha: float = 0.05) -> int:
    """Draws of each input from which a claim of ``epsilon`` can be refuted, along a known direction.

    The smallest number whose bound passes ``epsilon`` when every draw is told apart: about 5 e^ε at 95 %.
    """
    # (1 - δ - u) / u > e^ε with u = 1 - (α/2)^(1/n), the upper bound of a rate never seen in n draws.
    most = (1 - delta) / (1 + math.exp(epsilon))
    counted = math.floor(math.log(alpha / 2) / math.log1p(-most)) + 1
    draws = counted
    while draws - _fitting_draws(draws, known=True) < counted:
        draws += 1
    return max(draws, _LEAST_DRAWS)


_LEAST_DRAWS = 4


def _fitting_draws(draws: int, known: bool) -> int:
    """Draws spent on the rule: half where a direction is fitted, a quarter where only a threshold is."""
    return draws // 4 if known else draws // 2


def _checked(draws: ArrayLike) -> Floats:
    out = np.asarray(draws, dtype=np.float64)
    if out.ndim != 2 or len(out) < _LEAST_DRAWS:
        raise ValueError(f"expected draws of shape (at least 4, k), got {out.shape}")
    if not np.isfinite(out).all():
        raise ValueError("expected finite releases, got infinite or NaN entries")
    return out


@dataclass(frozen=True, eq=False)
class _Rule:
    direction: Floats
    threshold: float


def _fit(a: Floats, b: Floats, direction: Floats | None, delta: float, alpha: float) -> _Rule:
    gap = a.mean(axis=0) - b.mean(axis=0)
    if direction is not None:
        chosen = direction if direction @ gap >= 0 else -direction
        scores = np.concatenate([a @ chosen, b @ chosen])
    else:
        whiten = _Whitener.of(a, b)
        chosen = whiten.apply(gap)
        # Each draw is scored by the direction that the others give: its own share would push it to its side.
        scores = np.concatenate([_left_out(a, gap, whiten, 1.0), _left_out(b, gap, whiten, -1.0)])
    truth = np.concatenate([np.ones(len(a), dtype=np.bool_), np.zeros(len(b), dtype=np.bool_)])
    return _Rule(chosen, rate_threshold(scores, truth, delta, alpha))


def _left_out(draws: Floats, gap: Floats, whiten: _Whitener, sign: float) -> Floats:
    n = len(draws)
    shift = (draws.mean(axis=0) - draws) / (n - 1)
    out: Floats = (draws * whiten.apply(gap + sign * shift)).sum(axis=1)
    return out


@dataclass(frozen=True, eq=False)
class _Whitener:
    """Inverse of the noise's covariance (Fisher's discriminant), full where draws allow, else diagonal."""

    inverse: Floats

    @classmethod
    def of(cls, a: Floats, b: Floats) -> _Whitener:
        noise = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)])
        variance = noise.var(axis=0)
        # A coordinate without noise gives everything away: it is weighted up, not divided by zero.
        least = 1e-9 * float(variance.max()) if variance.max() > 0 else 1.0
        if len(noise) < _DRAWS_PER_DIMENSION * noise.shape[1]:
            return cls(1 / np.maximum(variance, least))
        covariance = noise.T @ noise / len(noise)
        return cls(np.linalg.inv(covariance + least * np.eye(len(covariance))))

    def apply(self, gap: Floats) -> Floats:
        """The direction for a difference of means; rows are separate differences."""
        out: Floats = gap * self.inverse if self.inverse.ndim == 1 else gap @ self.inverse
        return out
