"""Lower bounds on ε from two error rates at a threshold that other records chose.

>>> import numpy as np
>>> from dpeval.measure.membership import MembershipRun
>>> rng = np.random.default_rng(0)
>>> member = rng.random(2000) < 0.5
>>> run = MembershipRun(tuple(f"r{i}" for i in range(2000)), rng.normal(size=2000) + 3 * member, member)
>>> 4 < audit_rates([run], delta=1e-5, independent_trials=True).epsilon < 5 < audit_gaussian([run], delta=1e-5).epsilon
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpeval.measure.epsilon import EpsilonBound, Method, gaussian_bound, rate_bound, upper_rates
from dpeval.measure.halves import calibration_half
from dpeval.measure.membership import MembershipRun
from dpeval.types import Floats, Undefined

Chooser: TypeAlias = Callable[[Floats, NDArray[np.bool_]], float]
"""Scores and truth of the calibration records to a threshold."""


@dataclass(frozen=True)
class RateCounts:
    """What a threshold frozen on the calibration half does on the other: right and wrong calls of all runs."""

    tp: int
    members: int
    fp: int
    nonmembers: int


def audit_rates(
    runs: Sequence[MembershipRun], *, delta: float, alpha: float = 0.05, salt: int = 0, independent_trials: bool = False
) -> EpsilonBound | Undefined:
    """The two-rate bound at a threshold chosen on the calibration half; counts of all runs together.

    The records of one trained model are not independent trials: unless the caller says that these are
    (``independent_trials``: each from its own training, or from its own draw of a release), the bound is labelled a
    heuristic and refutes nothing. Of records that share a unit one is counted, chosen without its score.
    """
    counts = _counted(runs, salt, lambda scores, truth: rate_threshold(scores, truth, delta, alpha))
    if isinstance(counts, Undefined):
        return counts
    found = rate_bound(
        tp=counts.tp, members=counts.members, fp=counts.fp, nonmembers=counts.nonmembers, delta=delta, alpha=alpha
    )
    return found if independent_trials else replace(found, method=Method.RECORD_RATES)


def audit_gaussian(
    runs: Sequence[MembershipRun], *, delta: float, alpha: float = 0.05, salt: int = 0
) -> EpsilonBound | Undefined:
    """The bound for a mechanism whose trade-off curve is Gaussian (Nasr et al. 2023, §4), likewise split.

    Larger than :func:`audit_rates`, and right only under that model: for reading, never for refuting.
    """
    counts = _counted(runs, salt, lambda scores, truth: gaussian_threshold(scores, truth, alpha))
    if isinstance(counts, Undefined):
        return counts
    return gaussian_bound(
        tp=counts.tp, members=counts.members, fp=counts.fp, nonmembers=counts.nonmembers, delta=delta, alpha=alpha
    )


def _counted(runs: Sequence[MembershipRun], salt: int, choose: Chooser) -> RateCounts | Undefined:
    total = np.zeros(4, dtype=np.int64)
    for run in runs:
        kept = one_of_each_unit(run, salt)
        first = calibration_half(run.units, salt)
        fitting, counting = kept & first, kept & ~first
        if len(np.unique(run.is_member[fitting])) < 2 or len(np.unique(run.is_member[counting])) < 2:
            return Undefined("the calibration or the measured half holds one class only")
        threshold = choose(run.scores[fitting], run.is_member[fitting])
        called, member = run.scores[counting] >= threshold, run.is_member[counting]
        total += [(called & member).sum(), member.sum(), (called & ~member).sum(), (~member).sum()]
    return RateCounts(*total.tolist())


def one_of_each_unit(run: MembershipRun, salt: int) -> NDArray[np.bool_]:
    """Which records to count so that each unit (group) counts once: that with the least hash of its id."""
    if len(set(run.units)) == len(run.ids):
        return np.ones(len(run.ids), dtype=np.bool_)
    hashes = [hashlib.sha256(f"{salt}\x1fone\x1f{key}".encode()).digest() for key in run.ids]
    chosen: dict[str, int] = {}
    for i, unit in enumerate(run.units):
        if unit not in chosen or hashes[i] < hashes[chosen[unit]]:
            chosen[unit] = i
    kept = np.zeros(len(run.ids), dtype=np.bool_)
    kept[list(chosen.values())] = True
    return kept


def rate_threshold(scores: Floats, is_member: NDArray[np.bool_], delta: float, alpha: float) -> float:
    """The threshold whose two-rate bound is largest on these records, which then cannot be used to state it.

    It stands midway between two scores: at a score itself, half of what lies just there would fall on either side.
    """
    rates = _Upper.of(scores, is_member, alpha)
    return rates.best(np.maximum((1 - delta - rates.fpr) / rates.fnr, (1 - delta - rates.fnr) / rates.fpr))


def gaussian_threshold(scores: Floats, is_member: NDArray[np.bool_], alpha: float) -> float:
    """The threshold whose Gaussian μ is largest on these records."""
    rates = _Upper.of(scores, is_member, alpha)
    return rates.best(-special.ndtri(rates.fpr) - special.ndtri(rates.fnr))


@dataclass(frozen=True, eq=False)
class _Upper:
    """Upper bounds of both error rates at each distinct score."""

    candidates: Floats
    fpr: Floats
    fnr: Floats

    @classmethod
    def of(cls, scores: Floats, is_member: NDArray[np.bool_], alpha: float) -> _Upper:
        candidates = np.unique(scores)
        members, nonmembers = np.sort(scores[is_member]), np.sort(scores[~is_member])
        missed, false = np.searchsorted(members, candidates), len(nonmembers) - np.searchsorted(nonmembers, candidates)
        return cls(
            candidates,
            upper_rates(false, len(nonmembers), alpha / 2),
            upper_rates(missed, len(members), alpha / 2),
        )

    def best(self, worth: Floats) -> float:
        chosen = int(np.argmax(worth))
        return float(self.candidates[chosen] / 2 + self.candidates[max(chosen - 1, 0)] / 2)
