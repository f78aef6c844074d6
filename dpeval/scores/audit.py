"""Audits membership scores: the same measures, intervals and verdicts as a run, from two arrays.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> found = audit_scores(rng.normal(1.0, 1.0, 400), rng.normal(0.0, 1.0, 400), claim_epsilon=0.1, delta=1e-5)
>>> found.auc.low > 0.5, found.refuted
(True, True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike

from dpeval.measure.audit import audit_one_run
from dpeval.measure.blind import Blind
from dpeval.measure.epsilon import EpsilonBound
from dpeval.measure.membership import LOW_FPRS, PREVALENCE, MembershipRun, measure_gain, measure_membership
from dpeval.measure.power import detectable_auc
from dpeval.measure.rates import audit_gaussian, audit_rates
from dpeval.measure.results import Detail, Measures
from dpeval.scores.results import GAUSSIAN, ONE_RUN, RATES, Inclusion, ScoreAudit
from dpeval.scores.sides import Keys, Side, blind_attack, check_both, runs_of, side_of
from dpeval.types import Adjacency, Claim, Estimate, Measured, Trust, Undefined, Unit
from dpeval.verdict import MEMBERSHIP_AUDIT, Untestable, Verdict, judge

DELTA = 1e-5
"""The δ of a claim where none is stated. A bound at a larger δ refutes claims at a smaller one too."""


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
    member_texts: Sequence[str] | None = None,
    nonmember_texts: Sequence[str] | None = None,
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
        member_texts: the records themselves. A blind attacker then tries to tell the sides apart without any score;
            where it can, the audit is invalid. Both sides or neither.
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
        side_of("members", members, member_ids, member_groups, member_seeds, "m", member_texts),
        side_of("nonmembers", nonmembers, nonmember_ids, nonmember_groups, nonmember_seeds, "n", nonmember_texts),
    )
    check_both(sides, (member_groups, nonmember_groups), (member_seeds, nonmember_seeds))
    runs = runs_of(*sides)
    if not runs:
        raise ValueError("expected scores of members and of non-members, got none of either")
    found = measure_membership(
        runs, prevalence=prevalence, salt=salt, level=level, resamples=resamples, exposed=exposed, fprs=fprs
    )
    bounds = _bounds(runs, design, delta, 1 - level, salt, found)
    blind = blind_attack(runs, *sides, level)
    grouped = sides[0].groups is not None
    return ScoreAudit(
        members=len(sides[0].scores),
        nonmembers=len(sides[1].scores),
        models=len(runs),
        groups=len({unit for run in runs for unit in run.units}) if grouped else None,
        estimates={**found.estimates, **_beside_blind(runs, blind, level)},
        bounds=bounds,
        inclusion=design,
        delta=delta,
        level=level,
        prevalence=prevalence,
        detectable_auc=_detectable(runs, level),
        thresholds=_thresholds(found),
        verdict=None if claim_epsilon is None else _verdict(claim_epsilon, delta, design, bounds, blind),
        invalid=blind is not None and blind.invalid,
        warnings=(
            *((blind.reason,) if blind and blind.invalid else ()),
            *found.warnings,
            *_warnings(runs, sides, named=member_ids is not None),
        ),
        exposed=_exposed(found),
        details={"reached": _reached(found)},
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


def _beside_blind(runs: Sequence[MembershipRun], blind: Blind | None, level: float) -> dict[str, Measured]:
    if blind is None:
        return {}
    gain = measure_gain(runs, blind.runs, level=level) if blind.runs else blind.auc
    return {"blind_auc": blind.auc, "auc_minus_blind": gain}


def _verdict(
    epsilon: float,
    delta: float,
    design: Inclusion,
    bounds: dict[str, EpsilonBound | Undefined],
    blind: Blind | None,
) -> Verdict:
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
    if blind is not None and blind.invalid:
        return Untestable(
            "the texts alone tell members from non-members, so the scores may say nothing of a model", claim
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


def _reached(found: Measures) -> dict[str, Detail]:
    """The points behind each TPR that is reported; none where there are too few non-members for it."""
    reached = found.details.get("reached")
    if not isinstance(reached, Mapping):
        return {}
    return {name: points for name, points in reached.items() if isinstance(found.estimates.get(name), Estimate)}


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
            held = "1 group holds" if len(both) == 1 else f"{len(both)} groups hold"
            out.append(f"{held} members and non-members: what these share blurs the difference")
    if len(runs) > 1 and not named:
        out.append("without ids, scores of different models are taken for different records; name them if they are not")
    if len(runs) == 1:
        out.append("one trained model: nothing here says how much results vary between trainings")
    return tuple(out)
