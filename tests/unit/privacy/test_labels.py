"""Randomised response: its exact law, its privacy by definition, and its composition with Gaussian noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from dpeval.privacy.gaussian import delta_of_gaussian, epsilon_of_gaussian
from dpeval.privacy.labels import (
    keep_probability,
    pair_delta,
    randomise_labels,
    randomise_labels_with_prior,
    sequence_and_label,
    top_labels,
)


@given(st.floats(0, 20), st.integers(2, 50))
def test_ratio_of_answers_is_exactly_e_to_epsilon(epsilon: float, k: int) -> None:
    """Keep against switch: the worst ratio is e^ε, no more and no less."""
    keep = keep_probability(epsilon, k)
    assert keep / ((1 - keep) / (k - 1)) == pytest.approx(math.exp(epsilon), rel=1e-6)


def test_answers_follow_the_law() -> None:
    """Frequencies of every answer given every label, by chi-square."""
    epsilon, k, n = 1.2, 4, 40_000
    keep = keep_probability(epsilon, k)
    for label in range(k):
        answers = randomise_labels(np.full(n, label), epsilon, k, np.random.default_rng(label))
        expected = np.full(k, n * (1 - keep) / (k - 1))
        expected[label] = n * keep
        assert chisquare(np.bincount(answers, minlength=k), expected).pvalue > 1e-4


def test_no_randomness_at_the_ends() -> None:
    """ε → ∞ keeps everything, ε = 0 is uniform, one label stays."""
    labels = np.arange(6, dtype=np.int64) % 3
    assert np.array_equal(randomise_labels(labels, 800.0, 3, np.random.default_rng(0)), labels)
    assert keep_probability(0.0, 3) == pytest.approx(1 / 3)
    assert np.array_equal(randomise_labels(np.zeros(4, np.int64), 1.0, 1, np.random.default_rng(0)), np.zeros(4))


def test_same_generator_same_labels() -> None:
    """The generator decides and the input is left alone."""
    labels = np.arange(50, dtype=np.int64) % 5
    first, second = (randomise_labels(labels, 1.0, 5, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(labels, np.arange(50) % 5)
    assert first.dtype == np.int64


def answer_law(label: int, epsilon: float, prior: list[float]) -> np.ndarray:
    """Probabilities of each answer under prior-aware response, written from its definition."""
    top = top_labels(epsilon, prior)
    law = np.zeros(len(prior))
    for answer in top:
        keep = 1 / (1 + (len(top) - 1) * math.exp(-epsilon))
        other = keep * math.exp(-epsilon)
        law[answer] = (keep if answer == label else other) if label in top else 1 / len(top)
    return law


@given(st.floats(0.01, 6), st.lists(st.floats(0.01, 1), min_size=2, max_size=5))
@settings(max_examples=60, deadline=None)
def test_prior_aware_response_is_private(epsilon: float, weights: list[float]) -> None:
    """No answer is more than e^ε times likelier under one label than under another."""
    prior = [w / sum(weights) for w in weights]
    laws = [answer_law(label, epsilon, prior) for label in range(len(prior))]
    for law in laws:
        assert law.sum() == pytest.approx(1)
        assert all((law <= math.exp(epsilon) * other * (1 + 1e-9)).all() for other in laws)


def test_prior_aware_answers_follow_the_law() -> None:
    """Draws for labels inside and outside the answering set."""
    prior, epsilon, n = [0.05, 0.5, 0.05, 0.4], 1.0, 30_000
    for label in range(4):
        answers = randomise_labels_with_prior(np.full(n, label), epsilon, prior, np.random.default_rng(label))
        expected = answer_law(label, epsilon, prior) * n
        counts = np.bincount(answers, minlength=4)
        assert counts[expected == 0].sum() == 0
        assert chisquare(counts[expected > 0], expected[expected > 0]).pvalue > 1e-4


def test_prior_narrows_the_answers_only_where_it_helps() -> None:
    """A flat prior answers with all labels; a sure one with a single label."""
    assert top_labels(1.0, [0.25] * 4) == (0, 1, 2, 3)
    assert top_labels(0.1, [0.98, 0.01, 0.01]) == (0,)


def joint_delta(epsilon: float, mu: float, label_epsilon: float, k: int) -> float:
    """δ of the pair by summing the definition over labels and integrating over a grid."""
    keep = 1 / (1 + (k - 1) * math.exp(-label_epsilon))
    other = keep * math.exp(-label_epsilon)
    x = np.linspace(-10, 10 + mu, 400_001)
    p, q = (np.exp(-((x - centre) ** 2) / 2) / math.sqrt(2 * math.pi) for centre in (mu, 0.0))
    answers = [(keep, other), (other, keep)] + [(other, other)] * (k - 2)
    return sum(float(np.clip(a * p - math.exp(epsilon) * b * q, 0, None).sum() * (x[1] - x[0])) for a, b in answers)


@pytest.mark.parametrize(("mu", "label_epsilon", "k"), [(1.0, 1.0, 2), (0.5, 2.0, 5), (2.0, 0.3, 3)])
def test_pair_delta_is_the_hockey_stick_of_the_pair(mu: float, label_epsilon: float, k: int) -> None:
    """The averaged form against the definition."""
    for epsilon in (0.0, 1.0, 3.0):
        got = pair_delta(epsilon, mu, label_epsilon, k)
        assert got == pytest.approx(joint_delta(epsilon, mu, label_epsilon, k), rel=1e-5)


@given(st.floats(0.05, 5), st.floats(-10, -1).map(lambda x: 10**x), st.floats(0, 5), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_tight_lies_between_sequence_and_sum(mu: float, delta: float, label_epsilon: float, k: int) -> None:
    """Never below either part's own cost, never above the sum, and it meets δ."""
    pair = sequence_and_label(mu, delta, label_epsilon, k)
    assert pair.sequence * (1 - 1e-9) <= pair.tight <= pair.basic == pair.sequence + label_epsilon
    assert pair_delta(pair.tight, mu, label_epsilon, k) <= delta * (1 + 1e-6)


def test_pair_without_label_noise_or_sequence_noise() -> None:
    """One label adds nothing; a sequence without noise is lost whatever the label."""
    assert sequence_and_label(1.0, 1e-5, 0.0, 2).tight == pytest.approx(epsilon_of_gaussian(1.0, 1e-5))
    assert sequence_and_label(math.inf, 1e-5, 1.0, 2).tight == math.inf
    assert sequence_and_label(0.0, 1e-5, 2.0, 2).tight == pytest.approx(2.0, rel=1e-4)
    assert delta_of_gaussian(0.0, 0.0) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: keep_probability(-1.0, 2),
        lambda: keep_probability(1.0, 0),
        lambda: randomise_labels(np.array([3]), 1.0, 3, np.random.default_rng(0)),
        lambda: randomise_labels(np.array([-1]), 1.0, 3, np.random.default_rng(0)),
        lambda: top_labels(1.0, [0.5, 0.6]),
        lambda: top_labels(1.0, []),
    ],
)
def test_nonsense_is_refused(call: object) -> None:
    """Out-of-range input says what was expected."""
    with pytest.raises(ValueError, match="expected"):
        call()  # type: ignore[operator]
