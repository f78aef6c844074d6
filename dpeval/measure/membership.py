"""How well an attack told members from non-members, over several trained models.

Thresholds are chosen on a calibration half of the records and frozen; accuracy, advantage and PPV are measured on the
other half. AUC and TPR at a low FPR need no threshold and use all records.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> is_member = rng.random(400) < 0.5
>>> run = MembershipRun(tuple(f"r{i}" for i in range(400)), rng.normal(size=400) + is_member, is_member)
>>> found = measure_membership([run]).estimates
>>> found["auc"].excludes(0.5), found["tpr@0.1%fpr"].reason
(True, 'too few non-members (217): 2995 needed for a false positive rate of 0.1%')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeval.measure import bootstrap
from dpeval.measure.clusters import RecordCovariance, effective_units
from dpeval.measure.exposure import most_exposed
from dpeval.measure.halves import calibration_half, unit_names
from dpeval.measure.influence import Part, auc_part, combination, difference, rate_parts
from dpeval.measure.intervals import Scale, Trials, estimate, hierarchical
from dpeval.measure.predictive import predictive_value
from dpeval.measure.results import Detail, Measures
from dpeval.measure.roc import OneClassError, best_threshold, labelled, needed_nonmembers, tpr_at_fpr
from dpeval.types import Estimate, Floats, Measured, Undefined

LOW_FPRS = (0.01, 0.001)
PREVALENCE = 0.1
"""The share of members in the population of the PPV where none is stated."""


@dataclass(frozen=True, eq=False)
class MembershipRun:
    """One trained model's candidates: scores (higher = more likely a member) and the truth, joined by record id.

    ``scores`` float64 and ``is_member`` bool have shape ``(n,)``; ``groups`` are near-duplicate groups, if any.
    """

    ids: tuple[str, ...]
    scores: Floats
    is_member: NDArray[np.bool_]
    groups: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        n = len(self.ids)
        if self.scores.shape != (n,) or self.is_member.shape != (n,) or (self.groups and len(self.groups) != n):
            raise ValueError(f"MembershipRun: {n} ids, scores {self.scores.shape}, labels {self.is_member.shape}")
        if len(set(self.ids)) != n:
            raise ValueError("MembershipRun: record ids are not unique")

    @property
    def units(self) -> tuple[str, ...]:
        """What was sampled independently: record or group."""
        return unit_names(self.ids, self.groups)


def measure_membership(
    runs: Sequence[MembershipRun],
    *,
    prevalence: float = PREVALENCE,
    salt: int = 0,
    level: float = 0.95,
    resamples: int = 1000,
    exposed: int = 10,
    fprs: Sequence[float] = LOW_FPRS,
) -> Measures:
    """AUC, TPR at low FPRs, and at a frozen threshold balanced accuracy, advantage and PPV (named by its prevalence).

    Args:
        runs: one per training seed; several runs may hold the same records with other memberships.
        prevalence: the share of members in the population that an adversary faces, for the PPV.
        salt: chooses the calibration half.
        resamples: bootstrap resamples for the TPR; seeded by ``salt``.
        exposed: how many of the most exposed members to list, by id.
        fprs: the low false positive rates.
    """
    at_threshold = ("balanced_accuracy", "advantage", ppv_name(prevalence))
    try:
        for run in runs:
            labelled(run.scores, run.is_member)
    except OneClassError as error:
        return Measures({name: Undefined(str(error)) for name in ("auc", *map(tpr_name, fprs), *at_threshold)})
    parts = tuple(auc_part(r.scores, r.is_member, r.units) for r in runs)
    auc = estimate(parts, level=level)
    low = {tpr_name(fpr): _tpr(runs, fpr, level, resamples, salt) for fpr in fprs}
    frozen = _at_frozen_threshold(runs, prevalence, salt, level)
    details: dict[str, Detail] = {
        "prevalence": prevalence,
        "thresholds": frozen.thresholds,
        "reached": {tpr_name(fpr): tuple(_reached(run, fpr) for run in runs) for fpr in fprs},
        "exposed": tuple(most_exposed(runs, exposed)),
    }
    return Measures({"auc": auc, **low, **frozen.estimates}, _warnings(auc), details, {"auc": parts})


def tpr_name(fpr: float) -> str:
    """``tpr@1%fpr``."""
    return f"tpr@{100 * fpr:g}%fpr"


def ppv_name(prevalence: float) -> str:
    """``ppv@10%``: a predictive value means nothing without its prevalence."""
    return f"ppv@{100 * prevalence:g}%"


def _warnings(auc: Estimate) -> tuple[str, ...]:
    if auc.high >= 0.5:
        return ()
    return (f"inverted? AUC {auc.value:.3f} is significantly below 0.5: a higher score must mean more likely a member",)


def _reached(run: MembershipRun, fpr: float) -> Mapping[str, Detail]:
    point = tpr_at_fpr(run.scores, run.is_member, fpr)
    return {"tpr": point.tpr, "fpr": point.fpr, "nonmembers": int((~run.is_member).sum())}


def _tpr(runs: Sequence[MembershipRun], fpr: float, level: float, resamples: int, salt: int) -> Measured:
    nonmembers = min(int((~run.is_member).sum()) for run in runs)
    needed = needed_nonmembers(fpr)
    if nonmembers < needed:
        return Undefined(
            f"too few non-members ({nonmembers}): {needed} needed for a false positive rate of {100 * fpr:g}%"
        )
    keys, codes = np.unique(np.concatenate([np.asarray(run.units) for run in runs]), return_inverse=True)
    bounds = np.cumsum([0, *(len(run.ids) for run in runs)])
    ranked = [
        bootstrap.Ranked.of(run.scores, run.is_member, codes[a:b])
        for run, a, b in zip(runs, bounds[:-1], bounds[1:], strict=True)
    ]
    drawn = bootstrap.tpr_replicates(
        ranked, fpr, units=len(keys), resamples=_enough(resamples, len(keys)),
        rng=np.random.default_rng([salt, len(keys)]),
    )  # fmt: skip
    members = [int(run.is_member.sum()) for run in runs]
    sizes = np.bincount(codes, minlength=len(keys)) / len(runs)
    clustered = any(len(set(run.units)) < len(run.ids) for run in runs)
    return hierarchical(
        [tpr_at_fpr(run.scores, run.is_member, fpr).tpr for run in runs],
        RecordCovariance(np.atleast_2d(np.cov(drawn)), len(keys), clustered, effective_units(sizes, correlation=1.0)),
        n=min(len(run.ids) for run in runs),
        trials=Trials(most=sum(members), edge=min(members)),
        level=level,
    )


def _enough(resamples: int, units: int) -> int:
    """Fewer resamples, never below 200, beyond twenty thousand records: there a variance needs no more."""
    return min(resamples, max(200, 20_000_000 // units))


@dataclass(frozen=True)
class _Frozen:
    estimates: dict[str, Measured]
    thresholds: tuple[float, ...] = ()


def _at_frozen_threshold(runs: Sequence[MembershipRun], prevalence: float, salt: int, level: float) -> _Frozen:
    true_rates, false_rates, thresholds = [], [], []
    for run in runs:
        units, calibration = run.units, calibration_half(run.units, salt)
        measured = ~calibration
        try:
            threshold = best_threshold(run.scores[calibration], run.is_member[calibration])
            labelled(run.scores[measured], run.is_member[measured])
        except OneClassError as error:
            reason = f"the calibration or the measured half holds one class only: {error}"
            names = ("balanced_accuracy", "advantage", ppv_name(prevalence))
            return _Frozen(dict.fromkeys(names, Undefined(reason)))
        kept = tuple(unit for unit, keep in zip(units, measured, strict=True) if keep)
        rates = rate_parts(run.scores[measured] >= threshold, run.is_member[measured], kept)
        true_rates.append(rates[0])
        false_rates.append(rates[1])
        thresholds.append(threshold)
    accuracy = _balanced(true_rates, false_rates, level)
    advantage = Estimate(
        2 * accuracy.value - 1, 2 * accuracy.low - 1, 2 * accuracy.high - 1, accuracy.n, level, accuracy.models
    )
    ppv = predictive_value(true_rates, false_rates, prevalence, level)
    return _Frozen(
        {"balanced_accuracy": accuracy, "advantage": advantage, ppv_name(prevalence): ppv}, tuple(thresholds)
    )


def _balanced(true_rates: Sequence[Part], false_rates: Sequence[Part], level: float) -> Estimate:
    parts = [combination((t, f), (0.5, -0.5), 0.5) for t, f in zip(true_rates, false_rates, strict=True)]
    return estimate(parts, level=level)


def measure_gain(a: Sequence[MembershipRun], b: Sequence[MembershipRun], *, level: float = 0.95) -> Measured:
    """AUC of ``a`` minus AUC of ``b``, paired by record within each model, and by model: what both share cancels.

    For an attack against the blind attacker, or two defenses trained on the same splits.

    Raises:
        ValueError: the i-th runs do not hold the same records with the same memberships.
    """
    if len(a) != len(b):
        raise ValueError(f"a paired difference needs the same models on both sides, got {len(a)} and {len(b)}")
    try:
        parts = [_paired(left, right) for left, right in zip(a, b, strict=True)]
    except OneClassError as error:
        return Undefined(str(error))
    return estimate(parts, level=level, scale=Scale.DIFFERENCE)


def _paired(left: MembershipRun, right: MembershipRun) -> Part:
    where = {key: i for i, key in enumerate(right.ids)}
    if where.keys() != set(left.ids):
        raise ValueError("a paired difference needs the same records on both sides")
    at = np.array([where[key] for key in left.ids])
    if not np.array_equal(left.is_member, right.is_member[at]):
        raise ValueError("a paired difference needs the same members on both sides")
    return difference(
        auc_part(left.scores, left.is_member, left.units), auc_part(right.scores[at], left.is_member, left.units)
    )
