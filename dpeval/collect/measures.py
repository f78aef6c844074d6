"""The measures of one cell, by the goal of its attack, with what a headline is compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from scipy import stats

from dpeval.collect.attributes import attribute_runs
from dpeval.collect.audit_sets import PUBLISHED
from dpeval.collect.excess import attribute_excess, inversion_excess
from dpeval.collect.gather import Gathered, Trained, is_member
from dpeval.collect.runs import auxiliary_tokens, inversion_runs, membership_runs
from dpeval.jobs import Trial, as_attack, is_published_protocol
from dpeval.measure.attribute import measure_attribute
from dpeval.measure.canaries import measure_canaries
from dpeval.measure.influence import Part
from dpeval.measure.intervals import Scale, critical, sharp_reach, significance
from dpeval.measure.inversion import InversionRun, measure_inversion
from dpeval.measure.membership import PREVALENCE, MembershipRun, measure_gain, measure_membership
from dpeval.measure.multiple import p_value
from dpeval.measure.results import Measures
from dpeval.measure.roc import mean_roc
from dpeval.models.checkpoint import Checkpoint
from dpeval.results import RecordRisk
from dpeval.types import Estimate, Measured, Undefined

POWER = 0.8
HEADLINES = {"membership": "auc", "extraction": "auc", "inversion": "content_f1", "attribute": "balanced_accuracy"}


@dataclass(frozen=True, eq=False)
class CellMeasures:
    """Named measures; the headline, its null value, and the tested quantity (the headline itself, or a paired gain)."""

    measures: dict[str, Measured]
    headline: str
    null: float | None
    tested: Measured
    tested_null: float
    warnings: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()
    runs: tuple[MembershipRun, ...] = field(default=())
    parts: tuple[Part, ...] = ()
    """The headline of each seed with the influence of each record; empty where it is undefined."""
    tested_parts: tuple[Part, ...] = ()
    """The same of what is tested."""
    risks: tuple[RecordRisk, ...] = ()
    roc: tuple[tuple[float, float], ...] = ()
    baseline: str = ""
    """Which of several baselines the headline is compared with."""

    @cached_property
    def p_value(self) -> float | None:
        """Two-sided, before the adjustment.

        Guessing is a hypothesis about every model: under it models differ by what records explain. What is found must
        also hold for the mean over trainings, so that p is never below what an interval that reaches guessing allows.
        """
        if not isinstance(self.tested, Estimate):
            return None
        if not self.tested_parts:
            return p_value(self.tested, self.tested_null)
        gain = self.tested is not self.measures.get(self.headline)
        scale = Scale.DIFFERENCE if gain else Scale.RATE
        sharp = significance(self.tested_parts, self.tested_null, scale=scale, sharp=True)
        if self.tested.excludes(self.tested_null):
            return sharp
        return max(sharp, 1 - self.tested.level, significance(self.tested_parts, self.tested_null, scale=scale))


def measure_cell(
    gathered: Gathered,
    trained: Trained,
    trial: Trial,
    checkpoint: Checkpoint,
    blind: tuple[MembershipRun, ...] = (),
    level: float | None = None,
) -> CellMeasures:
    """Everything that is measured of one attack on one defense, over its seeds."""
    level = level or gathered.experiment.report.level
    goal = as_attack(trial.attack).goal
    if goal == "inversion":
        return _inversion(trained, trial, checkpoint, level)
    if goal == "attribute":
        return _attribute(gathered, trained, trial, level)
    if is_published_protocol(as_attack(trial.attack)):
        # The blind attacker has other texts of the same ids to compare with, and the claim says nothing of edited ones.
        found = _membership(gathered, trained, trial, (), level)
        return replace(found, runs=(), exposed=(), risks=(), parts=(), roc=(), warnings=(PUBLISHED,))
    return _membership(gathered, trained, trial, blind, level)


def _membership(
    gathered: Gathered, trained: Trained, trial: Trial, blind: tuple[MembershipRun, ...], level: float
) -> CellMeasures:
    runs = membership_runs(trained, trial)
    report = gathered.experiment.report
    found = measure_membership(runs, prevalence=report.prevalence or PREVALENCE, level=level, fprs=report.fpr)
    measures = dict(found.estimates)
    if as_attack(trial.attack).goal == "extraction":
        measures |= measure_canaries(runs, level=level)
    if blind and len(blind) == len(runs):
        measures["auc_minus_blind"] = measure_gain(runs, blind, level=level)
    auc = measures["auc"]
    if isinstance(auc, Undefined):
        return CellMeasures(measures, "auc", 0.5, auc, 0.5, found.warnings, runs=tuple(runs))
    risks = _risks(found)
    return CellMeasures(
        measures, "auc", 0.5, auc, 0.5, found.warnings, tuple(r.id for r in risks), tuple(runs),
        found.parts["auc"], found.parts["auc"], risks, mean_roc(runs),
    )  # fmt: skip


def _risks(found: Measures) -> tuple[RecordRisk, ...]:
    listed = found.details.get("exposed", ())
    if not isinstance(listed, tuple):
        return ()
    return tuple(
        RecordRisk(id=str(one["id"]), excess=_number(one["excess"]), p=_number(one["p"]),
                   models=int(_number(one["models_as_member"])))
        for one in listed if isinstance(one, Mapping)
    )  # fmt: skip


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _inversion(trained: Trained, trial: Trial, checkpoint: Checkpoint, level: float) -> CellMeasures:
    runs = inversion_runs(trained, trial, checkpoint)
    rows = _fixed_rows(runs) if all(run.by_row for run in runs) else checkpoint.max_length
    found = measure_inversion(runs, auxiliary_tokens(trained, checkpoint, rows), level=level)
    measures = dict(found.estimates)
    members = [is_member(job, run.ids) for (job, _), run in zip(trained.folders(trial.name), runs, strict=True)]
    measures["memorisation_excess"] = inversion_excess(runs, members, level)
    return _against_baseline(measures, "content_f1", found)


def _attribute(gathered: Gathered, trained: Trained, trial: Trial, level: float) -> CellMeasures:
    runs = attribute_runs(gathered, trained, trial)
    if trial.role:
        # A control asks whether the attack reads embeddings at all; what covariates tell as well is no fault of it.
        runs = [replace(run, baselines={}, by_frequency={}) for run in runs]
    found = measure_attribute(runs, level=level)
    measures = dict(found.estimates)
    members = [is_member(job, run.ids) for (job, _), run in zip(trained.folders(trial.name), runs, strict=True)]
    measures["memorisation_excess"] = attribute_excess(runs, members, level)
    chosen = found.details.get("best_baseline")
    name = str(chosen.get("balanced_accuracy", "")) if isinstance(chosen, Mapping) else ""
    return replace(_against_baseline(measures, "balanced_accuracy", found), baseline=name)


def _against_baseline(measures: dict[str, Measured], headline: str, found: Measures) -> CellMeasures:
    baseline, gain = measures.get(f"baseline_{headline}"), measures.get(f"gain_{headline}", Undefined("no baseline"))
    null = baseline.value if isinstance(baseline, Estimate) else None
    return CellMeasures(
        measures, headline, null, gain, 0.0, found.warnings, parts=found.parts.get(headline, ()),
        tested_parts=found.parts.get(f"gain_{headline}", ()),
    )  # fmt: skip


def _fixed_rows(runs: list[InversionRun]) -> int | None:
    """The number of rows of each release when it is the same for all texts; ``None`` for ragged releases."""
    lengths = {len(guess) for run in runs for guess in run.guessed}
    return lengths.pop() if len(lengths) == 1 else None


def with_limit(found: CellMeasures, comparisons: int) -> CellMeasures:
    """``found`` with the smallest value of its headline that would have been told from its null with 80 % power.

    Told means what :attr:`CellMeasures.p_value` asks for: records alone exclude guessing at the level that is left for
    one of ``comparisons`` tests (Bonferroni, which Holm's first step is), and so does the interval over trainings at
    its own level, by the quantile that few models leave there.
    """
    tested = found.tested
    if not isinstance(tested, Estimate):
        return found
    half = (tested.high - tested.low) / 2
    alpha = (1 - tested.level) / max(1, comparisons)
    if found.tested_parts:
        error, reach = half / critical(found.tested_parts, tested.level), sharp_reach(found.tested_parts, 1 - alpha)
    else:
        error = half / float(stats.norm.ppf(0.5 + tested.level / 2))
        reach = error * float(stats.norm.ppf(1 - alpha / 2))
    needed = max(half, reach) + float(stats.norm.ppf(POWER)) * error
    if found.headline == "auc":
        # What counts is the error where there is nothing to find; near an AUC of 1 it is much smaller.
        value = min(max(tested.value, 1e-3), 1 - 1e-3)
        needed *= 0.5 / math.sqrt(value * (1 - value))
    null = found.null if found.null is not None else found.tested_null
    limit = min(1.0, null + needed)
    shown = Estimate(limit, limit, limit, n=tested.n, level=tested.level, models=tested.models)
    return replace(found, measures=found.measures | {f"detectable_{found.headline}": shown})
