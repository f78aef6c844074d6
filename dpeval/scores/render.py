"""An audit of scores as markdown and as JSON material.

>>> from dpeval.scores.audit import audit_scores
>>> markdown(audit_scores([0.9, 0.8, 0.7, 0.6] * 30, [0.1, 0.2, 0.3, 0.65] * 30)).splitlines()[0]
'# Audit of membership scores'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpeval.measure.detection import POWER, detection_limit
from dpeval.measure.epsilon import EpsilonBound
from dpeval.measure.intervals import clopper_pearson
from dpeval.report.cells import prose
from dpeval.report.glossary import define, null_of
from dpeval.report.numbers import count, delta, lower_bound, measured, number, p_value, percent, plural
from dpeval.report.table import NOTHING, Table
from dpeval.results import to_json
from dpeval.scores.results import ONE_RUN, Inclusion, ScoreAudit
from dpeval.types import Adjacency, Estimate, Trust, Undefined, Unit
from dpeval.verdict import Consistent, Refuted, Untestable, Verdict

SCHEMA = "dpeval/audit/1"
TRUST = {
    Inclusion.UNSTATED: (
        "How members were chosen was not stated. Bounds on ε take the scores for independent trials (each from its own "
        "training run, or its own draw of noise); scores of many records of one model are not, and for those a "
        "refutation holds only as far as that assumption does. With records included by independent fair coins, say "
        "so: the one-run bound then needs no assumption."
    ),
    Inclusion.TRIALS: "Stated: each score is an independent trial, from its own training run or its own draw of noise.",
    Inclusion.COINS: "Stated: each record was included by its own fair coin; the one-run bound needs nothing else.",
}
KIND = "Every ε here is central and for one record, by adding or removing it; an ε of another kind is another thing."
_VERDICTS = {Refuted: "refuted", Consistent: "consistent"}


def markdown(audit: ScoreAudit) -> str:
    """The report; ends with one line break."""
    parts = [
        "# Audit of membership scores",
        *(["> **INVALID.** See the first warning: no number below may be read as a leak."] if audit.invalid else []),
        *_verdict(audit),
        *[f"> Warning: {prose(warning)}" for warning in audit.warnings],
        _reading(audit),
        _sizes(audit),
        _measures(audit).markdown(),
        *_reached(audit),
        "## Lower bounds on ε",
        KIND,
        TRUST[audit.inclusion],
        _bounds(audit).markdown(),
        *_exposed(audit),
        "## What the measures mean",
        Table(("measure", "meaning"), tuple((name, define(name).text) for name in audit.estimates)).markdown(),
    ]
    return "\n\n".join(parts) + "\n"


def as_json(audit: ScoreAudit) -> dict[str, Any]:
    """Plain values under a versioned schema; undefined ones are null with their reason."""
    body: dict[str, Any] = to_json(audit)
    body["verdict"] = None if audit.verdict is None else _verdict_json(audit, audit.verdict)
    body["refuted"] = audit.refuted
    return {"schema": SCHEMA, **body}


def _verdict_json(audit: ScoreAudit, verdict: Verdict) -> dict[str, Any]:
    bound = verdict.bound
    claimed = getattr(verdict.claimed, "epsilon", None)
    limit = detection_limit(bound, claimed) if bound is not None and claimed is not None else None
    fields: dict[str, Any] = {
        "ruling": _VERDICTS.get(type(verdict), "untestable"),
        "claimed": claimed,
        "bound": None if bound is None else bound.epsilon,
        "ceiling": None if bound is None else bound.ceiling,
        "smallest_refutable": limit,
        "power": POWER,
        "assumption": audit.assumption,
        "unit": Unit.RECORD,
        "trust": Trust.CENTRAL,
        "adjacency": Adjacency.ADD_OR_REMOVE_ONE,
        "reading": verdict.reading,
    }
    return {key: to_json(value) for key, value in fields.items()}


def _verdict(audit: ScoreAudit) -> list[str]:
    if audit.verdict is None:
        return []
    reading = audit.verdict.reading
    unstated = audit.inclusion is Inclusion.UNSTATED
    mark = ("**CLAIM REFUTED, under an assumption.** " if unstated else "**CLAIM REFUTED.** ") if audit.refuted else ""
    assumed = "" if isinstance(audit.verdict, Untestable) else f" This holds if {audit.assumption}."
    return [f"> {mark}{prose(reading[0].upper() + reading[1:])}.{assumed}"]


def _reading(audit: ScoreAudit) -> str:
    auc, limit = audit.auc, audit.detectable_auc
    if isinstance(auc, Undefined):
        return f"Nothing can be said: {prose(auc.reason)}."
    if audit.invalid:
        return "Members and non-members are different kinds of text; what the scores find may be that."
    if auc.low > 0.5:
        said = (
            f"Shown one record that was trained on and one that was not, these scores pick the right one in "
            f"{100 * auc.value:.0f} % of cases; guessing gets 50 %."
        )
    elif auc.high < 0.5:
        said = "The scores are wrong more often than right: turned round they would tell members from non-members."
    else:
        said = "These scores were not shown to tell members from non-members, which does not mean that nothing leaks."
    able = "" if limit is None else (
        f" With these sizes an AUC of {number(limit, 3)} or more would have been seen in 4 of 5 such experiments."
    )  # fmt: skip
    return said + able


def _sizes(audit: ScoreAudit) -> str:
    groups = "" if audit.groups is None else f", in {plural(audit.groups, 'group')}"
    over = "" if audit.models == 1 else " over models and records"
    return (
        f"{plural(audit.members, 'member score')}, {plural(audit.nonmembers, 'non-member score')}{groups}, "
        f"{plural(audit.models, 'trained model')}. Intervals{over} at {percent(audit.level)}: the AUC's by DeLong's "
        "variance, those of rates in Wilson's form, that of a TPR at a low FPR by bootstrap."
    )


def _measures(audit: ScoreAudit) -> Table:
    rows = tuple(_row(name, value) for name, value in audit.estimates.items())
    return Table(("measure", "value", "random guess", "records"), rows, numeric=(1, 2, 3))


def _row(name: str, value: Estimate | Undefined) -> tuple[str, ...]:
    null = null_of(name, "membership")
    shown = NOTHING if null is None else number(null, 3)
    return name, measured(value, null), shown, count(value.n) if isinstance(value, Estimate) else NOTHING


def _reached(audit: ScoreAudit) -> list[str]:
    """Which false positive rate a reported TPR really stands at (the last achievable point below the one asked for)."""
    reached = audit.details.get("reached")
    if not isinstance(reached, Mapping):
        return []
    lines = []
    for name, points in reached.items():
        if not isinstance(audit.estimates.get(name), Estimate) or not isinstance(points, tuple):
            continue
        lines += [line for point in points if (line := _point(name, point, audit.level))]
    return ["\n".join(dict.fromkeys(lines))] if lines else []


def _point(name: str, point: object, level: float) -> str:
    if not isinstance(point, Mapping):
        return ""
    n, rate = point.get("nonmembers"), point.get("fpr")
    if not isinstance(n, int) or not isinstance(rate, float):
        return ""
    false = round(rate * n)
    exact = clopper_pearson(false, n, level)
    shown = f"[{exact.low:.2g}, {exact.high:.2g}]"
    return f"- {name} stands at {count(false)} false positives among {count(n)}: a false positive rate in {shown}."


def _bounds(audit: ScoreAudit) -> Table:
    judging = ONE_RUN if audit.inclusion is Inclusion.COINS else None
    headers = (
        "method",
        f"ε at least ({percent(audit.level)}, δ = {delta(audit.delta)})",
        "guesses right",
        "ceiling",
        "use",
    )
    rows = []
    for name, bound in audit.bounds.items():
        if isinstance(bound, Undefined):
            rows.append((name, bound.reason, NOTHING, NOTHING, NOTHING))
            continue
        may = bound is audit.epsilon and (judging == name or judging is None)
        rows.append(
            (
                name,
                lower_bound(bound.epsilon),
                f"{count(bound.correct)} of {count(bound.guesses)}",
                lower_bound(bound.ceiling),
                _use(audit) if may else _why_not(bound),
            )
        )
    return Table(headers, tuple(rows), numeric=(1, 2, 3))


def _use(audit: ScoreAudit) -> str:
    condition = ", if the scores are independent trials" if audit.inclusion is Inclusion.UNSTATED else ""
    return f"may refute a claim{condition}"


def _why_not(bound: EpsilonBound) -> str:
    return f"for reading only: {bound.method.value.partition(', ')[2] or bound.method.value}"


def _exposed(audit: ScoreAudit) -> list[str]:
    if not audit.exposed or not audit.distinguishable:
        return []
    rows = tuple(
        (str(one["id"]), _signed(one["excess"]), _p(one["p"]), str(one["models_as_member"])) for one in audit.exposed
    )
    headers = ("record", "excess score (SD of non-members)", "p, one record", "models")
    return ["## Most exposed members", Table(headers, rows, numeric=(1, 2, 3)).markdown()]


def _signed(value: object) -> str:
    return f"{value:+.2f}" if isinstance(value, float) else NOTHING


def _p(value: object) -> str:
    return p_value(value) if isinstance(value, float) else NOTHING
