"""The probe's classifier: fitted on its own records alone, folds that keep groups together, floors that hold."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval_attacks.attribute.classify import FOLDS, LOWEST, MISSING, MODELS, Lesson, assign_folds, fit_classifier


def lesson(n=90, classes=3, d=6, spread=0.7, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return Lesson(2 * np.eye(classes, d)[labels] + spread * rng.standard_normal((n, d)), labels, np.arange(n))


def fit(rows, model="logistic", balanced=True, seed=0):
    return fit_classifier(rows, model, balanced=balanced, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("model", MODELS)
def test_what_can_be_told_apart_is_told_apart(model):
    test = lesson(seed=1)
    scores = fit(lesson(), model).log_probs(test.features, 3)
    assert np.mean(scores.argmax(axis=1) == test.labels) > (0.85 if model == "knn" else 0.9)
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_pure_noise_is_told_apart_no_better_than_by_chance(model):
    rng = np.random.default_rng(0)
    noise = Lesson(rng.standard_normal((80, 8)), np.arange(80) % 4, np.arange(80))
    hits = fit(noise, model).log_probs(rng.standard_normal((2000, 8)), 4).argmax(axis=1) == np.arange(2000) % 4
    assert abs(hits.mean() - 0.25) < 0.04


@pytest.mark.parametrize("model", MODELS)
def test_the_same_seed_gives_the_same_scores_to_the_bit(model):
    first, second = (fit(lesson(), model, seed=3).log_probs(np.eye(6), 3) for _ in range(2))
    assert np.array_equal(first, second)


def test_values_never_seen_come_last_and_extreme_rows_stay_finite():
    rows = lesson()
    seen = Lesson(rows.features, np.array([0, 2, 4])[rows.labels], rows.groups)
    for model in MODELS:
        scores = fit(seen, model).log_probs(np.vstack([np.eye(6), 1e8 * np.eye(6)]), 6)
        assert np.isfinite(scores).all()
        assert (scores[:, [1, 3, 5]] == MISSING).all()
        assert scores[:, [0, 2, 4]].min() >= LOWEST > MISSING


def test_one_value_alone_gives_constant_scores():
    scores = fit(Lesson(np.random.default_rng(0).standard_normal((5, 2)), np.full(5, 1), np.arange(5))).log_probs(
        np.eye(2), 3
    )
    assert np.array_equal(scores, [[MISSING, 0, MISSING]] * 2)


def test_a_broken_row_gets_the_shares_of_the_training_records():
    rows = lesson(n=60)
    rows = Lesson(rows.features, np.minimum(rows.labels, 1), rows.groups)
    scores = fit(rows).log_probs(np.array([[np.nan] * 6, [np.inf] * 6, np.eye(6)[0]]), 2)
    np.testing.assert_allclose(np.exp(scores[:2]), [[1 / 3, 2 / 3]] * 2)
    assert scores[2].argmax() == 0


@pytest.mark.parametrize("balanced", [True, False])
def test_balancing_lets_a_rare_value_be_guessed(balanced):
    rng = np.random.default_rng(0)
    labels = (np.arange(300) % 15 == 0).astype(np.int64)
    rows = Lesson(labels[:, None] + rng.standard_normal((300, 1)), labels, np.arange(300))
    guessed = fit(rows, balanced=balanced).log_probs(rows.features, 2).argmax(axis=1)
    assert (guessed[labels == 1].mean() > 0.5) == balanced


def test_folds_keep_groups_whole_and_deal_every_class_out_evenly():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 2)
    labels = np.repeat(np.arange(60) % 5, 2)
    folds = assign_folds(Lesson(np.zeros((120, 1)), labels, groups), rng)
    assert all(len(set(folds[groups == g])) == 1 for g in range(60))
    counts = np.array([[np.sum((folds == f) & (labels == c)) for f in range(FOLDS)] for c in range(5)])
    assert counts.min() == counts.max() == 8


@pytest.mark.parametrize("model", MODELS)
def test_classes_of_one_record_do_not_stop_the_fit(model):
    rng = np.random.default_rng(0)
    tiny = Lesson(rng.standard_normal((4, 3)), np.array([0, 1, 2, 2]), np.arange(4))
    assert np.isfinite(fit(tiny, model).log_probs(rng.standard_normal((2, 3)), 3)).all()


@pytest.mark.parametrize("model", MODELS)
def test_labels_that_hardly_repeat_are_learnt_without_a_warning(model):
    """Thirty-two rows of twenty-four values: scikit-learn would warn. Only repeated ones count."""
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.arange(20), np.repeat(np.arange(20, 24), 3)])
    rows = Lesson(rng.standard_normal((len(labels), 3)), labels, np.arange(len(labels)))
    scores = fit(rows, model).log_probs(rng.standard_normal((2, 3)), 24)
    assert (scores[:, :20] == MISSING).all()
    assert (scores[:, 20:] > MISSING).all()
    singles = Lesson(rows.features[:22], np.arange(22), np.arange(22))
    assert np.isfinite(fit(singles, model).log_probs(rng.standard_normal((2, 3)), 22)).all()
