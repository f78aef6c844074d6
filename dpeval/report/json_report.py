"""A run as JSON material with a versioned schema, and back again without loss.

Undefined values are ``null`` with their reason, ``{"value": null, "undefined": "one class"}``; infinite numbers are the
texts ``"infinity"`` and ``"-infinity"``, since JSON has no number for them.

>>> load({"schema": "dpeval/run/7"})
Traceback (most recent call last):
    ...
ValueError: schema: expected 'dpeval/run/2', got 'dpeval/run/7': written by a newer dpeval; upgrade to read it
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dpeval.results import SCHEMA, RunResult, to_json
from dpeval.types import NoClaim, Undefined

COMPARISON = "dpeval/comparison/1"
OLDER = ("dpeval/run/1",)
"""Schemas that :func:`migrated` brings up to date."""
INFINITE = {"infinity": math.inf, "-infinity": -math.inf}
FREE = ("settings", "details", "diagnostics")
"""Fields that hold any plain value: there the texts for infinity cannot be told by the type of the field."""


def dump(result: RunResult) -> dict[str, Any]:
    """``result`` as dicts, lists, texts and finite numbers, with ``schema`` first."""
    body: dict[str, Any] = to_json(result)
    return {"schema": SCHEMA, **body}


def text(result: RunResult) -> str:
    """:func:`dump` as indented JSON text that ends with a line break."""
    return json.dumps(dump(result), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def compare_json(results: Sequence[RunResult]) -> str:
    """Several runs in one document, each as :func:`dump` has it."""
    body = {"schema": COMPARISON, "runs": [dump(result) for result in results]}
    return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def load(material: Mapping[str, Any]) -> RunResult:
    """The result that :func:`dump` wrote. Fields that this version does not know are left out.

    Raises:
        ValueError: another schema, or a field that is missing or of the wrong type; the message names it.
    """
    _check_schema(material.get("schema") if isinstance(material, Mapping) else None)
    body = {key: _revived(value, key) for key, value in migrated(material).items() if key != "schema"}
    try:
        return _adapter().validate_python(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{place or 'the file'}: {first['msg']}; the file is damaged or was edited") from error


def migrated(material: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same material as the present schema has it.

    Version 1 named the ceiling of an audit ``smallest_refutable``; it did not hold the detection limit.
    """
    if material["schema"] != "dpeval/run/1":
        return material
    return {**material, "defenses": [_with_ceiling(one) for one in material.get("defenses", [])]}


def _with_ceiling(defense: Any) -> Any:
    if not isinstance(defense, Mapping) or not isinstance(defense.get("verdict"), Mapping):
        return defense
    verdict = dict(defense["verdict"])
    verdict["ceiling"] = verdict.pop("smallest_refutable", None)
    return {**defense, "verdict": verdict}


def _check_schema(found: object) -> None:
    if found in (SCHEMA, *OLDER):
        return
    family, _, version = SCHEMA.rpartition("/")
    if not isinstance(found, str) or not found.startswith(f"{family}/"):
        raise ValueError(f"schema: expected {SCHEMA!r}, got {found!r}: this is not the result of a dpeval run")
    newer = found.rpartition("/")[2].isdigit() and int(found.rpartition("/")[2]) > int(version)
    advice = (
        "written by a newer dpeval; upgrade to read it" if newer else "written by an older dpeval; run the matrix again"
    )
    raise ValueError(f"schema: expected {SCHEMA!r}, got {found!r}: {advice}")


def _revived(value: Any, key: str) -> Any:
    """``value`` with the records that JSON flattens put back: Undefined, NoClaim, infinities of free fields."""
    if isinstance(value, Mapping):
        if "undefined" in value and value.get("value", 0) is None:
            return Undefined(value["undefined"])
        if "no_claim" in value:
            return NoClaim(value["no_claim"])
        return {name: _revived(each, key if key in FREE else name) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_revived(each, key) for each in value)
    if key in FREE and isinstance(value, str):
        return INFINITE.get(value, value)
    if key == "diagnostics" and value is None:
        return math.nan
    return value


@cache
def _adapter() -> TypeAdapter[RunResult]:
    return TypeAdapter(RunResult)
