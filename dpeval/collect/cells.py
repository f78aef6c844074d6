"""One row for each cell of the matrix: status, measures, adjusted p-value, reading. No cell is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpeval.collect.audit_sets import PUBLISHED, AuditSet, audit_set_of
from dpeval.collect.controls import Controls
from dpeval.collect.defenses import claims_of, weakest
from dpeval.collect.gather import Gathered
from dpeval.collect.measures import HEADLINES, CellMeasures, measure_cell, with_limit
from dpeval.collect.queries import query_warnings
from dpeval.collect.readings import reading
from dpeval.jobs import as_attack, is_published_protocol
from dpeval.matrix import Cell
from dpeval.measure.blind import Blind
from dpeval.measure.multiple import holm
from dpeval.results import CellResult, Status
from dpeval.types import Estimate, Failed, Unfit

FEWEST = 30
"""Records below which "no difference" is called insufficient: the intervals rest on sums of many records."""


@dataclass(frozen=True)
class Outcome:
    """How a cell ended, and why."""

    status: Status
    reason: str = ""


def measured_cells(gathered: Gathered, blind: Mapping[AuditSet, Blind]) -> dict[Cell, CellMeasures]:
    """The measures of every cell that has results of every seed."""
    found = {}
    for cell in gathered.plan.cells:
        checkpoint = gathered.checkpoint(cell.model)
        if cell.problem is None and checkpoint is not None and failure_of(gathered, cell) is None:
            attacker = _blind_of(cell, blind)
            runs = attacker.runs if attacker else ()
            found[cell] = measure_cell(gathered, gathered.of_cell(cell), cell.trial, checkpoint, runs)
    return found


def failure_of(gathered: Gathered, cell: Cell) -> Failed | None:
    """What went wrong with a cell while it ran."""
    trained = gathered.of_cell(cell)
    failure = trained.failure("release", cell.trial.name)
    if failure is None and not all(cell.trial.name in r.entries for r in trained.reports):
        return Failed("it did not run")
    return failure


def cell_results(
    gathered: Gathered, measured: Mapping[Cell, CellMeasures], controls: Controls, blind: Mapping[AuditSet, Blind]
) -> list[CellResult]:
    """Every cell, in the order of the matrix."""
    tested = [(cell, m.p_value) for cell, m in measured.items() if m.p_value is not None]
    adjusted = dict(zip([c for c, _ in tested], holm([p for _, p in tested if p is not None]), strict=True))
    limited = {cell: with_limit(m, len(tested)) for cell, m in measured.items()}
    return [
        _result(gathered, cell, limited.get(cell), adjusted.get(cell), controls, blind) for cell in gathered.plan.cells
    ]


def comparisons(measured: Mapping[Cell, CellMeasures]) -> int:
    """How many p-values the adjustment covers."""
    return sum(m.p_value is not None for m in measured.values())


def _result(
    gathered: Gathered,
    cell: Cell,
    found: CellMeasures | None,
    adjusted: float | None,
    controls: Controls,
    blind: Mapping[AuditSet, Blind],
) -> CellResult:
    names = gathered.names(cell.data, cell.model)
    goal = as_attack(cell.attack).goal
    outcome = _outcome(gathered, cell, controls, blind)
    base = CellResult(
        defense=cell.defense.label, attack=cell.attack.label, goal=goal, tap=cell.tap, data=names[0], model=names[1],
        status=outcome.status, reason=outcome.reason, headline=HEADLINES[goal],
    )  # fmt: skip
    if found is None:
        return base
    trained = gathered.of_cell(cell)
    asked = query_warnings(cell.attack, weakest(claims_of(trained)))
    verdict = distinguishable(found, adjusted, gathered.experiment.report.level)
    return CellResult(
        defense=base.defense, attack=base.attack, goal=goal, tap=cell.tap, data=names[0], model=names[1],
        status=outcome.status, reason=outcome.reason, measures=found.measures, headline=found.headline, null=found.null,
        p_value=found.p_value, p_holm=adjusted, distinguishable=verdict, reading=reading(goal, found, verdict),
        warnings=(*found.warnings, *asked), exposed=found.exposed if verdict == "yes" else (),
        risks=found.risks if verdict == "yes" else (), roc=found.roc,
        seconds=trained.seconds(cell.trial),
    )  # fmt: skip


def distinguishable(found: CellMeasures, adjusted: float | None, level: float) -> str:
    """``yes``, ``no``, or ``insufficient`` for want of records.

    Below a baseline that needs no embedding lies no leak: answering worse than that is ``no``. A membership AUC below
    one half is ``yes`` all the same, since turning the score round would leak.
    """
    if adjusted is None or not isinstance(found.tested, Estimate):
        return "insufficient"
    worse_than_baseline = found.tested_null == 0.0 and found.tested.value < 0.0
    if adjusted <= 1 - level and not worse_than_baseline:
        return "yes"
    return "insufficient" if found.tested.n < FEWEST else "no"


def _blind_of(cell: Cell, blind: Mapping[AuditSet, Blind]) -> Blind | None:
    """The blind attacker of the records that a cell's attack is audited on."""
    one = audit_set_of(cell)
    return blind.get(one) if one else None


def _outcome(gathered: Gathered, cell: Cell, controls: Controls, blind: Mapping[AuditSet, Blind]) -> Outcome:
    problem = cell.problem or failure_of(gathered, cell)
    if isinstance(problem, Unfit):
        return Outcome(Status.UNFIT, problem.reason)
    if isinstance(problem, Failed):
        return Outcome(Status.FAILED, f"{problem.message} ({problem.where})" if problem.where else problem.message)
    found = _blind_of(cell, blind)
    if is_published_protocol(as_attack(cell.attack)):
        return Outcome(Status.INVALID, PUBLISHED + (f"; {found.reason.removeprefix('INVALID: ')}" if found else ""))
    if as_attack(cell.attack).caveat:
        return Outcome(
            Status.INVALID, f"published protocol, shown for comparison only: {as_attack(cell.attack).caveat}"
        )
    if found is not None and found.invalid:
        return Outcome(Status.INVALID, found.reason)
    control = controls.of(cell)
    if control is None or not control.validated:
        return Outcome(Status.NOT_VALIDATED, control.reason if control else "attack not validated: no control ran")
    return Outcome(Status.OK)


def cells_of(results: Sequence[CellResult], defense: str, data: str, model: str) -> list[CellResult]:
    """The cells of one defense."""
    return [c for c in results if (c.defense, c.data, c.model) == (defense, data, model)]
