"""Steps, sampling rate and δ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpeval.privacy.steps import default_delta, delta_warning, sampling_rate, steps_for

whole = st.integers(1, 10**7)


@given(st.integers(1, 100), whole, whole)
def test_every_record_fits_into_the_steps_of_a_pass(epochs: int, records: int, batch: int) -> None:
    """Just enough batches for each pass, never none."""
    steps = steps_for(epochs, records, batch)
    per_pass, rest = divmod(steps, epochs)
    assert rest == 0
    assert (per_pass - 1) * batch < records <= per_pass * batch


@given(whole, whole)
def test_rate_is_a_probability(records: int, batch: int) -> None:
    """B/N, at most 1."""
    assert sampling_rate(records, batch) == min(1.0, batch / records)


@given(whole)
def test_the_default_delta_is_never_warned_about(records: int) -> None:
    """1/(2N) is below 1/N; 1/N is warned about, with the number."""
    assert delta_warning(default_delta(records), records) is None
    assert f"1/{records}" in (delta_warning(1.5 / records, records) or "")


@pytest.mark.parametrize("arguments", [(0, 10, 1), (1, 0, 1), (1, 10, 0), (1.5, 10, 1), (1, 10, -3)])
def test_only_whole_positive_numbers(arguments: tuple[int, int, int]) -> None:
    """Anything else is refused by name."""
    with pytest.raises(ValueError, match="whole number"):
        steps_for(*arguments)
