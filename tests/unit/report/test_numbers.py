"""Numbers are shown with their interval, unit and condition, and rounding never changes what they say."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpeval.report import numbers
from dpeval.types import Adjacency, Claim, Estimate, Trust, Undefined, Unit


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Estimate(0.74, 0.70, 0.78, n=1), "0.74 [0.70, 0.78]"),
        (Estimate(0.004, 0.001, 0.0101, n=1), "0.004 [0.001, 0.010]"),
        (Estimate(1.7, 0.4, math.inf, n=1), "1.70 [0.40, ∞)"),
        (Estimate(1.7, -math.inf, 2.0, n=1), "1.70 (-∞, 2.00]"),
        (Estimate(math.inf, 3.0, math.inf, n=1), "∞ [3.00, ∞)"),
        (Estimate(-0.001, -0.05, 0.05, n=1), "0.00 [-0.05, 0.05]"),
        (Estimate(1234.0, 1000.0, 1500.0, n=1), "1234 [1000, 1500]"),
        (Estimate(1.0, 1.0, 1.0, n=1), "1.000 [1.000, 1.000]"),
        (Undefined("one class"), "undefined (one class)"),
        (Undefined("undefined (one class): 5 members"), "undefined (one class): 5 members"),
    ],
)
def test_measured_values(value, shown):
    """Decimals follow the interval, infinite bounds are open, and an undefined value says why."""
    assert numbers.measured(value) == shown


def test_rounding_never_touches_the_baseline():
    """An interval that excludes guessing does so on paper too, and one that holds it still holds it."""
    assert numbers.measured(Estimate(0.53, 0.5004, 0.56, n=1), null=0.5) == "0.5300 [0.5004, 0.5600]"
    assert numbers.measured(Estimate(0.47, 0.44, 0.4996, n=1), null=0.5) == "0.4700 [0.4400, 0.4996]"
    assert numbers.measured(Estimate(0.53, 0.499, 0.56, n=1), null=0.5) == "0.53 [0.50, 0.56]"


@given(st.floats(0, 1), st.floats(0, 0.3), st.floats(0, 0.3))
def test_the_shown_bounds_agree_with_the_true_ones(value, down, up):
    """Read back from the text, the interval excludes 0.5 exactly when the true one does (to six decimals)."""
    estimate = Estimate(value, value - down, value + up, n=1)
    if min(abs(estimate.low - 0.5), abs(estimate.high - 0.5)) < 2e-6:
        return
    low, high = (float(x) for x in re.findall(r"\[(.*), (.*)\]", numbers.measured(estimate, null=0.5))[0])
    assert (not low <= 0.5 <= high) == estimate.excludes(0.5)


def test_records_and_models_stand_beside():
    assert numbers.counted(Estimate(0.5, 0.4, 0.6, n=1050, models=1)) == "0.50 [0.40, 0.60] (1,050 records, 1 model)"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "–"),
        (0.04, "0.0 s"),
        (59.96, "1 min 00 s"),
        (61, "1 min 01 s"),
        (3599.7, "1 h 00 min"),
        (7260, "2 h 01 min"),
    ],
)
def test_durations(seconds, shown):
    assert numbers.duration(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (5 * 1024**5, "5120.0 TiB"),
    ],
)
def test_sizes(value, shown):
    assert numbers.size(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (1e-9, "< 0.0001"), (0.00012, "0.0001"), (0.0499, "0.0499"), (0.5, "0.50"), (1.0, "1.00")],
)
def test_p_values(value, shown):
    """Never zero."""
    assert numbers.p_value(value) == shown


def test_epsilon_never_stands_without_unit_trust_adjacency_and_delta():
    """Also where the guarantee is empty."""
    claim = Claim(epsilon=math.inf, delta=0.0, unit=Unit.TOKEN, trust=Trust.SHUFFLED, adjacency=Adjacency.REPLACE_ONE,
                  mechanism="m", accountant="a", scope="s")  # fmt: skip
    assert numbers.guarantee(claim) == "ε = ∞, δ = 0 (per token, shuffled trust, replace one)"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "yes"), (False, "no"), (3, "3"), (0.1 + 0.2, "0.3"), (1e300, "1e+300"), (-math.inf, "-∞")],
)
def test_plain_settings(value, shown):
    """Settings are short, and a switch is not a number."""
    assert numbers.plain(value) == shown


def test_small_bare_numbers_are_not_rounded_to_nothing():
    assert numbers.number(0.0004) == "0.0004"
    assert numbers.number(math.nan) == "not a number"
