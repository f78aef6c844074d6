"""One row for each defense: claim, verdict, utility, cost, diagnostics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpeval.collect.claims import Audit, judge_defense
from dpeval.collect.gather import Gathered, Trained
from dpeval.collect.utility import accuracy
from dpeval.config import Named
from dpeval.identity import canonical
from dpeval.jobs import as_defense
from dpeval.results import DefenseResult, Ruling, Status, Verdict
from dpeval.types import Claim, Cost, Failed, NoClaim, PrivacyClaim, Undefined, Unfit
from dpeval.work import stored_claim


def defense_results(gathered: Gathered, audits: Sequence[Audit]) -> list[DefenseResult]:
    """Every defense of the matrix, in its order, on every data set and model."""
    problems = {(named, data, model): why for named, data, model, why in gathered.plan.problems}
    found = []
    for data, model in gathered.materials.pairs():
        for named in gathered.experiment.defenses:
            why = problems.get((named, data, model))
            found.append(
                _absent(gathered, named, data, model, why) if why else _present(gathered, named, data, model, audits)
            )
    return found


def claims_of(trained: Trained) -> list[PrivacyClaim]:
    """The claim of each seed's release."""
    return [stored_claim(folder) for _, folder in trained.folders("release")]


def weakest(claims: Sequence[PrivacyClaim]) -> PrivacyClaim:
    """The claim with the largest ε; no claim is weaker than any."""
    if not claims:
        return NoClaim("nothing was trained")
    none = [c for c in claims if isinstance(c, NoClaim)]
    stated = [c for c in claims if isinstance(c, Claim)]
    return none[0] if none else max(stated, key=lambda c: (c.epsilon, c.delta))


def _absent(gathered: Gathered, named: Named, data: int, model: int, why: Unfit | Failed) -> DefenseResult:
    reason = why.reason if isinstance(why, Unfit) else why.message
    missing = Undefined(reason)
    return DefenseResult(
        **_identity(gathered, named, data, model),
        status=Status.UNFIT if isinstance(why, Unfit) else Status.FAILED,
        reason=reason,
        claim=NoClaim("nothing was trained"),
        verdict=Verdict(ruling=Ruling.NO_CLAIM, reading="Nothing was trained, so nothing is claimed."),
        utility=missing,
        train_accuracy=missing,
    )


def _present(gathered: Gathered, named: Named, data: int, model: int, audits: Sequence[Audit]) -> DefenseResult:
    trained = gathered.trained(named, data, model)
    failure = trained.failure("release", "train", "test")
    claim = weakest(claims_of(trained))
    level = gathered.experiment.report.level
    return DefenseResult(
        **_identity(gathered, named, data, model),
        status=Status.FAILED if failure else Status.OK,
        reason=f"{failure.message} ({failure.where})" if failure else "",
        claim=claim,
        verdict=judge_defense(claim, named, data, model, audits),
        utility=accuracy(trained, "test", level),
        train_accuracy=accuracy(trained, "train", level),
        cost=_cost(trained),
        warnings=_warnings(gathered, claim, data),
        diagnostics=_diagnostics(trained),
    )


def _identity(gathered: Gathered, named: Named, data: int, model: int) -> dict[str, Any]:
    names = gathered.names(data, model)
    settings = {k: v for k, v in canonical(named.plugin).items() if k != "type"}
    return {
        "label": named.label, "use": named.use, "data": names[0], "model": names[1],
        "source": as_defense(named).source, "settings": settings,
    }  # fmt: skip


def _abouts(trained: Trained) -> list[dict[str, Any]]:
    return [
        json.loads((folder / "release.json").read_text(encoding="utf-8")) for _, folder in trained.folders("release")
    ]


def _cost(trained: Trained) -> Cost | None:
    costs = [about["cost"] for about in _abouts(trained)]
    if not costs:
        return None
    return Cost(
        seconds=float(np.mean([c["seconds"] for c in costs])),
        cpu_seconds=float(np.mean([c["cpu_seconds"] for c in costs])),
        peak_bytes=max(int(c["peak_bytes"]) for c in costs),
        trained_parameters=max(int(c["trained_parameters"]) for c in costs),
    )


def _diagnostics(trained: Trained) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for about in _abouts(trained):
        for name, value in about["diagnostics"].items():
            found.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def _warnings(gathered: Gathered, claim: PrivacyClaim, data: int) -> tuple[str, ...]:
    from dpeval.privacy.steps import delta_warning

    if not isinstance(claim, Claim):
        return ()
    jobs = [r.job for r in gathered.reports if r.job.data == data and not r.job.control]
    members = max(len(job.split.members) for job in jobs)
    why = delta_warning(claim.delta, members)
    return (why,) if why else ()
