"""Reading texts without any model: word, character and style counts, and a logistic regression on them.

For attackers that must not need a model to win (the blind baseline), and for the ceiling that the raw text itself sets.

>>> counts = count_texts(["a good film", "a bad film!", "good fun", "bad luck!"])
>>> reader = fit_reader(counts, np.array([1, 0, 1, 0]))
>>> reader.scores(counts).argmax(axis=1).tolist()
[1, 0, 1, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from dpeval.types import Floats, Ints, Text

_MARKS = ".,;:!?'\"()-"


@dataclass(frozen=True, eq=False)
class TextCounts:
    """Raw counts; nothing is fitted but the list of columns. ``grams`` sparse ``(n, columns)``, ``style`` dense."""

    grams: sparse.csr_matrix
    style: Floats

    def take(self, rows: NDArray[np.int64]) -> TextCounts:
        """The records at ``rows``, in that order."""
        return TextCounts(self.grams[rows], self.style[rows])


def count_texts(texts: Sequence[Text], extra: ArrayLike | None = None) -> TextCounts:
    """Words and pairs of words, character 3- and 4-grams within words, and style.

    Style is the number of words and characters, capitals, digits, repeated words and each punctuation mark;
    ``extra`` of shape ``(n,)`` or ``(n, k)`` is added to it.
    """
    flat = [text if isinstance(text, str) else " ¦ ".join(text) for text in texts]
    blocks = [_grams(flat, "word"), _grams(flat, "char_wb")]
    style = np.array([_style(text) for text in flat], dtype=np.float64).reshape(len(flat), -1)
    if extra is not None:
        style = np.hstack([style, np.asarray(extra, dtype=np.float64).reshape(len(flat), -1)])
    return TextCounts(sparse.csr_matrix(sparse.hstack(blocks)), style)


def _grams(texts: Sequence[str], analyzer: str) -> sparse.csr_matrix:
    # A column that one text alone has cannot help to judge another, so it is left out.
    common = {"analyzer": analyzer, "min_df": 2, "dtype": np.float64}
    words = {"ngram_range": (1, 2), "token_pattern": r"\S+"}
    counter = CountVectorizer(**common, **(words if analyzer == "word" else {"ngram_range": (3, 4)}))
    try:
        found: sparse.csr_matrix = counter.fit_transform(texts)
    except ValueError:
        # No two texts share anything; one empty column keeps what follows simple.
        return sparse.csr_matrix((len(texts), 1), dtype=np.float64)
    return found


def _style(text: str) -> list[float]:
    words = text.split()
    return [
        float(len(words)),
        float(len(text)),
        float(sum(c.isupper() for c in text)),
        float(sum(c.isdigit() for c in text)),
        float(len(words) - len({w.casefold() for w in words})),
        *(float(text.count(mark)) for mark in _MARKS),
    ]


@dataclass(frozen=True, eq=False)
class Reader:
    """A fitted reader of texts: weights and scales come from its training rows only."""

    weights: TfidfTransformer
    scale: StandardScaler
    model: LogisticRegression
    classes: int

    def scores(self, counts: TextCounts) -> Floats:
        """Log-probabilities, shape ``(n, classes)``; minus infinity is replaced by -1e3 for a class never seen."""
        seen = self.model.predict_log_proba(_joined(self.weights, self.scale, counts))
        out = np.full((counts.style.shape[0], self.classes), -1e3)
        # predict_proba's columns are sorted classes, which need not be 0..k-1.
        out[:, self.model.classes_] = seen
        return out


def fit_reader(
    counts: TextCounts, labels: Ints, classes: int | None = None, *, balanced: bool = False, strength: float = 1.0
) -> Reader:
    """Fit on these rows; ``labels`` are class numbers ``0..classes-1``, at least two of them present.

    ``balanced`` weighs classes alike however rare; ``strength`` is the inverse penalty.
    """
    weights, scale = TfidfTransformer(sublinear_tf=True).fit(counts.grams), StandardScaler().fit(counts.style)
    solver = "liblinear" if len(np.unique(labels)) == 2 else "lbfgs"
    weights_of = "balanced" if balanced else None
    model = LogisticRegression(C=strength, class_weight=weights_of, solver=solver, random_state=0, max_iter=1000)
    model.fit(_joined(weights, scale, counts), labels)
    return Reader(weights, scale, model, classes if classes is not None else int(labels.max()) + 1)


def _joined(weights: TfidfTransformer, scale: StandardScaler, counts: TextCounts) -> sparse.csr_matrix:
    style = scale.transform(counts.style) / np.sqrt(counts.style.shape[1])
    return sparse.csr_matrix(sparse.hstack([weights.transform(counts.grams), sparse.csr_matrix(style)]))
