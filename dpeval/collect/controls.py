"""Whether each attack breaks its positive control and spares its negative one, on these data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpeval.collect.gather import Gathered, Trained
from dpeval.collect.measures import HEADLINES, measure_cell
from dpeval.jobs import Trial, as_attack
from dpeval.matrix import Cell
from dpeval.measure.controls import validate
from dpeval.measure.multiple import family_alpha
from dpeval.results import ControlResult
from dpeval.types import Estimate, Measured, Undefined

Key = tuple[str, str | None, int, int]
"""(attack label, tap, data, model)."""


@dataclass(frozen=True, eq=False)
class Controls:
    """Control results by attack, tap, data and model."""

    found: Mapping[Key, ControlResult]

    def of(self, cell: Cell) -> ControlResult | None:
        """The controls of a cell's attack."""
        return self.found.get((cell.attack.label, cell.tap, cell.data, cell.model))


def control_results(gathered: Gathered, cells: Sequence[Cell], alpha: float) -> Controls:
    """The controls of every attack at every tap; the level is shared by all of them."""
    wanted: dict[Key, Cell] = {}
    for cell in cells:
        if cell.problem is None:
            wanted.setdefault((cell.attack.label, cell.tap, cell.data, cell.model), cell)
    level = 1 - family_alpha(alpha, max(1, len(wanted)))
    return Controls({key: _control(gathered, cell, level) for key, cell in wanted.items()})


def _control(gathered: Gathered, cell: Cell, level: float) -> ControlResult:
    goal = as_attack(cell.attack).goal
    measure, null = ("auc", 0.5) if cell.tap is None else (f"gain_{HEADLINES[goal]}", 0.0)
    positives = _values(gathered, cell, Trial(cell.attack, cell.tap, "positive"), level, every=True)
    negatives = _values(gathered, cell, Trial(cell.attack, cell.tap, "negative"), level, every=False)
    positive, negative = _weakest(positives), _weakest(negatives, largest=True)
    judged = validate(positive, negative, null)
    names = gathered.names(cell.data, cell.model)
    return ControlResult(
        attack=cell.attack.label, goal=goal, tap=cell.tap, data=names[0], model=names[1], positive=positive,
        negative=negative, measure=measure, null=null, validated=judged.validated,
        reason=_worded(judged.reason, cell), models=(len(positives), len(negatives)),
    )  # fmt: skip


def _worded(reason: str, cell: Cell) -> str:
    if cell.tap is None:
        return reason
    clear, others = "the clear embedding of the base model", "another text's embedding"
    words = {
        "the over-fitted undefended model": clear,
        "a model that never saw the data": others,
        "the untrained one": others,
    }
    for old, new in words.items():
        reason = reason.replace(old, new)
    return reason


def _values(gathered: Gathered, cell: Cell, trial: Trial, level: float, *, every: bool) -> list[Measured]:
    """The control's value on each of its models, one for each seed; each is judged alone, so that none is luck.

    ``every`` one has to pass, which needs no allowance for their number; where one that fails is enough to fail all,
    the level is shared among them.
    """
    trained = gathered.control(trial, cell.data, cell.model)
    checkpoint = gathered.checkpoint(cell.model)
    if not trained.reports or checkpoint is None:
        return [Undefined("the control did not run")]
    alone = level if every else 1 - (1 - level) / len(trained.reports)
    return [
        Undefined(f"the control failed: {failure.message}")
        if (failure := one.failure("release", trial.name))
        else measure_cell(gathered, one, trial, checkpoint, level=alone).tested
        for one in (Trained((report,)) for report in trained.reports)
    ]


def _weakest(values: Sequence[Measured], *, largest: bool = False) -> Measured:
    """What decides: an undefined value, or the one whose interval begins lowest (for the negative control: highest)."""
    undefined = [value for value in values if isinstance(value, Undefined)]
    known = [value for value in values if isinstance(value, Estimate)]
    return undefined[0] if undefined else (max if largest else min)(known, key=lambda value: value.low)
