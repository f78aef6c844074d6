"""The threshold attack: asks as often as told, averages probabilities, joins by id."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.context import RunContext
from dpeval.types import Predictions, Records
from dpeval_attacks.membership.threshold import ThresholdAttack


class NoisyView:
    """Answers with probabilities that depend on record and draw, in reverse order of the question."""

    def __init__(self, noise=1.0):
        self.noise, self.draws = noise, []

    def predict(self, records, *, draw=0):
        self.draws.append(draw)
        return Predictions(records.ids[::-1], np.log([self.probabilities(key, draw) for key in records.ids[::-1]]))

    def probabilities(self, key, draw):
        p = (1 + int(key[1:]) + self.noise * draw) / 30
        return [p, 1 - p]


def candidates(n=4):
    return Records(tuple(f"r{i}" for i in range(n)), ("text",) * n, (0,) * n)


def scores(view, records, **options):
    return ThresholdAttack(**options).score(view, records, None, RunContext(seed=0))


def test_scores_stand_with_their_ids_whatever_the_order_of_the_answer():
    records = candidates()
    got = scores(NoisyView(), records, signal="loss")
    assert got.ids == records.ids
    np.testing.assert_allclose(np.exp(got.values), [1 / 30, 2 / 30, 3 / 30, 4 / 30])


def test_queries_average_probabilities_over_the_draws_from_zero():
    view, records = NoisyView(), candidates()
    got = scores(view, records, signal="loss", queries=3)
    assert view.draws == [0, 1, 2]
    want = [np.mean([view.probabilities(key, draw)[0] for draw in range(3)]) for key in records.ids]
    np.testing.assert_allclose(np.exp(got.values), want, rtol=1e-12)


def test_a_release_without_noise_is_asked_no_more_than_twice():
    view, records = NoisyView(noise=0.0), candidates()
    assert np.array_equal(scores(view, records, queries=50).values, scores(view, records).values)
    assert view.draws == [0, 1, 0]


def test_a_missing_answer_is_an_error_that_names_the_record():
    class Forgetful(NoisyView):
        def predict(self, records, *, draw=0):
            return super().predict(records.take([0, 2]), draw=draw)

    with pytest.raises(ValueError, match=r"not \['r1', 'r3'\] \(2 missing\)"):
        scores(Forgetful(), candidates())


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"one of confidence, entropy, .*, got 'odds'"):
        ThresholdAttack(signal="odds")
    with pytest.raises(ValueError, match="expected queries >= 1, got 0"):
        ThresholdAttack(queries=0)
