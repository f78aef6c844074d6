"""The ``[data]`` table of a matrix file, and how the pool is divided into roles.

>>> config = DataConfig(source="reviews.csv", text="text", label="stars", where={"language": "en"})
>>> config.where
(('language', ('en',)),)
>>> DataConfig(source="reviews.csv", text="text", label="text")
Traceback (most recent call last):
...
dpeval.errors.DataError: [data] label: 'text' is also the text column; a classifier would read its own answer
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dpeval.data.errors import DataError

Scalar: TypeAlias = str | int | float | bool
Filters: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
Where: TypeAlias = Filters | Mapping[str, Scalar | Sequence[Scalar]] | str


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which records to load, and which columns hold the text, the task label and the sensitive attribute.

    Raises:
        DataError: a value is unusable; the message names its key and what to do.
    """

    source: str
    """``hub:ID`` or ``hub:ID@REVISION``; a file (.csv .tsv .jsonl .json .parquet, each also .gz .bz2 .xz .zst .zip);
    a folder written by ``datasets.save_to_disk``; or ``synthetic:NAME``. Relative paths start at the matrix file."""
    text: str | tuple[str, str]
    """The text column, or two of them for pairs of texts."""
    label: str
    """The task's class: text, whole numbers or booleans, of one kind throughout the column."""
    attribute: str | None = None
    """The sensitive attribute; records without a value take no part in attribute attacks."""
    attribute_top: int | None = None
    """Keep the k most frequent attribute values (ties: first in order); other records keep no attribute."""
    attribute_min: int | None = None
    """Keep attribute values that at least this many records have."""
    covariates: tuple[str, ...] = ()
    """Text-free columns (names, numbers or dates; cells may be missing) known of everyone without any embedding.
    A baseline infers the attribute from them; attacks never see them, and trainings do not depend on them."""
    id: str | None = None
    """A column of unique record ids; by default the number of the data row (of the line, for JSON lines)."""
    where: Where = ()
    """Keep rows whose column holds one of the values, compared as text. In TOML a table: ``where = {lang = ["en"]}``;
    a string ``"lang = en | fr"`` says the same. Held as ``((column, (value, …)), …)``, sorted by column."""
    test: str | None = None
    """A second source, used as the test set instead of a part of the pool."""
    sample: int | None = None
    """Keep this many of the cleaned records, chosen by a hash of their id (the same whatever the training seed);
    with an ``attribute``, records that have one come first."""
    split: str | None = None
    """Which split of a hub or saved data set; several as ``"train+validation"``."""
    test_split: str | None = None
    """Which split serves as the test set; of ``test`` where that is given, otherwise of ``source``."""
    subset: str | None = None
    """The configuration of a hub data set that has several, such as ``"sst2"`` of GLUE."""
    encoding: str | None = None
    """How a text file is encoded; by default UTF-8, or what its byte-order mark says."""
    delimiter: str | None = None
    """What separates the fields of a .csv or .tsv file; by default a comma or a tab."""
    near_duplicates: float | None = 0.8
    """Texts whose word shingles have at least this Jaccard similarity form one group that no split divides.
    ``0`` or ``false`` turns the search off; texts that are equal but for case and punctuation stay grouped."""

    def __post_init__(self) -> None:
        self._freeze()
        for name in ("source", "label", "attribute", "id", "test", "split", "test_split", "subset", "encoding"):
            _check_name(name, getattr(self, name))
        _check_columns(self)
        _check_covariates(self)
        _check_whole("attribute_top", self.attribute_top, least=2)
        _check_whole("attribute_min", self.attribute_min, least=1)
        _check_whole("sample", self.sample, least=4)
        _check_threshold(self.near_duplicates)
        if self.delimiter is not None and (not isinstance(self.delimiter, str) or len(self.delimiter) != 1):
            raise DataError(f"[data] delimiter: expected one character such as ';', got {self.delimiter!r}")

    def _freeze(self) -> None:
        """Turn what TOML gives (lists, tables, false) into the hashable values that the fields promise."""
        object.__setattr__(self, "text", _text_columns(self.text))
        object.__setattr__(self, "covariates", _column_names(self.covariates))
        if self.near_duplicates is not None and not self.near_duplicates:
            object.__setattr__(self, "near_duplicates", None)
        object.__setattr__(self, "where", _filters(self.where))

    @property
    def texts(self) -> tuple[str, ...]:
        """The text columns: one or two names."""
        return (self.text,) if isinstance(self.text, str) else self.text

    @property
    def filters(self) -> Filters:
        """``where`` as it is held, typed: ``((column, (value, …)), …)``."""
        return _filters(self.where)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, without repeats."""
        filtered = (column for column, _ in self.filters)
        named = (*self.texts, self.label, self.attribute, self.id, *filtered, *self.covariates)
        return tuple(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True, kw_only=True)
class SplitConfig:
    """What part of the pool each role gets; the rest are candidates, each group a member by its own fair coin.

    Raises:
        DataError: a part is not between 0 and 1, or nothing is left for the candidates.
    """

    auxiliary: float = 0.25
    """What an adversary may hold: texts of the same population, with labels and attributes."""
    test: float = 0.15
    """What utility is measured on, unless the data bring a test set of their own."""

    def __post_init__(self) -> None:
        for name in ("auxiliary", "test"):
            part = getattr(self, name)
            if isinstance(part, bool) or not isinstance(part, int | float) or not 0 < part < 1:
                raise DataError(
                    f"[split] {name}: expected a part of the pool between 0 and 1, such as 0.2, got {part!r}"
                )
        if self.auxiliary + self.test >= 1:
            raise DataError(
                f"[split] auxiliary + test: expected less than 1, got {self.auxiliary + self.test:g}; "
                "nothing would be left for members and non-members"
            )


def text_of(value: object) -> str:
    """A cell as text: whole numbers without a decimal point, booleans as true and false, a missing value as ''."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _filters(where: Where) -> Filters:
    if isinstance(where, str):
        return _filters(_parsed(where))
    pairs = where.items() if isinstance(where, Mapping) else where
    try:
        return tuple(sorted((str(column), _allowed(values)) for column, values in pairs))
    except (TypeError, ValueError) as error:
        raise DataError(f'[data] where: expected a table such as {{lang = ["en", "fr"]}}, got {where!r}') from error


def _parsed(where: str) -> Mapping[str, Sequence[Scalar]]:
    column, equals, values = where.partition("=")
    if not (column.strip() and equals and values.strip()):
        raise DataError(f'[data] where: expected "column = value | value" or a table, got {where!r}')
    return {column.strip(): [value.strip() for value in values.split("|")]}


def _allowed(values: Scalar | Sequence[Scalar]) -> tuple[str, ...]:
    several = [values] if isinstance(values, str | int | float | bool) else list(values)
    if not several or not all(isinstance(value, str | int | float | bool) for value in several):
        raise ValueError("no allowed value")
    return tuple(text_of(value).strip() for value in several)


def _text_columns(text: object) -> str | tuple[str, str]:
    """One column name, or a pair of them; anything else is refused."""
    match text:
        case str() if text.strip():
            return text
        case [str() as first, str() as second] if first.strip() and second.strip():
            return first, second
    raise DataError(f'[data] text: expected a column or a pair such as ["question1", "question2"], got {text!r}')


def _column_names(names: object) -> tuple[str, ...]:
    if isinstance(names, list | tuple) and all(isinstance(name, str) and name.strip() for name in names):
        return tuple(names)
    raise DataError(f'[data] covariates: expected a list of columns such as ["age", "city"], got {names!r}')


def _check_name(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise DataError(f"[data] {name}: expected a text that is not empty, got {value!r}")


def _check_columns(config: DataConfig) -> None:
    if len(set(config.texts)) != len(config.texts):
        raise DataError(f"[data] text: the two columns of a pair differ, got {config.texts[0]!r} twice")
    if config.label in config.texts:
        raise DataError(
            f"[data] label: {config.label!r} is also the text column; a classifier would read its own answer"
        )
    if config.attribute in (*config.texts, config.label):
        raise DataError(
            f"[data] attribute: {config.attribute!r} is already the text or the label; name another column, or none"
        )
    for name in ("attribute_top", "attribute_min"):
        if getattr(config, name) is not None and config.attribute is None:
            raise DataError(f"[data] {name}: there is no attribute to choose values of; add attribute = COLUMN")


def _check_covariates(config: DataConfig) -> None:
    names = config.covariates
    if len(set(names)) != len(names):
        raise DataError(f"[data] covariates: each column once, got {list(names)!r}")
    for name in names:
        if name in config.texts:
            raise DataError(f"[data] covariates: {name!r} is the text column; what the text tells is no covariate")
        if name == config.attribute:
            raise DataError(
                f"[data] covariates: {name!r} is the attribute itself; a baseline that is given it has nothing to infer"
            )
    if names and config.attribute is None:
        raise DataError("[data] covariates: there is no attribute to infer from them; add attribute = COLUMN")


def _check_whole(name: str, value: object, least: int) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise DataError(f"[data] {name}: expected a whole number of at least {least}, got {value!r}")


def _check_threshold(value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0.1 <= value <= 1):
        raise DataError(
            f"[data] near_duplicates: expected a Jaccard similarity from 0.1 to 1, or 0 for no search, got {value!r}"
        )
