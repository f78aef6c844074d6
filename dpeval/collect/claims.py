"""Tests each defense's claim with what the run measured, at a level shared by all audits of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpeval.arrays import load_arrays
from dpeval.collect.gather import Gathered, Trained
from dpeval.collect.measures import CellMeasures
from dpeval.config import Named
from dpeval.jobs import as_attack
from dpeval.matrix import Cell
from dpeval.measure.audit import audit_one_run
from dpeval.measure.detection import detection_limit
from dpeval.measure.distinguish import audit_releases
from dpeval.measure.epsilon import EpsilonBound
from dpeval.measure.multiple import family_alpha
from dpeval.privacy.claims import claim_of_one_answer
from dpeval.results import Ruling, Verdict
from dpeval.types import Claim, PrivacyClaim, Trust, Undefined
from dpeval.verdict import MEMBERSHIP_AUDIT, Consistent, Kind, Refuted, Untestable, judge


@dataclass(frozen=True, eq=False)
class Audit:
    """A lower bound on ε of one defense, what it tests, and how it was made."""

    defense: Named
    data: int
    model: int
    tests: Kind
    bound: EpsilonBound | Undefined
    method: str


@dataclass(frozen=True, eq=False)
class _Planned:
    """An audit before its level is known."""

    defense: Named
    data: int
    model: int
    claim: Claim
    cell: Cell | None = None


def audits_of(
    gathered: Gathered,
    claims: Mapping[tuple[str, int, int], PrivacyClaim],
    measured: Mapping[Cell, CellMeasures],
    alpha: float,
) -> list[Audit]:
    """Every audit that the run's claims allow, each at ``alpha`` divided by their number."""
    planned = list(_plan(gathered, claims, measured))
    if not planned:
        return []
    level = family_alpha(alpha, len(planned))
    return [_run(gathered, one, measured, level) for one in planned]


def _plan(
    gathered: Gathered, claims: Mapping[tuple[str, int, int], PrivacyClaim], measured: Mapping[Cell, CellMeasures]
) -> list[_Planned]:
    found = []
    for data, model in gathered.materials.pairs():
        for named in gathered.experiment.defenses:
            claim = claims.get((named.label, data, model))
            if not isinstance(claim, Claim):
                continue
            if claim.trust is Trust.LOCAL:
                found.append(_Planned(named, data, model, claim))
                continue
            cells = [c for c, m in measured.items() if (c.defense, c.data, c.model) == (named, data, model) and m.runs]
            found.extend(_Planned(named, data, model, claim, cell) for cell in cells)
    return found


def _run(gathered: Gathered, one: _Planned, measured: Mapping[Cell, CellMeasures], alpha: float) -> Audit:
    if one.cell is not None:
        bound, tests, method = (
            _membership(gathered, one, measured[one.cell], alpha),
            MEMBERSHIP_AUDIT,
            one.cell.attack.label,
        )
    else:
        trained = gathered.trained(one.defense, one.data, one.model)
        bound, tests, method = _local(trained, one.claim, alpha), one.claim.kind, "repeated queries about two inputs"
    return Audit(one.defense, one.data, one.model, tests, bound, method)


def _membership(gathered: Gathered, one: _Planned, measures: CellMeasures, alpha: float) -> EpsilonBound | Undefined:
    trained = gathered.trained(one.defense, one.data, one.model)
    canaries = one.cell is not None and as_attack(one.cell.attack).goal == "extraction"
    if not canaries and not all(report.job.split.independent_coins for report in trained.reports):
        return Undefined(
            "members were not drawn by independent coins (the data are too few), so the one-run bound does not hold"
        )
    return audit_one_run(measures.runs, independent_coins=True, delta=one.claim.delta, alpha=alpha)


def _local(trained: Trained, claim: Claim, alpha: float) -> EpsilonBound | Undefined:
    folders = list(trained.folders("audit"))
    if not folders:
        failure = trained.failure("audit")
        if failure is None and trained.failure("release") is None:
            return Undefined("the claim is about training texts, and repeated queries test only what answers let out")
        return Undefined(f"the audit by repeated queries did not run: {failure.message if failure else 'no release'}")
    arrays = load_arrays(folders[0][1])
    first, second = (arrays[name].reshape(-1, 1) for name in ("first", "second"))
    return audit_releases(first, second, delta=claim.delta, alpha=alpha, direction=[1.0]).bound


def judge_defense(claim: PrivacyClaim, named: Named, data: int, model: int, audits: Sequence[Audit]) -> Verdict:
    """The strongest verdict of the audits of one defense."""
    if not isinstance(claim, Claim):
        return Verdict(ruling=Ruling.NO_CLAIM, reading=f"No claim to test: {claim.reason}.")
    mine = [a for a in audits if (a.defense, a.data, a.model) == (named, data, model)]
    judged = [(_verdict(claim, audit), audit) for audit in mine]
    if not judged:
        return Verdict(
            ruling=Ruling.UNTESTABLE, claimed=claim.epsilon,
            reading="Claim not testable here: no attack of this matrix speaks about it.",
        )  # fmt: skip
    return max(judged, key=lambda pair: _strength(pair[0]))[0]


def _strength(verdict: Verdict) -> tuple[int, float]:
    order = {Ruling.REFUTED: 2, Ruling.CONSISTENT: 1}
    return order.get(verdict.ruling, 0), verdict.bound or 0.0


_ONE_ANSWER = "; what was tested is the ε that the claim states of one answer, below that of all that it covers"


def _verdict(claim: Claim, audit: Audit) -> Verdict:
    tested = claim_of_one_answer(claim) if claim.trust is Trust.LOCAL else claim
    judged = judge(tested, audit.bound, audit.tests)
    ruling = {Refuted: Ruling.REFUTED, Consistent: Ruling.CONSISTENT, Untestable: Ruling.UNTESTABLE}[type(judged)]
    bound = audit.bound if isinstance(audit.bound, EpsilonBound) else None
    reading = judged.reading + _ONE_ANSWER * (tested.epsilon < claim.epsilon)
    return Verdict(
        ruling=ruling,
        reading=f"{reading[0].upper()}{reading[1:]}.",
        bound=bound.epsilon if bound else None,
        claimed=tested.epsilon,
        ceiling=bound.ceiling if bound else None,
        smallest_refutable=detection_limit(bound, tested.epsilon) if bound else None,
        level=1 - bound.alpha if bound else 0.95,
        method=f"{audit.method}; {bound.method.value}" if bound else audit.method,
    )
