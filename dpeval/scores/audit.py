"""Audits membership scores: the same measures, intervals and verdicts as a run, from two arrays.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> found = audit_scores(rng.normal(1.0, 1.0, 400), rng.normal(0.0, 1.0, 400), claim_epsilon=0.1, delta=1e-5)
>>> found.auc.low > 0.5, found.refuted
(True, True)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpeval.measure.audit import audit_one_run
from dpeval.measure.epsilon import EpsilonBound
from dpeval.measure.membership import LOW_FPRS, PREVALENCE, MembershipRun, measure_membership
from dpeval.measure.power import detectable_auc
from dpeval.measure.rates import audit_gaussian, audit_rates
from dpeval.measure.results import Detail, Measures
from dpeval.scores.results import GAUSSIAN, ONE_RUN, RATES, Inclusion, ScoreAudit
from dpeval.types import Adjacency, Claim, Floats, Trust, Undefined, Unit
from dpeval.verdict import MEMBERSHIP_AUDIT, Verdict, judge

Keys = Sequence[Hashable] | ArrayLike
DELTA = 1e-5
"""The δ of a claim where none is stated. A bound at a larger δ refutes claims at a smaller one too."""


@dataclass(frozen=True, eq=False)
class Side:
    """Members or non-members: scores of shape ``(n,)``, and for each its id, group and training seed, where known."""

    scores: Floats
    ids: tuple[str, ...]
    groups: tuple[str, ...] | None
    seeds: tuple[str, ...]


def audit_scores(
    members: ArrayLike,
    nonmembers: ArrayLike,
    *,
    member_ids: Keys | None = None,
    nonmember_ids: Keys | None = None,
    member_groups: Keys | None = None,
    nonmember_groups: Keys | None = None,
    member_seeds: Keys | None = None,
    nonmember_seeds: Keys | None = None,
    claim_epsilon: float | None = None,
    delta: float = DELTA,
    inclusion: Inclusion | str = Inclusion.UNSTATED,
    prevalence: float = PREVALENCE,
    level: float = 0.95,
    fprs: Sequence[float] = LOW_FPRS,
    resamples: int = 1000,
    exposed: int = 10,
    salt: int = 0,
) -> ScoreAudit:
    """Measure how well scores tell members from non-members, bound ε from below, and judge a claim.

    A HIGHER score means MORE LIKELY A MEMBER. Thresholds are chosen on a calibration half of the records (by a hash of
    their ids) and measured on the other.

    Args:
        members: scores of records that were trained on, finite, shape ``(n,)``.
        nonmembers: scores of records from the same population that were not, shape ``(m,)``.
        member_ids: a name for each member; ``nonmember_ids`` likewise. By default their places.
        member_groups: what was sampled together (user, document); groups count as one unit. Both sides or neither.
        member_seeds: the trained model that each score comes from; intervals then cover models and records. Both sides
            or neither.
        claim_epsilon: an ε that is claimed for one record (central, add or remove one) at ``delta``.
        delta: the δ of the claim and of the bounds.
        inclusion: how membership was decided; see :class:`Inclusion`.
        prevalence: the share of members in the population of the PPV.
        level: confidence level of intervals (two-sided) and of the bounds on ε (one-sided).
        fprs: false positive rates of the TPR; each needs about 3 / rate non-members.
        resamples: bootstrap resamples for the TPR.
        exposed: how many of the most exposed members to list.
        salt: chooses the calibration half.

    Raises:
        ValueError: scores that are not finite numbers, keys of another length, an id twice in one model, or an option
            out of its range.
    """
    design = Inclusion(inclusion)
    _check_options(delta, prevalence, level, fprs, claim_epsilon)
    sides = (
        _side("members", members, member_ids, member_groups, member_seeds, "m"),
        _side("nonmembers", nonmembers, nonmember_ids, nonmember_groups, nonmember_seeds, "n"),
    )
    _check_both(sides, (member_groups, nonmember_groups), (member_seeds, nonmember_seeds))
    runs = runs_of(*sides)
    if not runs:
        raise ValueError("expected scores of members and of non-members, got none of either")
    found = measure_membership(
        runs, prevalence=prevalence, salt=salt, level=level, resamples=resamples, exposed=exposed, fprs=fprs
    )
    bounds = _bounds(runs, design, delta, 1 - level, salt, found)
    grouped = sides[0].groups is not None
    return ScoreAudit(
        members=len(sides[0].scores),
        nonmembers=len(sides[1].scores),
        models=len(runs),
        groups=len({unit for run in runs for unit in run.units}) if grouped else None,
        estimates=found.estimates,
        bounds=bounds,
        inclusion=design,
        delta=delta,
        level=level,
        prevalence=prevalence,
        detectable_auc=_detectable(runs, level),
        thresholds=_thresholds(found),
        verdict=None if claim_epsilon is None else _verdict(claim_epsilon, delta, design, bounds),
        warnings=(*found.warnings, *_warnings(runs, sides, named=member_ids is not None)),
        exposed=_exposed(found),
        details={k: v for k, v in found.details.items() if k == "reached"},
    )


def _check_options(
    delta: float, prevalence: float, level: float, fprs: Sequence[float], claim_epsilon: float | None
) -> None:
    if not 0 <= delta < 1:
        raise ValueError(f"delta: expected 0 <= delta < 1, got {delta}")
    if not 0.5 < level < 1:
        raise ValueError(f"level: expected a confidence level between 0.5 and 1, got {level}")
    for name, rate in (("prevalence", prevalence), *(("fprs", fpr) for fpr in fprs)):
        if not 0 < rate < 1:
            raise ValueError(f"{name}: expected a rate between 0 and 1, got {rate}")
    if claim_epsilon is not None and not claim_epsilon >= 0:
        raise ValueError(f"claim_epsilon: expected a number of at least 0, got {claim_epsilon}")


def _side(name: str, scores: ArrayLike, ids: Keys | None, groups: Keys | None, seeds: Keys | None, prefix: str) -> Side:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"{name}: expected scores of shape (n,), got {values.shape}")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"{name}: {len(bad)} of {len(values)} scores are infinite or NaN, the first at {bad[0]}")
    n = len(values)
    return Side(
        values,
        _keys(f"{name} ids", ids, n) or tuple(f"{prefix}{i}" for i in range(n)),
        _keys(f"{name} groups", groups, n),
        _keys(f"{name} seeds", seeds, n) or ("",) * n,
    )


def _keys(name: str, keys: Keys | None, n: int) -> tuple[str, ...] | None:
    if keys is None:
        return None
    listed = tuple(map(str, keys.tolist() if isinstance(keys, np.ndarray) else list(keys)))  # type: ignore[arg-type]
    if len(listed) != n:
        raise ValueError(f"{name}: expected one for each of the {n} scores, got {len(listed)}")
    return listed


def _check_both(sides: tuple[Side, Side], groups: tuple[object, object], seeds: tuple[object, object]) -> None:
    for name, (one, other) in (("groups", groups), ("seeds", seeds)):
        if (one is None) != (other is None) and len(sides[0].scores) and len(sides[1].scores):
            raise ValueError(f"{name}: give them for members and for non-members, or for neither")


def runs_of(inside: Side, outside: Side) -> list[MembershipRun]:
    """One run for each seed, in the order of first appearance.

    Raises:
        ValueError: an id stands twice in one run.
    """
    numbers = {g: i for i, g in enumerate(dict.fromkeys((*(inside.groups or ()), *(outside.groups or ()))))}
    runs = []
    for seed in dict.fromkeys((*inside.seeds, *outside.seeds)):
        parts = [(side, [i for i, s in enumerate(side.seeds) if s == seed]) for side in (inside, outside)]
        ids = tuple(side.ids[i] for side, at in parts for i in at)
        _check_unique(ids, seed)
        scores = np.concatenate([side.scores[at] for side, at in parts])
        truth = np.concatenate([np.full(len(at), side is inside) for side, at in parts])
        groups = tuple(numbers[side.groups[i]] for side, at in parts for i in at if side.groups is not None)
        runs.append(MembershipRun(ids, scores, truth, groups or None))
    return runs


def _check_unique(ids: tuple[str, ...], seed: str) -> None:
    if len(set(ids)) == len(ids):
        return
    seen: set[str] = set()
    twice = next(key for key in ids if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    where = f" of seed {seed!r}" if seed else ""
    raise ValueError(f"record id {twice!r} stands twice among the scores{where}; ids name one record each")


def _bounds(
    runs: Sequence[MembershipRun], design: Inclusion, delta: float, alpha: float, salt: int, found: Measures
) -> dict[str, EpsilonBound | Undefined]:
    auc = found.estimates["auc"]
    if isinstance(auc, Undefined):
        return dict.fromkeys((RATES, GAUSSIAN, ONE_RUN), auc)
    coins: EpsilonBound | Undefined = Undefined(
        "needs records that were included by independent fair coins; say so with inclusion = 'independent-coins'"
    )
    if design is Inclusion.COINS:
        coins = audit_one_run(runs, independent_coins=True, delta=delta, alpha=alpha, salt=salt)
    return {
        RATES: audit_rates(runs, delta=delta, alpha=alpha, salt=salt, independent_trials=design is not Inclusion.COINS),
        GAUSSIAN: audit_gaussian(runs, delta=delta, alpha=alpha, salt=salt),
        ONE_RUN: coins,
    }


def _verdict(epsilon: float, delta: float, design: Inclusion, bounds: dict[str, EpsilonBound | Undefined]) -> Verdict:
    claim = Claim(
        epsilon=epsilon,
        delta=delta,
        unit=Unit.RECORD,
        trust=Trust.CENTRAL,
        adjacency=Adjacency.ADD_OR_REMOVE_ONE,
        mechanism="not stated",
        accountant="not stated",
        scope="the model that gave the scores",
    )
    return judge(claim, bounds[ONE_RUN if design is Inclusion.COINS else RATES], MEMBERSHIP_AUDIT)


def _detectable(runs: Sequence[MembershipRun], level: float) -> float | None:
    """From the units of one model, the smallest: what more models add is not counted on."""
    sizes = []
    for run in runs:
        inside = {u for u, m in zip(run.units, run.is_member.tolist(), strict=True) if m}
        outside = {u for u, m in zip(run.units, run.is_member.tolist(), strict=True) if not m}
        sizes.append((len(inside), len(outside)))
    least = (min((s[0] for s in sizes), default=0), min((s[1] for s in sizes), default=0))
    return detectable_auc(members=least[0], nonmembers=least[1], level=level) if min(least) > 1 else None


def _thresholds(found: Measures) -> tuple[float, ...]:
    listed = found.details.get("thresholds", ())
    return tuple(float(t) for t in listed if isinstance(t, float)) if isinstance(listed, tuple) else ()


def _exposed(found: Measures) -> tuple[dict[str, Detail], ...]:
    listed = found.details.get("exposed", ())
    return tuple(dict(one) for one in listed if isinstance(one, dict)) if isinstance(listed, tuple) else ()


def _warnings(runs: Sequence[MembershipRun], sides: tuple[Side, Side], named: bool) -> tuple[str, ...]:
    out = []
    if all(len(side.scores) for side in sides) and len({*sides[0].scores, *sides[1].scores}) == 1:
        out.append("every score is the same: nothing was measured but ties")
    if sides[0].groups is not None and sides[1].groups is not None:
        both = set(sides[0].groups) & set(sides[1].groups)
        if both:
            out.append(f"{len(both)} groups hold members and non-members: what they share blurs the difference")
    if len(runs) > 1 and not named:
        out.append("without ids, scores of different models are taken for different records; name them if they are not")
    if len(runs) == 1:
        out.append("one trained model: nothing here says how much results vary between trainings")
    return tuple(out)
