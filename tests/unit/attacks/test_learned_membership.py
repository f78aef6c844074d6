"""The learned attacker: what it sees, that it is fitted apart from what it judges, and that it finds planted leaks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax

from dpeval.context import RunContext
from dpeval.plugin import Shadow
from dpeval.types import Predictions, Records
from dpeval_attacks.membership.learned import LearnedAttack, above_others, features, learnt
from dpeval_attacks.membership.references import auc


class Model:
    """Answers with logits that are larger for the true class of what it was trained on."""

    def __init__(self, seed, trained_on, labels, shift=2.5):
        rng = np.random.default_rng(seed)
        self.ids = list(labels)
        hard = np.random.default_rng(99).normal(0, 1.5, len(self.ids))
        logits = rng.normal(0, 0.5, (len(self.ids), 3))
        for i, key in enumerate(self.ids):
            logits[i, labels[key]] += hard[i] + shift * (key in trained_on)
        self.rows = dict(zip(self.ids, log_softmax(logits, axis=1), strict=True))
        self.trained_on = frozenset(trained_on)

    def predict(self, records, *, draw=0):
        return Predictions(records.ids, np.array([self.rows[key] for key in records.ids]))


def world(n=300, m=6, shift=2.5):
    rng = np.random.default_rng(5)
    ids = tuple(f"r{i}" for i in range(n))
    labels = dict(zip(ids, (int(v) for v in rng.integers(0, 3, n)), strict=True))
    records = Records(ids, ids, tuple(labels.values()))
    halves = [{key for key in ids if rng.random() < 0.5} for _ in range(m // 2 + 1)]
    sides = [half if i % 2 == 0 else set(ids) - half for half in halves[:-1] for i in range(2)]
    models = [Model(i, side, labels, shift) for i, side in enumerate(sides)]
    target = Model(77, halves[-1], labels, shift)
    ctx = RunContext(3, shadow_source=lambda count: [Shadow(one.trained_on, one) for one in models[:count]])
    return target, records, ctx, np.array([key in target.trained_on for key in ids])


@pytest.mark.parametrize("learner", ["logistic", "boosting"])
def test_it_finds_members_better_than_the_best_single_signal(learner):
    target, records, ctx, member = world()
    got = LearnedAttack(shadows=6, learner=learner).score(target, records, None, ctx)
    assert got.ids == records.ids
    raw = features(target.predict(records).log_probs, np.array(records.labels))[:, 3]
    assert auc(got.values, member) > auc(raw, member) + 0.03


def test_models_that_remember_nothing_give_chance():
    target, records, ctx, member = world(shift=0.0)
    got = LearnedAttack(shadows=6).score(target, records, None, ctx)
    assert abs(auc(got.values, member) - 0.5) < 3 * np.sqrt(1 / 12 / 75)


def test_the_difference_is_from_the_shadows_of_other_pairs_that_did_not_see_the_record():
    rng = np.random.default_rng(0)
    shadows, target = rng.normal(size=(5, 7, 2)), rng.normal(size=(7, 2))
    inside = rng.random((5, 7)) < 0.5
    inside[:, 0], inside[:, 1] = True, False
    wide, mine = above_others(shadows, target, inside)
    for j in range(5):
        for i in range(7):
            rest = [k for k in range(5) if k // 2 != j // 2 and not inside[k, i]]
            want = shadows[j, i] - np.mean([shadows[k, i] for k in rest], axis=0) if rest else np.zeros(2)
            np.testing.assert_allclose(wide[j, i, 2:], want, atol=1e-12)
    for i in range(1, 7):
        np.testing.assert_allclose(mine[i, 2:], target[i] - shadows[~inside[:, i], i].mean(axis=0), atol=1e-12)
    assert np.array_equal(mine[0, 2:], [0, 0])


@pytest.mark.parametrize("learner", ["logistic", "boosting"])
def test_d23_what_is_asked_about_changes_nothing_for_the_other_answers(learner):
    rng = np.random.default_rng(0)
    rows, truth, asked = rng.normal(size=(200, 4)), rng.random(200) < 0.5, rng.normal(size=(9, 4))
    rows[truth] += 1
    spoilt = asked.copy()
    spoilt[0] *= 1000
    one, other = (learnt(learner, rows, truth, questions, 0) for questions in (asked, spoilt))
    assert np.array_equal(one[1:], other[1:])


def test_d03_a_higher_score_means_more_likely_a_member_whatever_the_order_of_the_classes():
    rng = np.random.default_rng(1)
    truth = rng.random(300) < 0.5
    rows = truth[:, None] + 0.3 * rng.normal(size=(300, 1))
    assert auc(learnt("logistic", rows, truth, rows, 0), truth) > 0.95
    assert auc(learnt("logistic", -rows, truth, -rows, 0), truth) > 0.95


def test_one_class_of_shadow_rows_is_no_answer_and_no_error():
    assert learnt("logistic", np.ones((4, 2)), np.ones(4, dtype=bool), np.ones((3, 2)), 0).tolist() == [0, 0, 0]


def test_the_order_of_the_candidates_does_not_move_a_score_much_and_the_ids_stay_joined():
    target, records, ctx, _member = world()
    turned = records.take(range(len(records) - 1, -1, -1))
    one = LearnedAttack(shadows=6).score(target, records, None, ctx)
    other = LearnedAttack(shadows=6).score(target, turned, None, ctx)
    where = {key: i for i, key in enumerate(other.ids)}
    assert np.corrcoef(one.values, other.values[[where[key] for key in one.ids]])[0, 1] > 0.99


def test_fewer_shadows_than_asked_are_enough():
    target, records, ctx, member = world(m=2)
    got = LearnedAttack(shadows=16).score(target, records, None, replace(ctx))
    assert auc(got.values, member) > 0.6
