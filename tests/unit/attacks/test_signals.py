"""Membership signals: each is its formula written out, rises with membership, and stays finite at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from dpeval_attacks.membership.signals import LABEL_FREE, SIGNALS, log_odds, signal_values

LABELLED = sorted(set(SIGNALS) - LABEL_FREE)


def by_hand(signal, p, y):
    """The textbook formulas on plain probabilities."""
    others = [q for j, q in enumerate(p) if j != y]
    top = max(range(len(p)), key=p.__getitem__)
    return {
        "confidence": lambda: math.log(p[y] / (1 - p[y])),
        "loss": lambda: math.log(p[y]),
        "entropy": lambda: sum(q * math.log(q) for q in p),
        "modified-entropy": lambda: (1 - p[y]) * math.log(p[y]) + sum(q * math.log(1 - q) for q in others),
        "top-confidence": lambda: math.log(p[top] / (1 - p[top])),
        "margin": lambda: math.log(p[y] / max(others)),
    }[signal]()


def log_probs_of(logits):
    return log_softmax(np.asarray(logits, dtype=np.float64), axis=1)


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_each_signal_is_its_formula(signal, classes):
    rng = np.random.default_rng(classes)
    log_probs = log_probs_of(rng.normal(scale=2, size=(200, classes)))
    labels = rng.integers(0, classes, 200)
    want = [by_hand(signal, row.tolist(), y) for row, y in zip(np.exp(log_probs), labels, strict=True)]
    np.testing.assert_allclose(signal_values(signal, log_probs, labels), want, rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.floats(-300, 300), min_size=2, max_size=5), st.floats(0.01, 50), st.sampled_from(LABELLED))
def test_a_surer_true_class_never_lowers_a_signal(logits, more, signal):
    """Higher means member: raising the logit of the true class raises the score, or leaves it at its limit."""
    before = signal_values(signal, log_probs_of([logits]), np.array([0]))[0]
    after = signal_values(signal, log_probs_of([[logits[0] + more, *logits[1:]]]), np.array([0]))[0]
    assert after >= before - 1e-9 * abs(before)


def test_confidence_does_not_tie_where_probabilities_round_to_one():
    log_probs = log_probs_of([[40.0 + i, 0.0, 1.0] for i in range(50)])
    values = log_odds(log_probs, np.zeros(50, dtype=np.int64))
    assert np.all(np.diff(values) > 0.999)


def test_confidence_and_loss_put_candidates_in_the_same_order():
    rng = np.random.default_rng(0)
    log_probs, labels = log_probs_of(rng.normal(scale=4, size=(500, 4))), rng.integers(0, 4, 500)
    orders = [np.argsort(signal_values(s, log_probs, labels)) for s in ("confidence", "loss")]
    assert np.array_equal(*orders)


@pytest.mark.parametrize("signal", SIGNALS)
def test_classes_of_probability_zero_leave_every_signal_finite(signal):
    log_probs = np.array([[0.0, -np.inf], [-np.inf, 0.0], [0.0, -800.0], [-5000.0, 0.0]])
    values = signal_values(signal, log_probs, np.zeros(4, dtype=np.int64))
    assert np.isfinite(values).all()
    if signal not in LABEL_FREE:
        assert values[0] >= values[2] > values[3] > values[1]


@pytest.mark.parametrize("signal", sorted(LABEL_FREE))
def test_label_free_signals_do_not_look_at_the_label(signal):
    log_probs = log_probs_of(np.random.default_rng(0).normal(size=(20, 3)))
    values = [signal_values(signal, log_probs, np.full(20, y)) for y in (-1, 0, 2)]
    assert np.array_equal(values[0], values[1])
    assert np.array_equal(values[0], values[2])


def test_the_input_is_left_as_it_was():
    log_probs = log_probs_of([[1.0, 2.0, 3.0]])
    before = log_probs.copy()
    for signal in SIGNALS:
        signal_values(signal, log_probs, np.array([1]))
    assert np.array_equal(log_probs, before)


def test_what_cannot_be_scored_is_refused_by_name():
    two = np.log([[0.5, 0.5]])
    with pytest.raises(ValueError, match="at least 2 classes, got log-probabilities of 1"):
        signal_values("entropy", np.zeros((3, 1)), np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match="1 of 1 records got NaN"):
        signal_values("loss", np.array([[np.nan, 0.0]]), np.array([0]))
    for label in (-1, 2):
        with pytest.raises(ValueError, match=rf"true label of each record, 0\.\.1, got {label} .*entropy and top-conf"):
            signal_values("confidence", two, np.array([label]))
