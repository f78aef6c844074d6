"""What an attack answered, written and read back; files from before rankings were stored load too."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.arrays import load_result, save_arrays, save_result
from dpeval.types import Recovered


@pytest.mark.parametrize("ranked", [None, (np.array([[5, 6], [7, -1]]), np.zeros((0, 2), int), np.array([[8, 9]]))])
def test_recovered_tokens_come_back(tmp_path, ranked):
    answer = Recovered(("a", "b", "c"), ((5, 7), (), (8,)), ranked)
    save_result(tmp_path, answer, seconds=1.0)
    found = load_result(tmp_path)
    assert isinstance(found, Recovered)
    assert (found.ids, found.tokens) == (answer.ids, answer.tokens)
    if ranked is None:
        assert found.ranked is None
    else:
        assert [table.tolist() for table in found.ranked] == [table.tolist() for table in ranked]
        assert [table.shape[1] for table in found.ranked] == [2, 2, 2]


def test_results_stored_without_rankings_load(tmp_path):
    save_arrays(tmp_path, ids=np.array(["a"]), tokens=np.array([5, 7]), offsets=np.array([0, 2]))
    assert load_result(tmp_path).ranked is None


@pytest.mark.parametrize("ranked", [(np.zeros((1, 2), int),), (np.zeros((2, 2), int), np.zeros((1, 2), int))])
def test_rankings_of_other_rows_are_refused(ranked):
    with pytest.raises(ValueError, match="ranked tables"):
        Recovered(("a",), ((5, 7),), ranked)
