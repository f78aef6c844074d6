"""What a result's identity is made of: canonical JSON, and the identity of a plug-in.

>>> key_of({"b": 1, "a": 2}) == key_of({"a": 2, "b": 1})
True
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Mapping
from typing import Any


def canonical(value: object) -> Any:
    """``value`` as plain JSON material: dataclasses by class and fields, tuples as lists, mappings by sorted keys."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: canonical(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__qualname__, **fields}
    if isinstance(value, Mapping):
        return {str(k): canonical(v) for k, v in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, (list, tuple)):
        return [canonical(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted(canonical(v) for v in value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"a result's identity is made of plain values, got {type(value).__name__}: {value!r}")


def key_of(identity: object) -> str:
    """SHA-256 of the canonical JSON of ``identity``, 40 hexadecimal digits."""
    text = json.dumps(canonical(identity), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def plugin_identity(plugin: object) -> dict[str, Any]:
    """Class, version, fields and, for code that dpeval does not ship, a digest of the defining module's source."""
    cls: type[Any] = type(plugin)
    return {
        "class": f"{_public_module(cls)}:{cls.__qualname__}",
        "version": int(getattr(cls, "version", 1)),
        "fields": canonical(plugin),
        "code": None if _ships_here(cls) else _source_digest(cls),
    }


def _public_module(cls: type) -> str:
    return str(getattr(inspect.getmodule(cls), "__dpeval_name__", cls.__module__))


def _ships_here(cls: type) -> bool:
    return cls.__module__.split(".")[0] in {"dpeval", "dpeval_attacks", "dpeval_defenses"}


def _source_digest(cls: type[Any]) -> str:
    try:
        source = inspect.getsource(inspect.getmodule(cls) or cls)
    except (OSError, TypeError):
        return "no-source"
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:16]
