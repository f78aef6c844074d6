"""Averaging released rows over draws."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.types import Embeddings, Predictions
from dpeval_attacks.draws import mean_probabilities, mean_rows


def rows(values, ids=("a", "b"), offsets=(0, 1, 3)):
    return Embeddings(ids, np.asarray(values, dtype=np.float32), np.array(offsets))


def test_rows_are_averaged_over_the_asked_draws():
    asked = []

    def ask(draw):
        asked.append(draw)
        return rows(np.full((3, 2), draw))

    assert mean_rows(ask, 3, start=5).values.tolist() == [[6.0, 6.0]] * 3
    assert asked == [5, 6, 7]


def test_rows_that_do_not_change_are_asked_for_twice_and_returned_as_they_are():
    asked = []
    same = rows([[0.1, np.nan], [1, 2], [3, 4]])

    def ask(draw):
        asked.append(draw)
        return same

    assert mean_rows(ask, 100) is same
    assert len(asked) == 2


def test_draws_of_different_shape_or_ids_are_refused():
    shapes = [rows(np.zeros((3, 2))), rows(np.zeros((3, 2)), offsets=(0, 2, 3))]
    with pytest.raises(ValueError, match="row counts"):
        mean_rows(shapes.__getitem__, 2)
    answers = [Predictions(("a",), np.log([[0.5, 0.5]])), Predictions(("b",), np.log([[0.4, 0.6]]))]
    with pytest.raises(ValueError, match="different record ids"):
        mean_probabilities(answers.__getitem__, 2)
