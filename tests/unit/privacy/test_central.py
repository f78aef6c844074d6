"""The central ε of shuffled Gaussian releases: each bound by hand, and never better than it may be."""

from __future__ import annotations

import math

import pytest

from dpeval.privacy.central import shuffled_gaussian
from dpeval.privacy.gaussian import epsilon_of_gaussian
from dpeval.privacy.labels import sequence_and_label
from dpeval.privacy.shuffle import amplified_closed_form, amplify, approximate_extra_delta


@pytest.mark.parametrize("mu", [0.05, 0.3, 0.7, 1.0])
@pytest.mark.parametrize(("users", "delta"), [(10_000, 1e-6), (100_000, 1e-6)])
def test_the_stated_bound_follows_from_its_own_local_guarantee(mu, users, delta):
    """From ε₀ and δ₀ of one report: the amplified δ and the users' failures together stay within δ."""
    found = shuffled_gaussian(mu, users, delta)
    if not found.proven:
        assert found.epsilon == math.inf
        assert "proves nothing" in found.reason
        return
    assert epsilon_of_gaussian(mu, found.local_delta) == pytest.approx(found.local_epsilon)
    report = amplify(users, found.local_epsilon, delta=delta / 2, local_delta=found.local_delta)
    assert report.epsilon == pytest.approx(found.epsilon)
    extra = approximate_extra_delta(users, found.epsilon, found.local_epsilon, found.local_delta)
    assert delta / 2 + extra <= delta
    assert found.epsilon < epsilon_of_gaussian(mu, delta)
    if found.closed_form is not None:
        assert found.epsilon < found.closed_form < epsilon_of_gaussian(mu, delta)


def test_it_is_close_to_the_best_choice_of_the_local_delta():
    """A fine search over δ₀ gains little."""
    found = shuffled_gaussian(0.4, 50_000, 1e-6)
    best = math.inf
    for exponent in range(90, 140):
        local_delta = 10 ** (-exponent / 10)
        start = epsilon_of_gaussian(0.4, local_delta)
        report = amplify(50_000, start, delta=5e-7, local_delta=local_delta)
        if approximate_extra_delta(50_000, report.epsilon, start, local_delta) <= 5e-7:
            best = min(best, report.epsilon)
    assert best <= found.epsilon <= 1.1 * best


def test_more_users_and_less_signal_give_a_smaller_epsilon():
    grid = [[shuffled_gaussian(mu, users, 1e-6).epsilon for mu in (0.1, 0.3, 0.6)] for users in (1e4, 1e5, 1e6)]
    assert all(row == sorted(row) for row in grid)
    assert all(column == sorted(column, reverse=True) for column in map(list, zip(*grid, strict=True)))


def test_a_label_makes_the_report_weaker():
    alone = shuffled_gaussian(0.3, 100_000, 1e-6)
    both = shuffled_gaussian(0.3, 100_000, 1e-6, label_epsilon=0.5, num_labels=2)
    assert both.proven
    assert both.epsilon > alone.epsilon
    assert both.local_epsilon == pytest.approx(sequence_and_label(0.3, both.local_delta, 0.5, 2).tight)


def test_the_closed_form_is_that_of_its_source():
    """ln(1 + tanh(ε₀/2)·(8√(e^{ε₀} ln(4/δ)/n) + 8e^{ε₀}/n))."""
    growth, n, delta = math.exp(1.5), 50_000, 1e-6
    expected = math.log(1 + math.tanh(0.75) * (8 * math.sqrt(growth * math.log(4 / delta) / n) + 8 * growth / n))
    assert amplified_closed_form(n, 1.5, delta=delta) == pytest.approx(expected)
