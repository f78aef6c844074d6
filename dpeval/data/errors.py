"""What this package raises, and how its messages help: near misses for names that do not exist.

>>> did_you_mean("sentense", ["sentence", "label"])
"did you mean 'sentence'? there are: 'sentence', 'label'"
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from dpeval.errors import DataError

__all__ = ["DataError", "did_you_mean", "listed"]

MOST_LISTED = 30


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """The names closest to ``name`` and the list of those that exist, as the end of an error message."""
    known = list(options)
    lowered = {option.lower(): option for option in known}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.6)
    asked = f"did you mean {listed(lowered[c] for c in close)}? " if close else ""
    return f"{asked}there are: {listed(known)}" if known else "there are none"


def listed(names: Iterable[str]) -> str:
    """Names in quotes, in order, and how many more where the list would be too long."""
    known = list(names)
    shown = ", ".join(repr(name) for name in known[:MOST_LISTED])
    rest = len(known) - MOST_LISTED
    return f"{shown} and {rest} more" if rest > 0 else shown
