"""The [data] and [split] tables: what they accept, how they hold it, and what their errors say."""

from __future__ import annotations

import tomllib

import pytest

from dpeval.data.config import DataConfig, SplitConfig, text_of
from dpeval.data.errors import DataError


def config(**changes: object) -> DataConfig:
    return DataConfig(**{"source": "a.csv", "text": "text", "label": "label", **changes})  # type: ignore[arg-type]


def test_a_toml_table_becomes_a_hashable_config() -> None:
    """Lists and tables of TOML are frozen, so that a config can be a key."""
    table = tomllib.loads(
        """
        source = "hub:glue"
        text = ["question1", "question2"]
        label = "label"
        where = { lang = ["en", "fr"], stars = 5, kept = true }
        near_duplicates = false
        """
    )
    made = DataConfig(**table)
    assert made.texts == ("question1", "question2")
    assert made.filters == (("kept", ("true",)), ("lang", ("en", "fr")), ("stars", ("5",)))
    assert made.near_duplicates is None
    assert hash(made) == hash(DataConfig(**table))


@pytest.mark.parametrize(
    "where", [{"lang": ["en", "fr"]}, "lang = en | fr", (("lang", ("en", "fr")),), [["lang", ["en", "fr"]]]]
)
def test_where_has_several_spellings_of_one_meaning(where: object) -> None:
    """A table, a string and the held form are equal."""
    assert config(where=where).filters == (("lang", ("en", "fr")),)


def test_columns_names_everything_that_is_read_once() -> None:
    """Columns used twice, here by the filter, are read once."""
    made = config(text=("a", "b"), attribute="genre", id="key", where={"genre": "x", "year": 2001})
    assert made.columns == ("a", "b", "label", "genre", "key", "year")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": " "}, "source: expected a text that is not empty"),
        ({"text": 5}, "text: expected a column or a pair"),
        ({"text": ["a"]}, "text: expected a column or a pair"),
        ({"text": ["a", "b", "c"]}, "text: expected a column or a pair"),
        ({"text": ["a", "a"]}, "text: the two columns of a pair differ"),
        ({"label": "text"}, "label: 'text' is also the text column"),
        ({"attribute": "label"}, "attribute: 'label' is already the text or the label"),
        ({"attribute_top": 5}, "attribute_top: there is no attribute"),
        ({"attribute": "g", "attribute_top": 1}, "attribute_top: expected a whole number of at least 2, got 1"),
        ({"attribute": "g", "attribute_min": 0.5}, "attribute_min: expected a whole number of at least 1, got 0.5"),
        ({"sample": True}, "sample: expected a whole number"),
        ({"near_duplicates": 0.05}, "near_duplicates: expected a Jaccard similarity"),
        ({"near_duplicates": True}, "near_duplicates: expected a Jaccard similarity"),
        ({"delimiter": ";;"}, "delimiter: expected one character"),
        ({"where": "lang"}, 'where: expected "column = value'),
        ({"where": {"lang": []}}, "where: expected a table"),
        ({"where": {"lang": [["en"]]}}, "where: expected a table"),
        ({"where": 5}, "where: expected a table"),
    ],
)
def test_errors_name_the_key(changes: dict[str, object], message: str) -> None:
    """Each unusable value is refused with its key and what was expected."""
    with pytest.raises(DataError) as caught:
        config(**changes)
    assert str(caught.value).startswith("[data] ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"auxiliary": 0}, "auxiliary"),
        ({"test": 1.0}, "test"),
        ({"test": "x"}, "test"),
        ({"auxiliary": 0.9, "test": 0.2}, "1.1"),
    ],
)
def test_split_parts_leave_something_for_the_candidates(parts: dict[str, float], message: str) -> None:
    """Parts lie between 0 and 1 and sum to less than 1."""
    with pytest.raises(DataError, match=message):
        SplitConfig(**parts)


def test_cells_as_text() -> None:
    """Numbers, booleans and missing values are written as a user writes them in where."""
    assert [text_of(cell) for cell in (1, 1.0, 1.5, True, None, float("nan"), " x")] == [
        "1",
        "1",
        "1.5",
        "true",
        "",
        "",
        " x",
    ]
