"""The tensors that a function holds on to besides its arguments: closed-over labels, defaults, bound objects.

>>> labels = torch.tensor([1, 0])
>>> [t.tolist() for t in tensors_of(lambda out: out * labels)]
[[1, 0]]
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor


def tensors_of(function: Callable[..., Any]) -> list[Tensor]:
    """The tensors that ``function`` reaches through closures, globals, defaults, partials and containers."""
    return list(_found(function, depth=4))


def _found(value: Any, depth: int) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif depth and not isinstance(value, (str, bytes, type, torch.nn.Module)):
        for part in _parts(value):
            yield from _found(part, depth - 1)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple, set)):
        return list(value)
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if inspect.ismethod(value):
        return [value.__func__, *vars(value.__self__).values()] if hasattr(value.__self__, "__dict__") else []
    if inspect.isfunction(value):
        known = inspect.getclosurevars(value)
        return [*known.nonlocals.values(), *known.globals.values(), *(value.__defaults__ or ())]
    return []
