"""The privacy claims, one table for each kind, and what each defense is, cost and warned of.

>>> from dpeval.report.example import tiny_run
>>> print(claims_section(tiny_run())[-1])
| defense   | why nothing can be tested      |
|:----------|:-------------------------------|
| none      | no formal guarantee is claimed |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpeval.measure.detection import POWER
from dpeval.report.cells import prose
from dpeval.report.layout import Block, block_name, blocks
from dpeval.report.local import local_tables
from dpeval.report.marks import STATUS_WORDS, ruling_word, stamp
from dpeval.report.numbers import (
    count,
    delta,
    epsilon,
    kind,
    lower_bound,
    measured,
    memory_of,
    number,
    percent,
    plain,
    plural,
    seconds_of,
)
from dpeval.report.table import NOTHING, Table
from dpeval.report.training import is_logged
from dpeval.results import DefenseResult, RunResult, Status, Verdict
from dpeval.types import Claim, NoClaim

CLAIM = ("defense", "ε", "δ", "N (members)", "mechanism", "accountant", "sampling", "measured ε at least", "verdict")
MAJORITY = "(majority answer)"
COSTS = ("defense", "status", "accuracy (test)", "accuracy (members)", "training time", "processor time", "peak memory",
         "trained parameters")  # fmt: skip
INTRO = (
    "Each table holds claims of one kind. ε of different unit, trust model or adjacency are not comparable: no order "
    "and no ratio between two tables means anything."
)


def claims_section(result: RunResult) -> list[str]:
    """Claims grouped by kind, in the order of the matrix, with verdicts; then the defenses that claim nothing."""
    out = [f"## Privacy claims{stamp(result)}"]
    kinds = dict.fromkeys(d.claim.kind for d in result.defenses if isinstance(d.claim, Claim))
    out += [INTRO] if len(kinds) > 1 else []
    for one in kinds:
        some = [d for d in result.defenses if isinstance(d.claim, Claim) and d.claim.kind == one]
        out += _of_kind(result, some)
    out += local_tables([(name(result, d), d.claim) for d in result.defenses if isinstance(d.claim, Claim)])
    return [*out, *_silent(result), *_ledger(result)]


def _of_kind(result: RunResult, defenses: list[DefenseResult]) -> list[str]:
    claims = [(d, d.claim) for d in defenses if isinstance(d.claim, Claim)]
    rows = tuple(_claim_row(result, d, claim) for d, claim in claims)
    lines = [line for d, claim in claims for line in _claim_lines(result, d, claim)]
    title = f"### ε {prose(kind(claims[0][1]))}"
    return [title, Table(CLAIM, rows, numeric=(1, 2, 3, 7)).markdown(), "\n".join(lines)]


def _claim_row(result: RunResult, defense: DefenseResult, claim: Claim) -> tuple[str, ...]:
    members = _members(result, defense)
    bound, level = defense.verdict.bound, percent(defense.verdict.level)
    return (
        name(result, defense),
        epsilon(claim.epsilon),
        delta(claim.delta),
        NOTHING if members is None else count(members),
        claim.mechanism,
        claim.accountant,
        claim.sampling,
        NOTHING if bound is None else f"{lower_bound(bound)} ({level})",
        ruling_word(defense.verdict.ruling),
    )


def _claim_lines(result: RunResult, defense: DefenseResult, claim: Claim) -> list[str]:
    verdict, members = defense.verdict, _members(result, defense)
    sub = [f"Covers: {claim.scope}"]
    sub += [f"Does not cover: {'; '.join(claim.excludes)}"] if claim.excludes else []
    sub += [f"Behind ε: {', '.join(f'{k} = {_setting(v)}' for k, v in claim.details)}"] if claim.details else []
    sub += [f"How it was tested: {verdict.method}"] if verdict.method else []
    sub += power_lines(verdict)
    if members and claim.delta >= 1 / members and not any("δ" in warning for warning in defense.warnings):
        sub.append(f"Warning: δ is not below 1/N = {delta(1 / members)}, which allows giving away a whole record")
    reading = prose(verdict.reading) or "no reading was recorded."
    return [f"- **{prose(name(result, defense))}**: {reading}", *(f"  - {prose(line)}" for line in sub)]


def power_lines(verdict: Verdict) -> list[str]:
    """What the audit could have shown: its ceiling and its detection limit, each by name."""
    lines = []
    if verdict.ceiling is not None:
        lines.append(
            f"Ceiling: had every guess been right, the lower bound on ε would be {lower_bound(verdict.ceiling)}; no "
            "larger claim can be refuted here"
        )
    if verdict.smallest_refutable is not None:
        limit = verdict.smallest_refutable
        lines.append(
            "Detection limit: none; no true ε would have refuted this claim here"
            if math.isinf(limit)
            else f"Detection limit: {percent(POWER)} of such experiments would refute this claim if the true ε were "
            f"{number(limit)} and the attack the best possible, planned without error; a weaker leak goes unseen"
        )
    return lines


def _silent(result: RunResult) -> list[str]:
    rows = tuple((name(result, d), d.claim.reason) for d in result.defenses if isinstance(d.claim, NoClaim))
    return ["### No claim", Table(("defense", "why nothing can be tested"), rows).markdown()] if rows else []


def _ledger(result: RunResult) -> list[str]:
    lines = [
        f"- {prose(data)}: this run folder has seen {plural(trials, 'distinct training')}. No ε above accounts for "
        "choosing among them by results on private data (Papernot and Steinke 2022)."
        for data, trials in result.provenance.trials.items()
    ]
    return ["\n".join(lines)] if lines else []


def detail_section(result: RunResult) -> list[str]:
    """Settings, source, training cost, diagnostics and warnings of each defense."""
    out = ["## Defenses in detail"]
    for block in blocks(result):
        title = block_name(result, block)
        out += [f"### {prose(title)}"] if title else []
        out += [_costs(result, block).markdown(), "\n".join(line for d in block.defenses for line in _lines(d))]
    return out


def _costs(result: RunResult, block: Block) -> Table:
    majority = result.utility_baseline.get(block.data)
    baseline = NOTHING if majority is None else number(majority, 3)
    first = (MAJORITY, NOTHING, baseline, baseline, *(NOTHING,) * 4)
    return Table(COSTS, (first, *(_cost_row(d) for d in block.defenses)), numeric=tuple(range(2, len(COSTS))))


def _cost_row(d: DefenseResult) -> tuple[str, ...]:
    parameters = count(d.cost.trained_parameters) if d.cost and d.cost.trained_parameters else NOTHING
    cpu = NOTHING if d.cost is None else plain(round(d.cost.cpu_seconds, 1)) + " s"
    return (d.label, STATUS_WORDS[d.status], measured(d.utility), measured(d.train_accuracy), seconds_of(d.cost), cpu,
            memory_of(d.cost), parameters)  # fmt: skip


def _lines(d: DefenseResult) -> list[str]:
    lines = [f"- **{prose(d.label)}**: {prose(d.use)}; {prose(d.source) or 'no source is named'}"]
    lines += [f"  - {STATUS_WORDS[d.status]}: {prose(d.reason)}"] if d.status is not Status.OK else []
    lines += [f"  - Settings: {_settings(d.settings)}"] if d.settings else []
    lines += [f"  - Diagnostics: {_settings(d.diagnostics)}"] if d.diagnostics and not is_logged(d) else []
    extra = d.cost.extra if d.cost else ()
    lines += [f"  - Cost: {_settings(dict(extra))}"] if extra else []
    return lines + [f"  - Warning: {prose(warning)}" for warning in d.warnings]


def _settings(values: Mapping[str, Any]) -> str:
    return prose(", ".join(f"{key} = {_setting(value)}" for key, value in values.items()))


def _setting(value: object) -> str:
    if isinstance(value, (int, float)):
        return plain(value)
    if isinstance(value, (list, tuple)):
        return f"({', '.join(_setting(v) for v in value)})"
    return "not set" if value is None else str(value)


def _members(result: RunResult, defense: DefenseResult) -> int | None:
    return next((d.roles.get("members") for d in result.data if d.name == defense.data), None)


def name(result: RunResult, defense: DefenseResult) -> str:
    """The label of a defense, with data and model where the run has several."""
    place = block_name(result, Block(defense.data, defense.model, (), ()))
    return f"{defense.label} ({place})" if place else defense.label
