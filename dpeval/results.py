"""What a run found, as frozen records: the one source of the JSON file, the table and every report.

Nothing here is computed; :mod:`dpeval.collect` fills it and :mod:`dpeval.report` renders it.

>>> to_json(Undefined("one class"))
{'value': None, 'undefined': 'one class'}
>>> measured_from_json(to_json(Estimate(0.5, 0.4, 0.6, n=10)))
Estimate(value=0.5, low=0.4, high=0.6, n=10, level=0.95, models=1)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dpeval.types import Cost, Estimate, Measured, NoClaim, Note, PrivacyClaim, Undefined

SCHEMA = "dpeval/run/2"


class Status(StrEnum):
    """How a cell or a defense ended. None is ever left out of a report."""

    OK = "ok"
    INVALID = "invalid"
    """The blind attacker, which never sees the model, wins on this audit set: the number means nothing."""
    NOT_VALIDATED = "attack not validated"
    """The attack did not break its positive control (or broke its negative control): its failure means nothing."""
    UNFIT = "unfit"
    FAILED = "failed"


class Ruling(StrEnum):
    """What the measurements say of a claim."""

    REFUTED = "refuted"
    CONSISTENT = "consistent"
    UNTESTABLE = "untestable"
    NO_CLAIM = "no claim"


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """A data set after cleaning, and how its records were divided."""

    name: str
    fingerprint: str
    records: int
    roles: Mapping[str, int]
    """How many records each role has in the first seed's split."""
    labels: Mapping[str, int]
    attribute: str | None = None
    attribute_values: int = 0
    attribute_records: int = 0
    notes: tuple[Note, ...] = ()
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The smallest and the largest size of each role over the seeds, since each draws its own split."""


@dataclass(frozen=True, kw_only=True)
class ModelSummary:
    """A public checkpoint and what was done to use it."""

    name: str
    fingerprint: str
    parameters: int
    max_length: int
    pooling: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the measurements say of a claim, with the numbers behind it."""

    ruling: Ruling
    reading: str
    """One or two plain sentences."""
    bound: float | None = None
    """The empirical lower bound on ε at ``level``."""
    claimed: float | None = None
    ceiling: float | None = None
    """The lower bound that this experiment would have given, had every guess been right: only claims below it can be
    refuted here, whatever the defense does."""
    smallest_refutable: float | None = None
    """The detection limit: the smallest true ε at which the best possible attack would have refuted this claim here
    with 80 % power; infinite where nothing would have."""
    level: float = 0.95
    method: str = ""


@dataclass(frozen=True, kw_only=True)
class DefenseResult:
    """One defense on one data set and model, over all seeds."""

    label: str
    use: str
    data: str
    model: str
    source: str
    settings: Mapping[str, Any]
    status: Status
    reason: str = ""
    claim: PrivacyClaim
    """The weakest claim over the seeds."""
    verdict: Verdict
    utility: Measured
    """Accuracy on the test part."""
    train_accuracy: Measured
    cost: Cost | None = None
    """Mean over the seeds; the peak is the largest."""
    dominated_by: str | None = None
    """Another defense of this data and model that leaked no more by every measure and is strictly better in one."""
    warnings: tuple[str, ...] = ()
    diagnostics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AttackSummary:
    """An attack as the matrix names it, for the glossary: what its adversary has and does."""

    label: str
    use: str
    goal: str
    access: str
    source: str
    story: str = ""
    """The first paragraph of the plug-in's docstring."""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RecordRisk:
    """How much one member is exposed by one attack, over the seeds whose models were trained on it."""

    id: str
    excess: float
    """Its score above the median non-member, in their standard deviations; less its own where it was a non-member."""
    p: float
    """The chance that a non-member scores as high: for one record named beforehand, not for the worst of many."""
    models: int
    text: str | None = None
    """Only in a report that was asked to show texts; never stored by a run."""


@dataclass(frozen=True, kw_only=True)
class PairedResult:
    """Two defenses under one attack, or on accuracy: the difference over the same seeds and records."""

    data: str
    model: str
    attack: str | None
    """``None``: accuracy on the test part."""
    tap: str | None
    measure: str
    first: str
    second: str
    difference: Measured
    """First minus second."""
    p_value: float | None = None
    p_holm: float | None = None
    """Adjusted for all paired comparisons of the run (Holm 1979)."""
    differs: bool = False


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """One attack on one defense at one tap, over all seeds."""

    defense: str
    attack: str
    goal: str
    tap: str | None
    data: str
    model: str
    status: Status
    reason: str = ""
    measures: Mapping[str, Measured] = field(default_factory=dict)
    headline: str = ""
    """The name of the measure that the matrix shows."""
    null: float | None = None
    """The value of the headline measure that an attacker without skill reaches."""
    p_value: float | None = None
    p_holm: float | None = None
    """Adjusted for all cells of the run (Holm 1979)."""
    distinguishable: str = "insufficient"
    """Whether the headline differs from its baseline after the adjustment: yes, no, or insufficient."""
    reading: str = ""
    """One plain sentence that says what the number means, and what it does not."""
    warnings: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()
    """Ids of the most exposed records, most exposed first."""
    risks: tuple[RecordRisk, ...] = ()
    """The same records with what is known of each."""
    roc: tuple[tuple[float, float], ...] = ()
    """For membership: (FPR, TPR) at FPRs evenly spaced in their logarithm, each the mean over the seeds."""
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class ControlResult:
    """Whether an attack breaks what it must break and spares what it must spare, on these data."""

    attack: str
    goal: str
    tap: str | None
    data: str
    model: str
    positive: Measured
    negative: Measured
    measure: str
    null: float | None
    validated: bool
    reason: str
    models: tuple[int, int] = (1, 1)
    """On how many models, one for each seed, either control was tried; the value is that of the one that did worst."""


@dataclass(frozen=True, kw_only=True)
class BlindResult:
    """The attacker that never sees the model, on the membership audit set of one data set."""

    data: str
    auc: Measured
    invalid: bool
    reading: str


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What made this run; nothing that changes between two identical runs but ``created`` and ``seconds``."""

    dpeval: str
    python: str
    platform: str
    packages: Mapping[str, str]
    matrix_file: str
    matrix_sha256: str
    matrix_text: str
    seeds: tuple[int, ...]
    command: str
    created: str
    seconds: float
    jobs: int
    threads: int
    device: str
    git: str | None = None
    trials: Mapping[str, int] = field(default_factory=dict)
    """For each data set: how many distinct trainings this run folder has seen; ε excludes tuning on private data."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A whole run."""

    name: str
    status: str
    """complete, partial (something failed) or smoke (a limited run whose numbers must not be quoted)."""
    note: str
    data: tuple[DataSummary, ...]
    models: tuple[ModelSummary, ...]
    defenses: tuple[DefenseResult, ...]
    cells: tuple[CellResult, ...]
    controls: tuple[ControlResult, ...]
    blind: tuple[BlindResult, ...]
    utility_baseline: Mapping[str, float]
    """For each data set: the accuracy of always answering the majority class of the members."""
    provenance: Provenance
    attacks: tuple[AttackSummary, ...] = ()
    level: float = 0.95
    comparisons: int = 0
    """How many cells the Holm adjustment covers."""
    paired: tuple[PairedResult, ...] = ()
    """Each two defenses under each attack and on accuracy; adjusted for their own number (Holm 1979)."""


def to_json(value: Any) -> Any:
    """``value`` as JSON material: an :class:`Undefined` is null with its reason; an infinite number becomes a text."""
    if isinstance(value, Undefined):
        return {"value": None, "undefined": value.reason}
    if isinstance(value, NoClaim):
        return {"no_claim": value.reason}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("infinity" if value > 0 else "-infinity")
    return value


def measured_from_json(value: Mapping[str, Any]) -> Measured:
    """The inverse of :func:`to_json` for a measured value."""
    if "undefined" in value:
        return Undefined(value["undefined"])
    return Estimate(**{k: _number(v) for k, v in value.items()})


def _number(value: Any) -> Any:
    return {"infinity": math.inf, "-infinity": -math.inf}.get(value, value) if isinstance(value, str) else value
