"""The frozen records that flow through dpeval, and the conventions that hold everywhere.

CONVENTIONS
    * A HIGHER membership score means MORE LIKELY A MEMBER.
    * Scores and log-probabilities are float64 and natural logarithms; ε is in nats.
    * Every array carries record ids and is joined by id, never by position.
    * A number never travels alone: it is an :class:`Estimate`, or an :class:`Undefined` that says why not.
    * "No claim", "undefined", "unfit" and "failed" are different values, and none is ever left out of a report.

>>> Estimate(0.75, 0.70, 0.80, n=400, models=3)
Estimate(value=0.75, low=0.7, high=0.8, n=400, level=0.95, models=3)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Text: TypeAlias = str | tuple[str, str]
Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]


class Access(StrEnum):
    """What a threat model grants the adversary of a trained release."""

    PREDICTIONS = "predictions"
    EMBEDDINGS = "embeddings"
    WEIGHTS = "weights"


# --- numbers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A measured value with its confidence interval ``[low, high]`` at ``level``.

    ``n`` counts the records behind the value (per trained model), ``models`` the trained models.
    Either bound may be infinite; the value lies inside its own interval, which is checked.
    """

    value: float
    low: float
    high: float
    n: int
    level: float = 0.95
    models: int = 1

    def __post_init__(self) -> None:
        if any(math.isnan(x) for x in (self.value, self.low, self.high)):
            raise ValueError(f"an Estimate holds numbers, got {self.value} [{self.low}, {self.high}]; use Undefined")
        if not self.low <= self.value <= self.high:
            raise ValueError(f"the interval [{self.low}, {self.high}] does not contain its own value {self.value}")

    def excludes(self, null: float) -> bool:
        """Whether ``null`` lies outside the interval."""
        return not self.low <= null <= self.high


@dataclass(frozen=True)
class Undefined:
    """A quantity that these data do not define, for instance an AUC of one class."""

    reason: str


Measured: TypeAlias = Estimate | Undefined


# --- data ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Records:
    """Texts with task labels, in a fixed order; all tuples have the same length.

    ``labels`` are class numbers ``0..k-1`` (``-1``: none known in training). ``attributes`` are class numbers of the
    sensitive attribute, ``None`` where a record has none. ``groups`` names near-duplicate groups: records of one group
    never stand on different sides of a split.
    """

    ids: tuple[str, ...]
    texts: tuple[Text, ...]
    labels: tuple[int, ...]
    attributes: tuple[int | None, ...] = ()
    groups: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.ids)
        if not self.attributes:
            object.__setattr__(self, "attributes", (None,) * n)
        if not self.groups:
            object.__setattr__(self, "groups", tuple(range(n)))
        for name in ("texts", "labels", "attributes", "groups"):
            if len(getattr(self, name)) != n:
                raise ValueError(f"Records: {n} ids but {len(getattr(self, name))} {name}")
        if len(set(self.ids)) != n:
            raise ValueError("Records: record ids are not unique")

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, positions: Iterable[int]) -> Records:
        """The records at ``positions``, in that order."""
        at = list(positions)
        return Records(
            ids=tuple(self.ids[i] for i in at),
            texts=tuple(self.texts[i] for i in at),
            labels=tuple(self.labels[i] for i in at),
            attributes=tuple(self.attributes[i] for i in at),
            groups=tuple(self.groups[i] for i in at),
        )

    def by_id(self, ids: Sequence[str]) -> Records:
        """The records named by ``ids``, in that order; KeyError for an unknown id."""
        where = {key: i for i, key in enumerate(self.ids)}
        return self.take(where[key] for key in ids)

    def __add__(self, other: Records) -> Records:
        return Records(
            self.ids + other.ids,
            self.texts + other.texts,
            self.labels + other.labels,
            self.attributes + other.attributes,
            self.groups + other.groups,
        )


@dataclass(frozen=True)
class Note:
    """Something the data preparation did that a reader of the report should know, with how often and to which rows."""

    what: str
    count: int
    ids: tuple[str, ...] = ()
    """At most the first twenty."""


@dataclass(frozen=True)
class Covariate:
    """A text-free column of the pool, aligned with its records: all numbers or all names, ``None`` where missing.

    It makes the baseline of attribute inference that needs no embedding, and nothing else: no defense and no attack is
    given it, and no identity of a training or an attack holds it.
    """

    name: str
    values: tuple[float | None, ...] | tuple[str | None, ...]

    @property
    def is_numeric(self) -> bool:
        """Whether the values are quantities, and not names."""
        return all(isinstance(value, float) for value in self.values if value is not None)


@dataclass(frozen=True)
class Dataset:
    """A cleaned pool of records, before any split."""

    name: str
    records: Records
    label_names: tuple[str, ...]
    attribute_name: str | None = None
    attribute_values: tuple[str, ...] = ()
    test: Records | None = None
    """A test set of the user's own; by default the test part is split off ``records``."""
    notes: tuple[Note, ...] = ()
    fingerprint: str = ""
    """SHA-256 over ids in order, texts, labels, attributes, groups and the test set."""
    covariates: tuple[Covariate, ...] = ()
    """Text-free columns that a baseline of attribute inference knows, each aligned with ``records``."""


@dataclass(frozen=True)
class Split:
    """The pool, divided into roles before anything is trained.

    ``members`` are trained on; ``nonmembers`` come from the same candidates by the same coin; ``auxiliary`` is what an
    adversary may hold; ``test`` measures utility. ``independent_coins`` tells whether each candidate group was included
    by its own fair coin, which one-run audits need (Steinke, Nasr and Jagielski 2023, Theorem 5.2).
    """

    members: Records
    nonmembers: Records
    auxiliary: Records
    test: Records
    independent_coins: bool = True
    planted: Records = Records((), (), ())
    """Canaries that are trained on beside the members; they never count as members, nor in utility."""
    withheld: Records = Records((), (), ())
    """Canaries that are not: each canary is planted or withheld by its own fair coin."""

    @property
    def trained(self) -> Records:
        """Everything that a release is trained on."""
        return self.members + self.planted if len(self.planted) else self.members


# --- what leaves a model -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Predictions:
    """Class log-probabilities, shape ``(n, classes)``, float64, one row per id."""

    ids: tuple[str, ...]
    log_probs: Floats

    def __post_init__(self) -> None:
        if self.log_probs.dtype != np.float64 or self.log_probs.ndim != 2 or len(self.log_probs) != len(self.ids):
            raise ValueError(
                f"Predictions: expected float64 of shape ({len(self.ids)}, classes), "
                f"got {self.log_probs.dtype} {self.log_probs.shape}"
            )


@dataclass(frozen=True, eq=False)
class Embeddings:
    """What a release lets out: record i owns the rows ``values[offsets[i]:offsets[i + 1]]``, float32, width d."""

    ids: tuple[str, ...]
    values: Rows
    offsets: Ints

    def __post_init__(self) -> None:
        if self.values.dtype != np.float32 or self.values.ndim != 2:
            raise ValueError(
                f"Embeddings: expected float32 rows (rows, d), got {self.values.dtype} {self.values.shape}"
            )
        if len(self.offsets) != len(self.ids) + 1 or self.offsets[-1] != len(self.values):
            raise ValueError("Embeddings: offsets do not match ids and rows")

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, i: int) -> Rows:
        """The rows of the i-th record, shape ``(rows, d)``."""
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def pooled(self) -> Floats:
        """The mean row of each record, shape ``(n, d)``, float64; zeros for a record without rows."""
        return np.stack([self.rows(i).mean(axis=0, dtype=np.float64) if len(self.rows(i)) else
                         np.zeros(self.values.shape[1]) for i in range(len(self))])  # fmt: skip


# --- what attacks return -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scores:
    """Membership scores, float64, one per id; higher means more likely a member. Infinite or NaN scores are refused."""

    ids: tuple[str, ...]
    values: Floats

    def __post_init__(self) -> None:
        if self.values.dtype != np.float64 or self.values.shape != (len(self.ids),):
            raise ValueError(
                f"Scores: expected float64 of shape ({len(self.ids)},), got {self.values.dtype} {self.values.shape}"
            )
        bad = int(np.count_nonzero(~np.isfinite(self.values)))
        if bad:
            raise ValueError(
                f"Scores: {bad} of {len(self.ids)} scores are infinite or NaN; an attack returns finite scores"
            )


@dataclass(frozen=True, eq=False)
class Recovered:
    """Token ids guessed for each released row of each record; ``-1`` where the attack gives no answer."""

    ids: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    ranked: tuple[Ints, ...] | None = None
    """The best tokens of each released row of each record, best first, (rows, k), ``-1`` for none; every record has the
    same k. ``None`` where an attack gives one answer for a row, or answers bags."""

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.tokens):
            raise ValueError(f"Recovered: {len(self.ids)} ids but {len(self.tokens)} answers")
        if self.ranked is None:
            return
        rows, shapes = [len(row) for row in self.tokens], [table.shape for table in self.ranked]
        if [shape[0] for shape in shapes] != rows or len({shape[1:] for shape in shapes}) > 1:
            raise ValueError(f"Recovered: expected ranked tables (rows, k) for {rows[:5]} rows, got {shapes[:5]}")


@dataclass(frozen=True, eq=False)
class Inferred:
    """Scores of each attribute value, shape ``(n, values)``, float64; the answer is the argmax."""

    ids: tuple[str, ...]
    scores: Floats

    def __post_init__(self) -> None:
        if self.scores.dtype != np.float64 or self.scores.ndim != 2 or len(self.scores) != len(self.ids):
            raise ValueError(
                f"Inferred: expected float64 of shape ({len(self.ids)}, values), "
                f"got {self.scores.dtype} {self.scores.shape}"
            )
        if not np.isfinite(self.scores).all():
            raise ValueError("Inferred: infinite or NaN scores")


AttackResult: TypeAlias = Scores | Recovered | Inferred


# --- claims --------------------------------------------------------------------------------------------------------


class Unit(StrEnum):
    """What a differential-privacy claim protects one of."""

    RECORD = "record"
    SEQUENCE = "sequence"
    TOKEN = "token"  # noqa: S105 - a unit of text


class Trust(StrEnum):
    """Who sees clear data: a trusted trainer (central), nobody but the user (local), or a trusted shuffler."""

    CENTRAL = "central"
    LOCAL = "local"
    SHUFFLED = "shuffled"


class Adjacency(StrEnum):
    """Which pairs of inputs the claim makes indistinguishable."""

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"
    ANY_TWO_INPUTS = "any-two-inputs"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A differential-privacy guarantee as stated by a defense; whether it stands is judged elsewhere.

    Two claims are comparable only when ``unit``, ``trust`` and ``adjacency`` agree: see :attr:`kind`.
    """

    epsilon: float
    delta: float
    unit: Unit
    trust: Trust
    adjacency: Adjacency
    mechanism: str
    accountant: str
    sampling: str = "none"
    scope: str
    """What is covered, in one sentence."""
    excludes: tuple[str, ...] = ()
    """What is not covered, each in a few words."""
    details: tuple[tuple[str, float | int | str], ...] = ()
    """The numbers behind ε: σ, sampling rate, steps, releases, sensitivity …, as (name, value)."""

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise ValueError(f"Claim: expected epsilon >= 0, got {self.epsilon}")
        if not 0 <= self.delta <= 1:
            raise ValueError(f"Claim: expected 0 <= delta <= 1, got {self.delta}")

    @property
    def kind(self) -> tuple[str, str, str]:
        """``(unit, trust, adjacency)``: only claims of one kind may share a column or be sorted together."""
        return (self.unit.value, self.trust.value, self.adjacency.value)

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.4g} per {self.unit}, {self.trust}, {self.adjacency}, δ = {self.delta:.1e}"


@dataclass(frozen=True)
class NoClaim:
    """The defense promises nothing that could be tested."""

    reason: str = "no formal guarantee is claimed"


PrivacyClaim: TypeAlias = Claim | NoClaim


# --- outcomes of a cell --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unfit:
    """The combination makes no sense or cannot be run; decided before training."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """The work raised; the rest of the matrix went on."""

    message: str
    where: str = ""


@dataclass(frozen=True)
class Cost:
    """What training a release took: wall seconds, processor seconds, and peak memory above the start, in bytes."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    trained_parameters: int = 0
    extra: tuple[tuple[str, float | int | str], ...] = field(default=())
