"""Reading tokens off rows: a fitted picture of the release, its noise, and what texts usually say.

>>> rng = np.random.default_rng(0)
>>> table = rng.standard_normal((6, 4)).astype(np.float32)
>>> tokens = rng.integers(1, 6, 300)
>>> sample = Sample(rows=table[tokens] + 0.01, tokens=tokens, positions=np.zeros(300, int), gains=np.ones(300))
>>> picture = fit_picture(sample, table, ridge=1e-3)
>>> reader = Reader.of(picture, sample, allowed=np.arange(1, 6), metric="l2", log_prior=None)
>>> bool(np.all(reader.read(sample) == tokens))
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpeval.types import Floats, Ints, Rows
from dpeval_attacks.inversion.observation import Picture, Sample, Whitening, fit_picture, of_vocabulary
from dpeval_attacks.inversion.search import IndexKind, Metric, SearchSpace

__all__ = ["Reader", "ReadsRows", "fit_picture"]


class ReadsRows(Protocol):
    """Whatever answers tokens for rows."""

    def read(self, sample: Sample) -> Ints:
        """One token id per row of ``sample``, whose ``tokens`` are not looked at; -1 for a zero or broken row."""
        ...

    def best(self, sample: Sample, k: int) -> Ints:
        """The ``k`` best tokens of each row, best first, shape ``(n, k)``."""
        ...

    def accuracy(self, sample: Sample) -> float:
        """The share of rows read right."""
        ...


@dataclass(frozen=True, eq=False)
class Reader:
    """Answers for each row the token that explains it best."""

    picture: Picture
    whitening: Whitening
    space: SearchSpace

    @classmethod
    def of(
        cls,
        picture: Picture,
        sample: Sample,
        *,
        allowed: Ints,
        metric: Metric,
        log_prior: Floats | None,
        noise: float = 0.0,
        index: IndexKind = "auto",
    ) -> Reader:
        """A reader whose noise is what ``picture``, rescaled to fit, leaves unexplained of ``sample``.

        With a known ``noise`` the scatter is that of the noise wherever the sample cannot tell it from more.
        """
        picture = picture.scaled_to(sample)
        whitening = Whitening.of(picture, sample, noise=noise)
        candidates = of_vocabulary(picture.words, picture.matrix @ whitening.matrix)
        kappa = 1.0
        if metric == "cosine" and log_prior is not None:
            kappa = _concentration(_queries(picture, whitening, sample), candidates[sample.tokens])
        space = SearchSpace.of(
            candidates, allowed=allowed, metric=metric, log_prior=log_prior, concentration=kappa, index=index
        )
        return cls(picture, whitening, space)

    def read(self, sample: Sample) -> Ints:
        """One token id per row of ``sample``, whose ``tokens`` are not looked at; -1 for a zero or broken row."""
        return self.best(sample, 1)[:, 0]

    def best(self, sample: Sample, k: int) -> Ints:
        """The ``k`` tokens that explain each row best, shape ``(n, k)``; -1 where there is none."""
        empty = ~np.any(sample.rows, axis=1)
        queries = self.queries(sample)
        queries[empty] = 0.0
        return self.space.search(queries, sample.gains, k=k)

    def queries(self, sample: Sample) -> Floats:
        """The rows as the search sees them: divided by their gain, without what the position adds, whitened."""
        return _queries(self.picture, self.whitening, sample)

    def accuracy(self, sample: Sample) -> float:
        """The share of rows read right."""
        return float(np.mean(self.read(sample) == sample.tokens)) if len(sample) else 0.0


def _queries(picture: Picture, whitening: Whitening, sample: Sample) -> Floats:
    clear = sample.rows / sample.gains[:, None] - picture.offset(sample.positions)
    queries: Floats = clear @ whitening.matrix
    return queries


def _concentration(queries: Floats, truth: Rows) -> float:
    """Von Mises-Fisher concentration of the queries' directions about their truth (Banerjee et al. 2005, eq. 4.4)."""
    norms = np.linalg.norm(queries, axis=1) * np.linalg.norm(truth, axis=1)
    cosines = np.sum(queries * truth, axis=1)[norms > 0] / norms[norms > 0]
    mean = float(np.clip(cosines.mean(), 1e-3, 1 - 1e-6)) if len(cosines) else 1e-3
    return float(mean * (queries.shape[1] - mean**2) / (1 - mean**2))
