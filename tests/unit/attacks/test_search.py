"""Nearest-candidate search against brute force, and every way in which there is no answer."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval_attacks.inversion.search import NO_ANSWER, SearchSpace, nearest


def world(seed, n=60, v=40, d=8):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((v, d)), rng


@pytest.mark.parametrize("seed", range(3))
def test_l2_is_the_nearest_candidate_by_brute_force(seed):
    queries, table, _ = world(seed)
    allowed = np.arange(3, 40)
    distances = np.linalg.norm(queries[:, None] - table[None, allowed], axis=2)
    assert np.array_equal(nearest(queries, table, allowed=allowed, k=4), allowed[np.argsort(distances, axis=1)[:, :4]])


@pytest.mark.parametrize("seed", range(3))
def test_cosine_is_the_smallest_angle_by_brute_force(seed):
    queries, table, _ = world(seed)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, table)]
    want = np.argmax(unit[0] @ unit[1].T, axis=1)
    assert np.array_equal(nearest(queries * 7, table, allowed=np.arange(40), metric="cosine")[:, 0], want)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_the_best_candidate_maximises_the_log_posterior(metric):
    """Gaussian with a gain for each row, or von Mises-Fisher; with a prior that changes answers."""
    queries, table, rng = world(5, n=300)
    queries, gains = table[rng.integers(0, 40, 300)] + 0.9 * queries, rng.uniform(0.3, 2, 300)
    prior = rng.normal(scale=3, size=40)
    if metric == "l2":
        fit = -0.5 * np.square(gains)[:, None] * np.square(queries[:, None] - table[None]).sum(axis=2)
    else:
        norms = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(table, axis=1)
        fit = 4.0 * queries @ table.T / norms
    space = SearchSpace.of(table, allowed=np.arange(40), metric=metric, log_prior=prior, concentration=4.0)
    want = np.argmax(fit + prior, axis=1)
    assert np.array_equal(space.search(queries, gains)[:, 0], want)
    assert (want != np.argmax(fit, axis=1)).mean() > 0.1


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_zero_and_broken_queries_have_no_answer(metric):
    queries = np.array([[0, 0], [np.nan, 1], [np.inf, 1], [1, 0.2]])
    found = nearest(queries, np.eye(2), allowed=np.array([0, 1]), metric=metric, k=2)
    assert found[:3].tolist() == [[NO_ANSWER] * 2] * 3
    assert found[3].tolist() == [0, 1]


def test_a_zero_or_broken_candidate_is_never_the_direction_answered():
    table = np.array([[0, 0], [np.nan, 0], [-1, 0.0]])
    assert nearest(np.array([[1.0, 0.1]]), table, allowed=np.arange(3), metric="cosine", k=3).tolist() == [[2, -1, -1]]


def test_no_candidates_no_queries_and_more_neighbours_than_candidates():
    some = np.ones((2, 3))
    assert nearest(some, np.ones((4, 3)), allowed=np.array([], dtype=np.int64)).tolist() == [[-1], [-1]]
    assert nearest(np.zeros((0, 3)), np.ones((4, 3)), allowed=np.arange(4)).shape == (0, 1)
    assert nearest(some, np.eye(3), allowed=np.array([2]), k=3).tolist() == [[2, -1, -1]] * 2


def test_a_large_question_is_answered_in_parts(monkeypatch):
    monkeypatch.setattr("dpeval_attacks.inversion.search._CHUNK", 7)
    queries, table, _ = world(1)
    queries[[3, 50]] = 0
    found = nearest(queries, table, allowed=np.arange(40))[:, 0]
    want = np.argmin(np.linalg.norm(queries[:, None] - table[None], axis=2), axis=1)
    want[[3, 50]] = NO_ANSWER
    assert np.array_equal(found, want)
