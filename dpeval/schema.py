"""Turns a table of a TOML file into a frozen dataclass: unknown keys, wrong types and missing values are said by name.

The fields of the dataclass are the schema. A list where one value is expected is a *sweep*.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True, kw_only=True)
... class Dial:
...     level: float = 1.0
>>> build(Dial, {"level": 3}, Place("m.toml", "dial"))
Dial(level=3.0)
>>> [dial.level for dial in sweep(Dial, {"level": [1, 2]}, Place("m.toml", "dial"))]
[1.0, 2.0]
>>> build(Dial, {"levle": 3}, Place("m.toml", "dial"))
Traceback (most recent call last):
    ...
dpeval.errors.ConfigError: m.toml: dial.levle: unknown key; did you mean 'level'? Known: level
"""

from __future__ import annotations

import dataclasses
import itertools
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from dpeval.errors import ConfigError, near_miss

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """Where a value stands: the file, the key path, and the text of the file to find lines in."""

    file: str
    key: str = ""
    text: str = ""

    def at(self, name: str) -> Place:
        """The place of a key below this one."""
        return Place(self.file, f"{self.key}.{name}" if self.key else name, self.text)

    def error(self, message: str) -> ConfigError:
        """An error at this place, with the line if the key occurs once in the file."""
        return ConfigError(message, file=self.file, key=self.key, line=self._line())

    def _line(self) -> int | None:
        last = self.key.rpartition(".")[2].partition("[")[0]
        lines = self.text.splitlines()
        hits = [i for i, line in enumerate(lines, 1) if line.split("=")[0].strip().strip("\"'") == last]
        headers = [i for i, line in enumerate(lines, 1) if line.strip().strip("[]").strip() == last]
        found = hits or headers
        return found[0] if len(found) == 1 else None


def build(cls: type[T], table: Mapping[str, Any], place: Place) -> T:
    """An instance of the dataclass ``cls`` from ``table``; ConfigError names file, key and the nearest valid key."""
    hints = _fields(cls)
    for name in table:
        if name not in hints:
            raise place.at(name).error(f"unknown key; {near_miss(name, hints)}")
    values = {name: _value(hints[name], value, place.at(name)) for name, value in table.items()}
    for item in dataclasses.fields(cls):  # type: ignore[arg-type]
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if item.init and required and item.name not in values:
            raise place.at(item.name).error(f"this key is required ({_shown(hints[item.name])})")
    try:
        return cls(**values)
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise place.error(str(error)) from error


def sweep(cls: type[T], table: Mapping[str, Any], place: Place) -> list[T]:
    """Every instance that ``table`` describes: the product of the keys that hold a list where one value is expected."""
    hints = _fields(cls)
    axes: list[list[tuple[str, Any]]] = []
    for name, value in table.items():
        if isinstance(value, list) and name in hints and not _takes_list(hints[name], value):
            if not value:
                raise place.at(name).error("an empty list sweeps over nothing; give at least one value")
            axes.append([(name, each) for each in value])
        else:
            axes.append([(name, value)])
    return [build(cls, dict(choice), place) for choice in itertools.product(*axes)]


def _fields(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}


def _takes_list(hint: Any, value: list[Any]) -> bool:
    """Whether the annotation wants this list as one value (a list of lists sweeps over such values)."""
    origins = {get_origin(part) or part for part in _alternatives(hint)}
    wants = bool(origins & {tuple, list, set, frozenset, Sequence}) or Any in origins
    return wants and not (value and all(isinstance(each, list) for each in value))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(part for arg in get_args(hint) for part in _alternatives(arg))
    return (hint,)


def _value(hint: Any, value: Any, place: Place) -> Any:
    try:
        return _adapter(hint).validate_python(_frozen(value))
    except ValidationError as error:
        got = f"{value!r} ({type(value).__name__})"
        first = error.errors(include_url=False, include_context=False)[0]
        raise place.error(f"expected {_shown(hint)}, got {got}: {first['msg'][0].lower()}{first['msg'][1:]}") from error


def _adapter(hint: Any) -> TypeAdapter[Any]:
    strict = ConfigDict(strict=True, arbitrary_types_allowed=True)
    try:
        return TypeAdapter(hint, config=strict)
    except PydanticUserError:  # the type carries a configuration of its own
        return TypeAdapter(hint)


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(each) for each in value)
    return value


def _shown(hint: Any) -> str:
    parts = [part for part in _alternatives(hint) if part is not type(None)]
    return " or ".join(_shown_one(part) for part in parts)


def _shown_one(hint: Any) -> str:
    if get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(repr(a) for a in get_args(hint))
    names = {float: "a number", int: "a whole number", str: "text", bool: "true or false"}
    return names.get(hint) or getattr(hint, "__name__", None) or str(hint)
