"""Chooses which values of the sensitive attribute take part, and refuses columns that are no categories.

>>> choose(("x", "y", "x", None, "z", "z"), DataConfig(source="a", text="t", label="l", attribute="a", attribute_top=2))
('x', None, 'x', None, 'z', 'z')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dpeval.data.categories import are_numbers, in_order
from dpeval.data.config import DataConfig
from dpeval.data.errors import DataError

MOST_NUMBERS = 50
"""A numeric attribute with more distinct values than this is a quantity, not a category."""


def choose(values: Sequence[str | None], config: DataConfig) -> tuple[str | None, ...]:
    """``values`` with None in place of those that ``attribute_top`` and ``attribute_min`` leave out.

    Without an ``attribute`` all are None.

    ``attribute_min`` applies first; ties at the cut of ``attribute_top`` go to the values first in order.

    Raises:
        DataError: no value is left; or nothing was asked to be chosen and the column is numeric with more than
            ``MOST_NUMBERS`` values, or has a value of its own for more than half of its records.
    """
    if config.attribute is None:
        return (None,) * len(values)
    counts = Counter(value for value in values if value is not None)
    kept = [value for value in in_order(counts) if counts[value] >= (config.attribute_min or 1)]
    if config.attribute_top is not None:
        kept = sorted(kept, key=lambda value: -counts[value])[: config.attribute_top]
    if not kept:
        raise DataError(_nothing_left(counts, config))
    if config.attribute_top is None and config.attribute_min is None:
        _check_categories(counts, config)
    chosen = frozenset(kept)
    return tuple(value if value in chosen else None for value in values)


def _nothing_left(counts: Counter[str], config: DataConfig) -> str:
    if not counts:
        return f"[data] attribute: no usable row has a value in {config.attribute!r}; name another column, or none"
    most = max(counts.values())
    return (
        f"[data] attribute_min: no value of {config.attribute!r} has {config.attribute_min} records; the most is {most}"
    )


def _check_categories(counts: Counter[str], config: DataConfig) -> None:
    if len(counts) > MOST_NUMBERS and are_numbers(counts):
        raise DataError(
            f"[data] attribute: {config.attribute!r} holds {len(counts)} different numbers: a quantity, no category; "
            "put them into bins (say 18-29, 30-44, …) in a column of their own, or set attribute_top"
        )
    if len(counts) > 2 and len(counts) > counts.total() / 2:
        raise DataError(
            f"[data] attribute: {config.attribute!r} has {len(counts)} different values in {counts.total()} rows, "
            "too many to learn any; set attribute_top or attribute_min, or name another column"
        )
