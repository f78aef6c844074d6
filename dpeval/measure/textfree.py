"""The strongest guess at an attribute that covariates allow: what an attack has to beat to have read an embedding.

Jayaraman and Evans (2022, arXiv:2209.01292): an attribute that is imputed from what is known anyway is no leak. Linear
models and small boosted trees compete on auxiliary records, groups kept together; what does best there guesses.

>>> age = Covariate("age", (20.0, 30.0, None, 41.0, 20.0, 33.0, 40.0, 44.0, 21.0, 31.0, 42.0, 43.0))
>>> old = np.array([0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1])
>>> asked = Covariate("age", (19.0, 50.0))
>>> fit_guess([age], old, groups=np.arange(12)).balanced([asked]).tolist()
[0, 1]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from dpeval.types import Covariate, Floats, Ints

FOLDS = 3
FEW = 12
"""A quantity with at most so many values is told to the linear model as names, too."""
MOST_NAMES = 300
"""Names of a covariate that have a column of their own at most: the commonest, each in two records at least."""
Maker: TypeAlias = Callable[[], Any]


def _linear(strength: float) -> Maker:
    return lambda: make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=2000))


def _trees(leaves: int) -> Maker:
    return lambda: HistGradientBoostingClassifier(
        max_iter=40, learning_rate=0.15, max_leaf_nodes=leaves, min_samples_leaf=8, l2_regularization=1.0,
        early_stopping=False, random_state=0,
    )  # fmt: skip


CANDIDATES: tuple[tuple[str, Maker], ...] = (
    *((f"linear, C = {c:g}", _linear(c)) for c in (0.01, 0.1, 1.0)),
    *((f"trees of {n} leaves", _trees(n)) for n in (3, 8)),
)
"""Names and makers, the simpler first: a tie goes to the simpler."""


@dataclass(frozen=True, eq=False)
class Guess:
    """A fitted guess. ``name`` says which model won, ``shares`` how common each of ``classes`` is."""

    name: str
    layout: tuple[_Column, ...]
    model: Any
    classes: Ints
    shares: Floats

    def balanced(self, covariates: Sequence[Covariate]) -> Ints:
        """The likeliest value of each record if all values were equally common, shape ``(n,)``."""
        return self._best(covariates, np.zeros(len(self.classes)))

    def plain(self, covariates: Sequence[Covariate]) -> Ints:
        """The likeliest value of each record, common values being likelier: the guess to make for accuracy."""
        return self._best(covariates, np.log(self.shares))

    def _best(self, covariates: Sequence[Covariate], prior: Floats) -> Ints:
        chances = self.model.predict_proba(_matrix(self.layout, covariates))
        found: Ints = self.classes[(np.log(np.maximum(chances, 1e-300)) + prior).argmax(axis=1)]
        return found


def fit_guess(covariates: Sequence[Covariate], values: Ints, groups: Ints) -> Guess:
    """The candidate with the best grouped cross-validated balanced accuracy, fitted on all these records.

    ``values`` and ``groups`` have shape ``(n,)``, n at least 1. Where most values have one record
    only, the commonest is guessed.
    """
    layout = tuple(_Column.of(one) for one in covariates)
    features = _matrix(layout, covariates)
    classes, counts = np.unique(values, return_counts=True)
    shares = counts / counts.sum()
    if len(classes) < 2 or not learnable(values).all():
        constant = DummyClassifier(strategy="prior").fit(features[:1], values[:1])
        return Guess("constant", layout, constant, classes[[counts.argmax()]], np.ones(1))
    folds = deal(values, groups)
    scores = [_cross_validated(make, features, values, folds) for _, make in CANDIDATES]
    name, make = CANDIDATES[int(np.argmax(np.round(scores, 9)))]
    return Guess(name, layout, _fitted(make, features, values), classes, shares)


def learnable(values: Ints) -> NDArray[np.bool_]:
    """Which rows to learn from: all, or where most values have one row only, those whose value has several.

    scikit-learn takes labels that hardly repeat for quantities.
    """
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    if 2 * len(counts) <= len(values):
        return np.ones(len(values), dtype=np.bool_)
    return np.asarray(counts[at] > 1)


def deal(values: Ints, groups: Ints) -> Ints:
    """A fold number for each row: whole groups, dealt out value by value; drawn with a fixed seed."""
    names, first = np.unique(groups, return_index=True)
    order = np.random.default_rng(len(names)).permutation(len(names))
    order = order[np.argsort(values[first[order]], kind="stable")]
    fold_of = np.empty(len(names), dtype=np.int64)
    fold_of[order] = np.arange(len(names)) % FOLDS
    folds: Ints = fold_of[np.searchsorted(names, groups)]
    return folds


def _cross_validated(make: Maker, features: Floats, values: Ints, folds: Ints) -> float:
    """Balanced accuracy of the answers to held-out rows, pooled over the folds."""
    right = np.zeros(len(values))
    for fold in range(FOLDS):
        inside, outside = folds != fold, folds == fold
        kept = inside.copy()
        kept[inside] = learnable(values[inside])
        if outside.any() and len(np.unique(values[kept])) > 1:
            right[outside] = _fitted(make, features[kept], values[kept]).predict(features[outside]) == values[outside]
    return float(np.mean([right[values == value].mean() for value in np.unique(values)]))


def _fitted(make: Maker, features: Floats, values: Ints) -> Any:
    model = make()
    weight = compute_sample_weight("balanced", values)
    step = {"logisticregression__sample_weight": weight} if hasattr(model, "steps") else {"sample_weight": weight}
    return model.fit(features, values, **step)


@dataclass(frozen=True)
class _Column:
    """How one covariate becomes columns; everything that is learnt comes from the adversary's own records."""

    names: tuple[str | float, ...]
    middle: float | None

    @classmethod
    def of(cls, one: Covariate) -> _Column:
        known = [value for value in one.values if value is not None]
        found, counts = np.unique(np.array(known, dtype=np.float64 if one.is_numeric else object), return_counts=True)
        order = np.argsort(-counts, kind="stable")[:MOST_NAMES]
        names = tuple(found[i] for i in sorted(order) if counts[i] > 1)
        if not one.is_numeric:
            return cls(names, None)
        return cls(names if len(found) <= FEW else (), float(np.median(np.array(known))) if known else 0.0)

    def columns(self, one: Covariate) -> Floats:
        """Whether it is missing, whether it is each of the names, and the quantity with the median where missing."""
        missing = np.array([value is None for value in one.values], dtype=np.float64)[:, None]
        said = np.array([[value == name for name in self.names] for value in one.values], dtype=np.float64)
        blocks = [missing, said.reshape(len(one.values), len(self.names))]
        if self.middle is not None:
            numbers = [value if isinstance(value, float) else self.middle for value in one.values]
            blocks.append(np.array(numbers, dtype=np.float64)[:, None])
        return np.hstack(blocks)


def _matrix(layout: Sequence[_Column], covariates: Sequence[Covariate]) -> Floats:
    return np.hstack([column.columns(one) for column, one in zip(layout, covariates, strict=True)])
