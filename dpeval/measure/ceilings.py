"""The best that any attack can do against a mechanism that keeps its promise.

>>> round(max_tpr(fpr=0.01, epsilon=1.0, delta=1e-5), 6)
0.027193
"""

from __future__ import annotations

import math

from scipy import special


def max_tpr(*, fpr: float, epsilon: float, delta: float) -> float:
    """``min(δ + e^ε FPR, 1 - e^-ε (1 - δ - FPR), 1)`` (Kairouz, Oh and Viswanath 2015, Theorem 2.1)."""
    # exp overflows near 710; there the first branch is 1 anyway unless FPR is 0.
    first = delta + (fpr * math.exp(min(epsilon, 700.0)) if fpr > 0 else 0.0)
    return min(first, 1 - math.exp(-epsilon) * (1 - delta - fpr), 1.0)


def max_advantage(*, epsilon: float, delta: float) -> float:
    """Largest TPR - FPR: ``(e^ε - 1 + 2δ) / (e^ε + 1)`` (Humphries et al. 2023, Theorem 3.2)."""
    return min(1.0, math.tanh(epsilon / 2) + 2 * delta * float(special.expit(-epsilon)))


def max_tpr_gaussian(*, fpr: float, mu: float) -> float:
    """``Φ(Φ⁻¹(FPR) + μ)`` (Dong, Roth and Su 2022, Definition 2.6)."""
    return float(special.ndtr(special.ndtri(fpr) + mu))


def max_auc_gaussian(*, mu: float) -> float:
    """``Φ(μ / √2)``: the area under :func:`max_tpr_gaussian`."""
    return float(special.ndtr(mu / math.sqrt(2)))


def max_advantage_gaussian(*, mu: float) -> float:
    """``2 Φ(μ / 2) - 1``."""
    return 2 * float(special.ndtr(mu / 2)) - 1
