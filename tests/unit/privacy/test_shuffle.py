"""Shuffling: the numerical bound against brute force, and what it refuses to promise."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeval.privacy.labels import keep_probability
from dpeval.privacy.shuffle import amplified_closed_form, amplify, shuffled_delta


def true_delta(n: int, k: int, local: float, epsilon: float, others: tuple[int, ...]) -> float:
    """δ of n shuffled k-ary responses when one user changes from 0 to 1, by enumerating every histogram."""
    keep = keep_probability(local, k)
    other = (1 - keep) / (k - 1)

    def histograms(labels: tuple[int, ...]) -> Counter[tuple[int, ...]]:
        law: Counter[tuple[int, ...]] = Counter({(0,) * k: 1.0})  # type: ignore[dict-item]
        for label in labels:
            new: Counter[tuple[int, ...]] = Counter()
            for counts, p in law.items():
                for answer in range(k):
                    moved = (*counts[:answer], counts[answer] + 1, *counts[answer + 1 :])
                    new[moved] += p * (keep if answer == label else other)  # type: ignore[assignment]
            law = new
        return law

    first, second = histograms((0, *others)), histograms((1, *others))
    return sum(max(0.0, p - math.exp(epsilon) * second[h]) for h, p in first.items())


@pytest.mark.parametrize(("n", "k", "local"), [(2, 3, 1.0), (4, 3, 2.0), (4, 10, 2.0), (5, 4, 0.5), (6, 2, 3.0)])
def test_general_bound_covers_every_data_set(n: int, k: int, local: float) -> None:
    """No assignment of the other users' labels leaks more than the bound for any randomiser."""
    for epsilon in (0.1, 0.5, 1.2):
        bound = shuffled_delta(epsilon, n, local, math.exp(-local))
        for others in itertools.combinations_with_replacement(range(min(k, 4)), n - 1):
            assert true_delta(n, k, local, epsilon, others) <= bound + 1e-12


@pytest.mark.parametrize(("n", "local"), [(2, 1.0), (6, 2.0), (9, 3.0)])
def test_binary_bound_covers_binary_response(n: int, local: float) -> None:
    """With the more frequent clones, for two labels only."""
    for epsilon in (0.1, 0.8):
        bound = shuffled_delta(epsilon, n, local, 2 / (math.exp(local) + 1))
        for ones in range(n):
            others = (1,) * ones + (0,) * (n - 1 - ones)
            assert true_delta(n, 2, local, epsilon, others) <= bound + 1e-12


def test_binary_constant_would_be_wrong_for_many_labels() -> None:
    """For ten labels the true δ exceeds a bound with clones as frequent as k-ary response makes them."""
    n, k, local, epsilon = 4, 10, 2.0, 1.2
    worst = max(true_delta(n, k, local, epsilon, others) for others in itertools.product((0, 1, 2), repeat=n - 1))
    assert worst <= shuffled_delta(epsilon, n, local, math.exp(-local))
    assert worst == pytest.approx(0.0615, abs=5e-4)


@given(st.integers(2, 10**6), st.floats(0.1, 6), st.floats(-10, -3).map(lambda x: 10**x))
@settings(max_examples=12, deadline=None)
def test_shuffling_never_hurts(n: int, local: float, delta: float) -> None:
    """Central ε ≤ local ε, below the closed form where that holds, and binary is no worse than general."""
    general, binary = (amplify(n, local, delta=delta, binary_response=b) for b in (False, True))
    closed = amplified_closed_form(n, local, delta=delta)
    assert 0 <= binary.epsilon <= general.epsilon * (1 + 1e-6) <= local * (1 + 2e-6)
    assert closed is None or general.epsilon <= closed


@given(st.integers(100, 10**5), st.floats(0.2, 4))
@settings(max_examples=20, deadline=None)
def test_more_users_hide_better(n: int, local: float) -> None:
    """ε falls with n."""
    assert amplify(2 * n, local, delta=1e-6).epsilon <= amplify(n, local, delta=1e-6).epsilon * (1 + 1e-6)


def test_reported_epsilon_meets_delta() -> None:
    """The δ of the pair at the reported ε is within the budget."""
    report = amplify(10_000, 2.0, delta=1e-6)
    assert shuffled_delta(report.epsilon, 10_000, 2.0, math.exp(-2.0)) <= 1e-6


def test_one_user_has_only_the_local_guarantee() -> None:
    """n = 1: nothing to hide among, so δ buys next to nothing."""
    assert amplify(1, 1.0, delta=1e-9).epsilon == pytest.approx(1.0, rel=1e-6)


def test_closed_form_is_silent_outside_its_range() -> None:
    """ε₀ ≤ ln(n/(16·ln(2/δ))) is needed."""
    assert amplified_closed_form(67_349, 8.0, delta=1e-6) is None


def test_small_local_failures_are_added_to_delta() -> None:
    """A tiny δ₀ leaves a guarantee, whose δ counts all failures; a usual one leaves none."""
    small = amplify(10_000, 1.0, delta=1e-6, local_delta=1e-13)
    assert not small.vacuous
    assert 1e-6 < small.delta < 2e-6
    usual = amplify(100_000, 1.0, delta=1e-6, local_delta=1e-5)
    assert usual.vacuous
    assert (usual.epsilon, usual.delta, usual.method) == (1.0, 1e-5, "local")


@pytest.mark.parametrize(
    "call",
    [
        lambda: amplify(0, 1.0, delta=1e-6),
        lambda: amplify(10, -1.0, delta=1e-6),
        lambda: amplify(10, math.inf, delta=1e-6),
        lambda: amplify(10, 1.0, delta=0.0),
        lambda: amplify(10, 1.0, delta=1e-6, local_delta=1.0),
        lambda: amplify(10, 1.0, delta=1e-6, local_delta=1e-9, binary_response=True),
    ],
)
def test_nonsense_is_refused(call: object) -> None:
    """Out-of-range input says what was expected."""
    with pytest.raises(ValueError, match="expected"):
        call()  # type: ignore[operator]
