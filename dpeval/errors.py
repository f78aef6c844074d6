"""The errors dpeval raises on purpose; everything else is a bug.

>>> str(ConfigError("expected a number, got 'x'", file="matrix.toml", key="seeds"))
"matrix.toml: seeds: expected a number, got 'x'"
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DpevalError(Exception):
    """Base of all deliberate errors."""


class ConfigError(DpevalError):
    """A matrix file, an option or a name is wrong. Raised before anything is trained."""

    def __init__(self, message: str, *, file: object = None, key: str | None = None, line: int | None = None) -> None:
        place = f"{file}:{line}" if file is not None and line else file
        super().__init__(": ".join(str(part) for part in (place, key, message) if part is not None))


class DataError(DpevalError, ValueError):
    """A data source cannot be read as asked."""


class ModelError(DpevalError):
    """A model or tokenizer cannot be used as asked."""


class StoreError(DpevalError):
    """Results cannot be written or another run holds the folder."""


class LeakError(DpevalError):
    """Something after the release point still depends on the clear input."""


def near_miss(name: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known name, then all of them.

    >>> near_miss("dp-adm", ["none", "dp-adam"])
    "did you mean 'dp-adam'? Known: dp-adam, none"
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(names) or 'none'}"
