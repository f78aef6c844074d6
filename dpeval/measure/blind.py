"""The blind attacker: tells members from non-members by their texts alone, never having met a model.

Where it succeeds, members and non-members are different kinds of text, and no attack on that audit set says anything
about the model (Das et al. 2024; Meeus et al. 2024). It runs on every audit set.

>>> texts = [f"alpha beta {i}" for i in range(60)] + [f"gamma delta {i}" for i in range(60)]
>>> run = BlindRun(tuple(map(str, range(120))), tuple(texts), np.arange(120) < 60)
>>> measure_blind([run]).invalid
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dpeval.measure.halves import unit_names
from dpeval.measure.influence import auc_part
from dpeval.measure.intervals import estimate
from dpeval.measure.membership import MembershipRun
from dpeval.measure.roc import OneClassError
from dpeval.measure.textfeatures import TextCounts, count_texts, fit_reader
from dpeval.types import Estimate, Floats, Ints, Measured, Text, Undefined

TOLERANCE = 0.02
"""How far above 0.5 the blind attacker's interval may begin before an audit set is invalid."""

_FOLDS = 5


@dataclass(frozen=True, eq=False)
class BlindRun:
    """One audit set as an adversary without a model sees it: texts, task labels and the truth, joined by record id."""

    ids: tuple[str, ...]
    texts: tuple[Text, ...]
    is_member: NDArray[np.bool_]
    labels: tuple[int, ...] | None = None
    groups: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.texts) == len(self.is_member):
            raise ValueError(f"BlindRun: {len(self.ids)} ids, {len(self.texts)} texts, {len(self.is_member)} labels")


@dataclass(frozen=True, eq=False)
class Blind:
    """The blind attacker's AUC, whether it invalidates the audit set, and its scores for paired comparisons."""

    auc: Measured
    invalid: bool
    reason: str
    runs: tuple[MembershipRun, ...] = ()


def measure_blind(
    runs: Sequence[BlindRun], *, tolerance: float = TOLERANCE, seed: int = 0, level: float = 0.95
) -> Blind:
    """Attack each audit set blindly, cross-fitted by group; invalid where the interval begins above 0.5 + tolerance."""
    pool = _Pool.of(runs)
    try:
        scored = tuple(_score(run, pool, seed) for run in runs)
        auc = estimate([auc_part(r.scores, r.is_member, r.units) for r in scored], level=level)
    except OneClassError as error:
        return Blind(Undefined(str(error)), invalid=False, reason=str(error))
    return Blind(auc, auc.low > 0.5 + tolerance, _reason(auc, tolerance), scored)


def _reason(auc: Estimate, tolerance: float) -> str:
    shown = f"AUC {auc.value:.3f} [{auc.low:.3f}, {auc.high:.3f}]"
    if auc.low > 0.5 + tolerance:
        return f"INVALID: texts alone tell members from non-members ({shown}); what an attack finds here may be that"
    return f"texts alone do not tell members from non-members ({shown})"


@dataclass(frozen=True, eq=False)
class _Pool:
    """Counts of all distinct records of all runs, made once."""

    row: dict[str, int]
    counts: TextCounts

    @classmethod
    def of(cls, runs: Sequence[BlindRun]) -> _Pool:
        texts: dict[str, Text] = {}
        label: dict[str, int] = {}
        for run in runs:
            texts.update(zip(run.ids, run.texts, strict=True))
            label.update(zip(run.ids, run.labels or (0,) * len(run.ids), strict=True))
        one_hot = np.eye(max(label.values(), default=0) + 2)[list(label.values())]
        return cls({key: i for i, key in enumerate(texts)}, count_texts(list(texts.values()), one_hot))


def _score(run: BlindRun, pool: _Pool, seed: int) -> MembershipRun:
    counts = pool.counts.take(np.array([pool.row[key] for key in run.ids], dtype=np.int64))
    scores = blind_scores(counts, run.is_member, unit_names(run.ids, run.groups), seed)
    return MembershipRun(run.ids, scores, np.asarray(run.is_member, dtype=np.bool_), run.groups)


def blind_scores(counts: TextCounts, is_member: NDArray[np.bool_], units: Sequence[str], seed: int) -> Floats:
    """Out-of-fold scores in (0, 1), shape ``(n,)``: the rank of each record within its fold.

    Ranks, because each fold has its own model: raw scores of different folds are shifted against each other, which
    under the null pushes the pooled AUC below 0.5.
    """
    folds = _folds(units, seed)
    truth = np.asarray(is_member, dtype=np.int64)
    if len(np.unique(truth)) < 2:
        raise OneClassError("undefined (one class): the audit set holds only members or only non-members")
    out = np.full(len(truth), 0.5)
    for fold in range(_FOLDS):
        rest, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if not len(held) or len(np.unique(truth[rest])) < 2:
            continue
        found = fit_reader(counts.take(rest), truth[rest]).scores(counts.take(held))
        out[held] = (rankdata(found[:, 1] - found[:, 0]) - 0.5) / len(held)
    return out


def _folds(units: Sequence[str], seed: int) -> Ints:
    names = sorted(set(units))
    place = np.random.default_rng(seed).permutation(len(names)) % _FOLDS
    fold = dict(zip(names, place.tolist(), strict=True))
    return np.array([fold[unit] for unit in units], dtype=np.int64)
