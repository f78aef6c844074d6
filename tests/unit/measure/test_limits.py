"""The smallest value that a cell of the matrix would have told from guessing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpeval.collect.measures import CellMeasures, with_limit
from dpeval.measure.influence import ratio_part
from dpeval.measure.intervals import estimate
from dpeval.types import Estimate


def cell(rates: tuple[int, ...], n: int = 1000) -> CellMeasures:
    """Models that got so many of ``n`` records of their own right."""
    parts = tuple(
        ratio_part(np.arange(n) < k, np.ones(n), tuple(f"{j}/{i}" for i in range(n))) for j, k in enumerate(rates)
    )
    value = estimate(parts)
    return CellMeasures({"auc": value}, "auc", 0.5, value, 0.5, parts=parts, tested_parts=parts)


def limit(found: CellMeasures, comparisons: int) -> float:
    value = with_limit(found, comparisons).measures["detectable_auc"]
    assert isinstance(value, Estimate)
    return value.value


def test_one_model_needs_the_normal_quantiles() -> None:
    """By hand: 0.5 + (z of the Bonferroni level + z of 80 %) standard errors."""
    error = 0.5 / np.sqrt(1000)
    for comparisons in (1, 20):
        z = stats.norm.ppf(1 - 0.025 / comparisons) + stats.norm.ppf(0.8)
        assert limit(cell((500,)), comparisons) == pytest.approx(0.5 + z * error, rel=0.01)


@pytest.mark.parametrize("comparisons", [1, 5, 20])
def test_what_is_far_from_significant_is_not_called_detectable(comparisons: int) -> None:
    """Three models that differ: a mean that the adjusted test does not tell from guessing lies below the limit."""
    found = cell((640, 750, 860))
    value = found.measures["auc"]
    assert isinstance(value, Estimate)
    assert found.p_value is not None
    if min(1.0, comparisons * found.p_value) > 0.05:
        assert limit(found, comparisons) > value.value
    assert limit(found, comparisons) >= limit(found, 1)
