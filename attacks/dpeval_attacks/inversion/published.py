"""Nearest-neighbour inversion as published for DP-Forward: for comparison with the literature, and for nothing else.

Du et al. 2023, section 6.3: a released row is read as the vocabulary entry whose public word embedding is nearest.
Where the tap is not the input, a least-squares map from rows to word embeddings comes first (their step (1)).

>>> rows = np.eye(3, dtype=np.float32)
>>> table = np.vstack([9 * np.ones(3), np.eye(3)]).astype(np.float32)
>>> read_as_published(2 * rows, table=table, allowed=np.arange(4))[:, 0]
array([1, 2, 3])
"""

from __future__ import annotations

import numpy as np

from dpeval.types import Ints, Rows
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.search import nearest

CAVEAT_NEAREST = (
    "it compares released rows with raw word embeddings, though what is released has positions, a layer norm and a "
    "scale of its own: an attack that allows for these recovers more, and the difference reads as privacy"
)
CAVEAT_GRADIENT = (
    "it looks at the squared distance alone, at one temperature and with two thousand tiny steps from a blind start: "
    "it allows neither for the published noise nor for how often words occur, and what it misses reads as privacy"
)


def read_as_published(rows: Rows, *, table: Rows, allowed: Ints, learn_on: Sample | None = None, k: int = 1) -> Ints:
    """The ``k`` nearest of the ``allowed`` entries of ``table`` for each row, (n, k), through the map fitted on
    ``learn_on``."""
    if learn_on is None:
        return nearest(rows, table, allowed=allowed, k=k)
    known = np.hstack([learn_on.rows.astype(np.float64), np.ones((len(learn_on), 1))])
    solved, *_ = np.linalg.lstsq(known, table[learn_on.tokens].astype(np.float64), rcond=None)
    fine = np.isfinite(rows).all(axis=1)
    mapped = np.full((len(rows), table.shape[1]), np.nan)
    mapped[fine] = np.hstack([rows[fine].astype(np.float64), np.ones((int(fine.sum()), 1))]) @ solved
    return nearest(mapped, table, allowed=allowed, k=k)
