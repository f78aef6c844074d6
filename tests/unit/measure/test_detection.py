"""What an audit could have shown: detection limits against simulated experiments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from dpeval.measure.detection import POWER, detection_limit
from dpeval.measure.epsilon import gaussian_bound, rate_bound, upper_rate, upper_rates
from dpeval.measure.one_run import one_run_bound


@pytest.mark.parametrize("claimed", [0.5, 2.0])
def test_at_the_limit_four_of_five_audits_of_two_rates_refute(claimed: float) -> None:
    """A randomised response of just that ε, audited three hundred times."""
    n, rng = 300, np.random.default_rng(0)
    plain = rate_bound(tp=n, members=n, fp=0, nonmembers=n, delta=1e-5)
    limit = detection_limit(plain, claimed)
    wrong = special.expit(-limit)
    refuted = sum(
        rate_bound(tp=n - int(k), members=n, fp=int(j), nonmembers=n, delta=1e-5).epsilon > claimed
        for k, j in rng.binomial(n, wrong, size=(300, 2))
    )
    assert abs(refuted / 300 - POWER) < 0.07


def test_at_the_limit_four_of_five_one_run_audits_refute() -> None:
    n, rng = 400, np.random.default_rng(1)
    limit = detection_limit(one_run_bound(m=n, r=n, v=n, delta=1e-5), 1.0)
    right = rng.binomial(n, special.expit(limit), size=300)
    refuted = sum(one_run_bound(m=n, r=n, v=int(v), delta=1e-5).epsilon > 1.0 for v in right)
    # Counts are whole numbers: the power at the limit is at least the one asked for, and little more.
    assert POWER - 0.07 < refuted / 300 < POWER + 0.12


def test_the_limit_lies_above_the_claim_and_falls_with_more_trials() -> None:
    limits = [
        detection_limit(rate_bound(tp=n, members=n, fp=0, nonmembers=n, delta=0.0), 1.0) for n in (100, 1000, 20_000)
    ]
    assert limits[0] > limits[1] > limits[2] > 1.0
    assert limits[2] < 1.1


def test_beyond_the_ceiling_nothing_refutes() -> None:
    bound = rate_bound(tp=50, members=50, fp=0, nonmembers=50, delta=1e-5)
    assert math.isinf(detection_limit(bound, bound.ceiling))
    assert math.isfinite(detection_limit(bound, bound.ceiling - 0.3))


def test_models_refute_nothing() -> None:
    assert detection_limit(gaussian_bound(tp=50, members=50, fp=0, nonmembers=50, delta=1e-5), 1.0) is None


def test_many_upper_rates_are_those_of_one() -> None:
    assert upper_rates(np.arange(21), 20, 0.03) == pytest.approx([upper_rate(k, 20, 0.03) for k in range(21)])
