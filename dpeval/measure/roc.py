"""Metrics of membership scores: pure functions on arrays, a HIGHER score meaning MORE LIKELY A MEMBER.

>>> import numpy as np
>>> scores, is_member = np.array([3.0, 1.0, 4.0, 1.0, 2.0, 0.0]), np.array([1, 1, 1, 0, 0, 0])
>>> round(auc(scores, is_member), 4)
0.8333
>>> tpr_at_fpr(scores, is_member, fpr=0.1).tpr
0.6666666666666666
>>> needed_nonmembers(0.001)
2995
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.metrics import roc_curve

from dpeval.types import Floats


class OneClassError(ValueError):
    """The labels hold only members or only non-members: rates of the missing class are undefined."""


@dataclass(frozen=True)
class OperatingPoint:
    """One achievable point of the ROC: everything scoring ``>= threshold`` is called a member."""

    tpr: float
    fpr: float
    threshold: float


@dataclass(frozen=True, eq=False)
class Labelled:
    """Scores with the truth, checked: float64 and finite, bool, same length ``n``, both classes present."""

    scores: Floats
    is_member: NDArray[np.bool_]

    @property
    def members(self) -> int:
        """How many records are members."""
        return int(self.is_member.sum())

    @property
    def nonmembers(self) -> int:
        """How many records are not members."""
        return len(self.is_member) - self.members


def labelled(scores: ArrayLike, is_member: ArrayLike) -> Labelled:
    """Check shapes, finiteness and classes.

    Raises:
        ValueError: different lengths, infinite or NaN scores, or labels other than 0 and 1.
        OneClassError: only members or only non-members.
    """
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(is_member)
    if values.ndim != 1 or values.shape != truth.shape:
        raise ValueError(f"expected scores and labels of one length, got {values.shape} and {truth.shape}")
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise ValueError(f"{bad} of {len(values)} scores are infinite or NaN; scores must be finite")
    if not np.isin(truth, (0, 1)).all():
        raise ValueError(f"expected membership labels 0 and 1, got {np.unique(truth)[:5].tolist()}")
    out = Labelled(values, truth.astype(np.bool_))
    if out.members == 0 or out.nonmembers == 0:
        raise OneClassError(f"undefined (one class): {out.members} members, {out.nonmembers} non-members")
    return out


def auc(scores: ArrayLike, is_member: ArrayLike) -> float:
    """Probability that a random member outscores a random non-member, ties counting half (Mann and Whitney 1947)."""
    data = labelled(scores, is_member)
    m, n = data.members, data.nonmembers
    rank_sum = float(rankdata(data.scores)[data.is_member].sum())
    return (rank_sum - m * (m + 1) / 2) / (m * n)


def operating_points(scores: ArrayLike, is_member: ArrayLike) -> tuple[OperatingPoint, ...]:
    """Every achievable point of the ROC, from "nobody" to "everybody"; no interpolation between them."""
    data = labelled(scores, is_member)
    fpr, tpr, thresholds = _curve(data)
    return tuple(OperatingPoint(float(t), float(f), float(c)) for t, f, c in zip(tpr, fpr, thresholds, strict=True))


def _curve(data: Labelled) -> tuple[Floats, Floats, Floats]:
    """FPR, TPR and threshold of each point, from the ranks: differences of huge scores would overflow."""
    values, places = np.unique(data.scores, return_inverse=True)
    fpr, tpr, at = roc_curve(data.is_member, places, drop_intermediate=False)
    thresholds = np.append(np.inf, values[at[1:].astype(np.int64)])
    return fpr, tpr, thresholds


def tpr_at_fpr(scores: ArrayLike, is_member: ArrayLike, fpr: float) -> OperatingPoint:
    """The last achievable point whose false positive rate is at or below ``fpr``; strictly, never interpolated."""
    if not 0 <= fpr <= 1:
        raise ValueError(f"expected a false positive rate in [0, 1], got {fpr}")
    data = labelled(scores, is_member)
    falsely, truly, thresholds = _curve(data)
    # Compared as counts: 0.07 * 100 is 7.000000000000001 and 0.29 * 100 is 28.999999999999996.
    allowed = math.floor(fpr * data.nonmembers + 1e-9)
    last = int(np.flatnonzero(np.rint(falsely * data.nonmembers) <= allowed)[-1])
    return OperatingPoint(float(truly[last]), float(falsely[last]), float(thresholds[last]))


def balanced_accuracy(scores: ArrayLike, is_member: ArrayLike, threshold: float) -> float:
    """(TPR + TNR) / 2 when a score ``>= threshold`` is called a member."""
    data = labelled(scores, is_member)
    called = data.scores >= threshold
    return (float(called[data.is_member].mean()) + float((~called[~data.is_member]).mean())) / 2


def best_threshold(scores: ArrayLike, is_member: ArrayLike) -> float:
    """The score that maximises balanced accuracy; the largest one among equals.

    For the calibration part only: on the records that are measured it makes noise look like an attack.
    """
    data = labelled(scores, is_member)
    falsely, truly, thresholds = _curve(data)
    # The first point is "nobody", with an infinite threshold; "everybody" is as good and has a finite one.
    gain = (truly - falsely)[1:]
    return float(thresholds[1 + int(np.argmax(gain >= gain.max() - 1e-12))])


def needed_nonmembers(fpr: float, alpha: float = 0.05) -> int:
    """Non-members needed so that zero false positives certify a rate of at most ``fpr`` at level ``1 - alpha``.

    About 3 / fpr: the smallest n with ``(1 - fpr)^n <= alpha``.
    """
    if not 0 < fpr < 1:
        raise ValueError(f"expected 0 < fpr < 1, got {fpr}")
    return math.ceil(math.log(alpha) / math.log1p(-fpr))


def enough_nonmembers(fpr: float, n: int) -> bool:
    """Whether ``n`` non-members can carry a statement about a false positive rate of ``fpr``."""
    return n >= needed_nonmembers(fpr)


class _Scored(Protocol):
    @property
    def scores(self) -> Floats: ...

    @property
    def is_member(self) -> NDArray[np.bool_]: ...


def mean_roc(runs: Sequence[_Scored], points: int = 41) -> tuple[tuple[float, float], ...]:
    """(FPR, TPR) at FPRs from one false positive to 1, evenly spaced in their logarithm; TPR is the mean over the runs.

    TPR is that of the last achievable point at or below each FPR, as everywhere; data for a figure on logarithmic axes.
    """
    least = min(int((~run.is_member).sum()) for run in runs)
    rates = np.unique(np.append(np.logspace(-math.log10(least), 0.0, points), 1.0).clip(max=1.0))
    curves = []
    for run in runs:
        falsely, truly, _ = _curve(labelled(run.scores, run.is_member))
        # As counts, for the reason given in tpr_at_fpr.
        n = int((~run.is_member).sum())
        at = np.searchsorted(np.rint(falsely * n), np.floor(rates * n + 1e-9), side="right") - 1
        curves.append(truly[at])
    return tuple(zip(rates.tolist(), np.mean(curves, axis=0).tolist(), strict=True))
