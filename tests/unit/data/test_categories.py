"""The rule by which cells become class names, and the choice of attribute values."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pytest

from dpeval.data.attributes import choose
from dpeval.data.categories import categories, in_order
from dpeval.data.config import DataConfig
from dpeval.data.errors import DataError


def place(i: int) -> str:
    return f"line {i + 1}"


def names(*cells: object) -> tuple[str | None, ...]:
    return categories(cells, "label", place)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("pos", " pos ", "neg", "", "  ", None, "NaN"), ("pos", "pos", "neg", None, None, None, None)),
        ((1, 1.0, 0, None, math.nan), ("1", "1", "0", None, None)),
        ((True, False, None), ("true", "false", None)),
        (("1", "0", "", "-1"), ("1", "0", None, "-1")),
        (("1.0", "0.0", "2."), ("1", "0", "2")),
        (("01", "02"), ("01", "02")),
        (("1", "one"), ("1", "one")),
        (("1.5", "one"), ("1.5", "one")),
        (("NA", "None", "null"), ("NA", "None", "null")),
        ((2**60 + 1, 3), (str(2**60 + 1), "3")),
    ],
)
def test_one_rule_for_all_sources(cells: tuple[object, ...], expected: tuple[str | None, ...]) -> None:
    """Missing values, text, whole numbers in each spelling, and booleans."""
    assert names(*cells) == expected


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ((1, "1"), r"mixes kinds of values \(number: 1 at line 1; text: '1' at line 2\)"),
        ((True, 1), "boolean: True at line 1; number: 1 at line 2"),
        (("x", None, *(1,) * 9), "number: 1 at line 3, .* and 4 more"),
        ((0.5, 1.0), "0.5 at line 1 has decimals, .*regression is not supported"),
        (("0.5", "1"), "0.5 at line 1 has decimals"),
        ((1.0, math.inf), "inf at line 2 has decimals"),
        (("1", "01"), "'1', '01' are one number spelt in two ways .line 2."),
        (([1], [2]), "got list at line 1"),
        ((datetime.date(2020, 1, 1),), "got date at line 1"),
        ((Decimal(1),), "got Decimal at line 1"),
    ],
)
def test_what_is_no_class_is_refused_with_its_place(cells: tuple[object, ...], message: str) -> None:
    """Mixed kinds, decimals, two spellings, and values that are neither text nor number nor boolean."""
    with pytest.raises(DataError, match=message):
        names(*cells)


def test_order_of_classes() -> None:
    """Whole numbers in numeric order, everything else in lexicographic order, whatever came first."""
    assert in_order(["10", "-1", "9", "9"]) == ("-1", "9", "10")
    assert in_order(["b", "10", "9"]) == ("10", "9", "b")


def chosen(values: tuple[str | None, ...], **changes: int) -> tuple[str | None, ...]:
    return choose(values, DataConfig(source="a", text="t", label="l", attribute="a", **changes))  # type: ignore[arg-type]


def test_the_most_frequent_values_are_kept_and_ties_go_by_order() -> None:
    """attribute_top keeps the k most frequent; of equally frequent ones the first in order."""
    values = ("c", "c", "b", "b", "a", "a", None, "d")
    assert chosen(values, attribute_top=2) == (None, None, "b", "b", "a", "a", None, None)
    assert chosen(tuple(reversed(values)), attribute_top=2) == tuple(reversed(chosen(values, attribute_top=2)))


def test_rare_values_are_left_out() -> None:
    """attribute_min keeps the values that enough records have; where none has, the largest count is told."""
    assert chosen(("a", "a", "b"), attribute_min=2) == ("a", "a", None)
    with pytest.raises(DataError, match=r"no value of 'a' has 3 records; the most is 2"):
        chosen(("a", "a", "b"), attribute_min=3)


def test_quantities_and_identifiers_are_no_categories() -> None:
    """Ages from 18 to 90 are to be binned; a value for each row is an identifier; a choice of values overrides both."""
    ages = tuple(str(18 + i % 73) for i in range(730))
    with pytest.raises(DataError, match=r"73 different numbers: a quantity.*bins"):
        chosen(ages)
    assert len({*chosen(ages, attribute_top=5)} - {None}) == 5
    with pytest.raises(DataError, match=r"9 different values in 9 rows, too many to learn any"):
        chosen(tuple("abcdefghi"))
    assert chosen(("1", "2", "1", "2")) == ("1", "2", "1", "2")


def test_an_attribute_without_any_value() -> None:
    """A column that is empty in all usable rows is refused."""
    with pytest.raises(DataError, match=r"no usable row has a value in 'a'"):
        chosen((None, None))
