"""Exact rules for the operations that use parameters: one file for each kind.

>>> len(RULES) > 6
True
"""

from collections.abc import Callable
from typing import Any

from . import embedding, linear, norm

RULES: dict[Callable[..., Any], Callable[..., Any]] = {**linear.RULES, **embedding.RULES, **norm.RULES}
