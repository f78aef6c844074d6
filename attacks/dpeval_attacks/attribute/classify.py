"""The adversary's classifier: standardised features, a linear or small neural model, its strength chosen by itself.

Everything that is fitted, the scaler too, is fitted on the adversary's own records.

>>> rng = np.random.default_rng(0)
>>> labels = np.arange(60) % 3
>>> features = np.eye(3)[labels] + 0.1 * rng.standard_normal((60, 3))
>>> lesson = Lesson(features, labels, groups=np.arange(60))
>>> fitted = fit_classifier(lesson, "logistic", balanced=True, rng=rng)
>>> bool(np.all(fitted.log_probs(np.eye(3), 4).argmax(axis=1) == [0, 1, 2]))
True
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from dpeval.types import Floats, Ints

Model: TypeAlias = Literal["logistic", "mlp", "knn"]
MODELS: tuple[Model, ...] = ("logistic", "mlp", "knn")
STRENGTHS: dict[Model, tuple[float, ...]] = {
    "logistic": (1e-3, 1e-2, 1e-1, 1.0),
    "mlp": (1.0, 10.0),
    "knn": (1.0, 5.0, 15.0, 45.0),
}
"""Tried by cross-validation: inverse penalty of the linear model, weight decay of the neural one, neighbours."""
FOLDS = 3
_OWN_VOTE = 0.5
LOWEST = -700.0
"""Log-probabilities are raised to this: about the logarithm of the smallest number that a float holds."""
MISSING = -1000.0
"""The score of a value that the adversary has not seen, or not often enough to learn: below every value that it has."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """Training rows: ``features`` (n, d), ``labels`` (n,), and ``groups`` (n,) that a fold never splits."""

    features: Floats
    labels: Ints
    groups: Ints

    def where(self, keep: NDArray[np.bool_]) -> Lesson:
        """The rows that ``keep`` marks."""
        return Lesson(self.features[keep], self.labels[keep], self.groups[keep])

    def repeated(self) -> Lesson:
        """All rows; or where most labels have one row only, the rows of the others.

        One row says nothing of its class, and scikit-learn takes labels that hardly repeat for quantities.
        """
        _, at, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        return self if 2 * len(counts) <= len(at) else self.where(np.asarray(counts[at] > 1))


@dataclass(frozen=True, eq=False)
class Classifier:
    """A fitted pipeline, or only the class shares where there was one class."""

    shares: Floats
    """Share of each class among the training rows, shape ``(classes seen,)``."""
    classes: Ints
    pipeline: Any

    def log_probs(self, features: Floats, values: int) -> Floats:
        """Log-probability of each of ``values`` classes, shape ``(n, values)``, finite; shares for a broken row."""
        scores = np.full((len(features), values), MISSING)
        seen = np.tile(np.log(self.shares), (len(features), 1))
        good = np.isfinite(features).all(axis=1)
        if self.pipeline is not None and good.any():
            seen[good] = _log_probabilities(self.pipeline, features[good])
        scores[:, self.classes] = np.maximum(seen, LOWEST)
        return scores


def fit_classifier(lesson: Lesson, model: Model, *, balanced: bool, rng: np.random.Generator) -> Classifier:
    """The classifier with the strength that cross-validates best, fitted on the whole ``lesson``.

    ``balanced`` weighs classes alike however often they occur. One class alone gives constant scores, and so do classes
    of which none has two rows.
    """
    lesson = lesson.repeated() if len(lesson.repeated().labels) else lesson
    classes, counts = np.unique(lesson.labels, return_counts=True)
    shares = counts / counts.sum()
    if len(classes) < 2 or counts.max() < 2:
        return Classifier(shares, classes, None)
    seed = int(rng.integers(2**31))
    folds = assign_folds(lesson, rng)
    losses = [_held_out_loss(lesson, folds, model, s, balanced, seed) for s in STRENGTHS[model]]
    strength = STRENGTHS[model][int(np.argmin(losses))]
    return Classifier(shares, classes, _fit(lesson, model, strength, balanced, seed))


def assign_folds(lesson: Lesson, rng: np.random.Generator) -> Ints:
    """A fold number for each row: whole groups, dealt out class by class in random order."""
    names, first = np.unique(lesson.groups, return_index=True)
    order = rng.permutation(len(names))
    order = order[np.argsort(lesson.labels[first[order]], kind="stable")]
    fold_of = np.empty(len(names), dtype=np.int64)
    fold_of[order] = np.arange(len(names)) % FOLDS
    folds: Ints = fold_of[np.searchsorted(names, lesson.groups)]
    return folds


def _held_out_loss(lesson: Lesson, folds: Ints, model: Model, strength: float, balanced: bool, seed: int) -> float:
    """Mean weighted log-loss over the folds; rows of a class that their fold's training part lacks are left out."""
    total = weights = 0.0
    for fold in range(FOLDS):
        inside, outside = lesson.where(folds != fold).repeated(), lesson.where(folds == fold)
        classes = np.unique(inside.labels)
        outside = outside.where(np.isin(outside.labels, classes))
        if len(classes) < 2 or not len(outside.labels):
            continue
        log_probs = _log_probabilities(_fit(inside, model, strength, balanced, seed), outside.features)
        at = np.searchsorted(classes, outside.labels)
        weight = _weights(outside.labels, balanced)
        total -= float(weight @ np.maximum(log_probs[np.arange(len(at)), at], LOWEST))
        weights += float(weight.sum())
    return total / weights if weights else 0.0


def _fit(lesson: Lesson, model: Model, strength: float, balanced: bool, seed: int) -> Any:
    if model == "knn":
        return _Neighbours.of(lesson, round(strength), balanced)
    pipeline = Pipeline([("scale", StandardScaler()), ("model", _estimator(model, strength, seed))])
    with warnings.catch_warnings():
        # Stopping short of convergence regularises; cross-validation has judged the very same number of iterations.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return pipeline.fit(lesson.features, lesson.labels, model__sample_weight=_weights(lesson.labels, balanced))


def _estimator(model: Model, strength: float, seed: int) -> Any:
    if model == "logistic":
        return LogisticRegression(C=strength, max_iter=1000)
    return MLPClassifier((64,), solver="lbfgs", alpha=strength, max_iter=60, random_state=seed)


@dataclass(frozen=True, eq=False)
class _Neighbours:
    """The ``k`` nearest training rows vote, each with its weight; every class has a small vote of its own at first.

    scikit-learn's classifier takes no weights, without which the commonest class wins wherever noise is strong.
    """

    scale: StandardScaler
    index: NearestNeighbors
    at: Ints
    weights: Floats
    classes: int

    @classmethod
    def of(cls, lesson: Lesson, k: int, balanced: bool) -> _Neighbours:
        classes, at = np.unique(lesson.labels, return_inverse=True)
        scale = StandardScaler().fit(lesson.features)
        index = NearestNeighbors(n_neighbors=min(k, len(at))).fit(scale.transform(lesson.features))
        return cls(scale, index, at, _weights(lesson.labels, balanced), len(classes))

    def predict_log_proba(self, features: Floats) -> Floats:
        near = self.index.kneighbors(self.scale.transform(features), return_distance=False)
        votes = np.full((len(features), self.classes), _OWN_VOTE)
        np.add.at(votes, (np.arange(len(features))[:, None], self.at[near]), self.weights[near])
        found: Floats = np.log(votes / votes.sum(axis=1, keepdims=True))
        return found


def _weights(labels: Ints, balanced: bool) -> Floats:
    weights: Floats = compute_sample_weight("balanced" if balanced else None, labels)
    return weights


def _log_probabilities(pipeline: Any, features: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        found: Floats = pipeline.predict_log_proba(features)
    return found
