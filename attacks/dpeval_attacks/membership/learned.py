"""A classifier that learns from shadow releases what the answer about a training record looks like.

>>> features(np.log([[0.7, 0.2, 0.1]]), np.array([1])).round(2).tolist()
[[-0.36, -1.61, -2.3, -1.39, -1.61, -0.8, -2.14, -1.25, 0.0]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpeval.plugin import Context, Knowledge, MembershipAttack, PredictionView
from dpeval.types import Floats, Ints, Records, Scores
from dpeval_attacks.draws import check_queries
from dpeval_attacks.membership.references import ask, check_shadows, masked_mean
from dpeval_attacks.membership.signals import FLOOR, Signal, signal_values

Learner: TypeAlias = Literal["logistic", "boosting"]
READ: tuple[Signal, ...] = ("confidence", "loss", "entropy", "modified-entropy", "margin")
LARGEST = 50.0
"""Features are cut off here: log-odds beyond ± 50 tell a learner no more, and would pull its scale apart."""
CLASSES_SHOWN = 10
"""The largest sorted log-probabilities that the learner sees."""


@dataclass(frozen=True, kw_only=True)
class LearnedAttack(MembershipAttack):
    """An adversary that lets a classifier find out what gives training records away.

    It has the candidates with their labels, black-box access, and shadow releases of the same defense whose training
    records it knows. From each answer it takes the sorted log-probabilities and the signals of the threshold attack;
    with ``calibrated`` also how far each signal lies above the average of the shadows that were not trained on the
    record. A classifier (``learner``: logistic regression or gradient boosting) learns from the shadows' answers which
    records were trained on. It is cross-fitted: what it says of a candidate's answer by the target was learnt from the
    shadows' answers about other candidates. ``queries`` asks a randomised release so many times and averages.
    """

    source: ClassVar[str] = "Shokri et al. 2017, arXiv:1610.05820, §V; Salem et al. 2019, arXiv:1806.01246"

    shadows: int = 16
    learner: Learner = "logistic"
    calibrated: bool = True
    folds: int = 5
    queries: int = 1

    def __post_init__(self) -> None:
        check_shadows(self.shadows)
        check_queries(self.queries)
        if self.folds < 2:
            raise ValueError(f"folds: expected at least 2, got {self.folds}")

    def score(self, view: PredictionView, candidates: Records, knowledge: Knowledge, ctx: Context) -> Scores:
        """One score per candidate: the log-odds that the classifier gives; ValueError for an unknown label."""
        del knowledge
        found = ask(view, ctx.shadows(self.shadows), candidates, self.queries)
        shadows = np.stack([features(answer, found.labels) for answer in found.shadows])
        target = features(found.target, found.labels)
        if self.calibrated:
            shadows, target = above_others(shadows, target, found.inside)
        seed = int(ctx.rng("learner").integers(2**31))
        folds = ctx.rng("folds").permutation(len(candidates)) % min(self.folds, len(candidates))
        values = np.empty(len(candidates))
        for fold in ctx.progress(range(int(folds.max()) + 1), "learning"):
            here = folds == fold
            if not here.any():
                continue
            rows, truth = shadows[:, ~here].reshape(-1, shadows.shape[2]), found.inside[:, ~here].reshape(-1)
            values[here] = learnt(self.learner, rows, truth, target[here], seed)
        return Scores(candidates.ids, values)


def features(log_probs: Floats, labels: Ints) -> Floats:
    """What a learner sees of each answer, shape ``(n, features)``, finite.

    The largest log-probabilities in order, the signals of :data:`READ`, and whether the true class is the likeliest.
    """
    signals = [signal_values(name, log_probs, labels) for name in READ]
    ordered = -np.sort(-np.maximum(log_probs, FLOOR), axis=1)[:, :CLASSES_SHOWN]
    right = (log_probs.argmax(axis=1) == labels).astype(np.float64)
    out: Floats = np.clip(np.column_stack([ordered, *signals, right]), -LARGEST, LARGEST)
    return out


def above_others(shadows: Floats, target: Floats, inside: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Features with, beside them, how far they lie above the mean of *other* shadows not trained on the record.

    ``shadows`` ``(m, n, f)`` and ``target`` ``(n, f)`` come back twice as wide. A shadow is compared with the other
    pairs: its own partner was trained on just what it was not, which no target's shadows are. Where none is left the
    difference is 0.
    """
    out = (~inside).astype(np.float64)[:, :, None]
    pairs = np.arange(len(shadows)) // 2
    other = (pairs[:, None] != pairs[None, :]).astype(np.float64)
    sums, count = np.tensordot(other, out * shadows, axes=1), np.tensordot(other, out, axes=1)
    rest = np.where(count > 0, sums / np.maximum(count, 1), shadows)
    mean = np.stack([masked_mean(shadows[:, :, k], ~inside) for k in range(shadows.shape[2])], axis=1)
    mean = np.where(np.isnan(mean), target, mean)
    return np.concatenate([shadows, shadows - rest], axis=2), np.concatenate([target, target - mean], axis=1)


def learnt(learner: Learner, rows: Floats, truth: NDArray[np.bool_], asked: Floats, seed: int) -> Floats:
    """Log-odds of "was trained on" for the rows ``asked``, from a classifier fitted on ``rows``; zeros for one class.

    Scaling is fitted on ``rows`` alone: what is asked about changes nothing for the other questions.
    """
    if truth.all() or not truth.any():
        return np.zeros(len(asked))
    model = _model(learner, seed).fit(rows, truth)
    scores: Floats = np.asarray(model.decision_function(asked), dtype=np.float64)
    return scores if bool(model.classes_[1]) else -scores


def _model(learner: Learner, seed: int) -> Any:
    if learner == "boosting":
        return HistGradientBoostingClassifier(
            max_iter=150, learning_rate=0.05, l2_regularization=1.0, random_state=seed
        )
    return make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=2000))
