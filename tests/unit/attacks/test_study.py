"""What the adversary takes from releases of its own texts: alignment, padding, edges."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval_attacks.inversion.study import study_releases

CLS, SEP, UNK = 2, 3, 1
SPECIAL = frozenset({0, UNK, CLS, SEP})


def rows_of(*lengths):
    return [np.arange(n * 2, dtype=np.float32).reshape(n, 2) + 1 for n in lengths]


def study(rows, tokens):
    return study_releases([f"r{i}" for i in range(len(rows))], rows, tokens, special_ids=SPECIAL)


def test_rows_and_tokens_are_aligned_and_edges_are_special():
    found = study(rows_of(4, 3), [[CLS, 7, 8, SEP], [CLS, 9, SEP]])
    assert found.sample.tokens.tolist() == [CLS, 7, 8, SEP, CLS, 9, SEP]
    assert found.sample.positions.tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert found.texts.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert found.inner_tokens.tolist() == [7, 8, 9]
    assert found.lengths is None
    layout = found.layout(np.ones((6, 2)))
    assert (layout.first, layout.last, layout.gain) == (1, 5, 1.0)


@pytest.mark.parametrize(
    ("tokens", "edges"),
    [
        ([[7, 8, 9], [9, 7, 8]], (0, 0)),
        ([[CLS, CLS, 7], [CLS, 8, SEP]], (1, 0)),
        ([[CLS, UNK, SEP], [CLS, 8, SEP]], (1, 1)),
        ([[CLS, SEP, SEP], [CLS, SEP, SEP]], (0, 0)),
    ],
)
def test_only_special_tokens_that_every_text_has_are_an_edge(tokens, edges):
    found = study(rows_of(3, 3), tokens)
    assert (found.leading, found.trailing) == edges


def test_rows_beyond_the_tokens_are_padding_and_a_text_may_be_shorter_than_its_edges():
    rows = rows_of(5, 5)
    rows[0][3:], rows[1][2:] = 0, 0
    found = study(rows, [[CLS, 7, SEP], [CLS, SEP]])
    assert len(found.sample) == 5
    assert found.lengths is not None
    layout = found.layout(np.vstack([rows[0][:1], np.zeros((4, 2))]))
    assert layout.first <= layout.last <= 5


def test_broken_rows_teach_nothing():
    rows = rows_of(3, 3)
    rows[0][1] = np.nan
    found = study(rows, [[CLS, 7, SEP], [CLS, 8, SEP]])
    assert found.sample.tokens.tolist() == [CLS, SEP, CLS, 8, SEP]
    assert found.inner_tokens.tolist() == [8]
    assert found.texts.tolist() == [0, 0, 1, 1, 1]


def test_a_pooled_release_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"record 'r0' has 3 tokens but 1 released rows: .* needs a row per token"):
        study(rows_of(1, 1), [[CLS, 7, SEP], [CLS, 8, SEP]])
