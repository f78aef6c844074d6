"""Arguments for trial runs, made of some rows of a call's own, and what such runs must leave as it was.

>>> rows_of({"mask": torch.tensor([[1], [0]]), "name": "x"}, rows=[0, 0, 1], leads=False, size=2)
{'mask': tensor([[1],
        [1],
        [0]]), 'name': 'x'}
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def devices(leaves: list[Any]) -> list[int]:
    """The CUDA devices on which a run draws random numbers."""
    return sorted({leaf.device.index for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_cuda})


def rows_of(leaf: Any, rows: list[int], leads: bool, size: int) -> Any:
    """``rows`` of a tensor that leads with the batch; a copy of anything else that a run could change."""
    if isinstance(leaf, Tensor):
        return leaf.detach()[rows] if leads else leaf
    return _copied(leaf, rows, size, {})


def _copied(value: Any, rows: list[int], size: int, done: dict[int, Any]) -> Any:
    """A copy of a container or object (a cache of keys and values) whose tensors with ``size`` rows have ``rows``."""
    if isinstance(value, Tensor):
        return rows_of(value, rows, value.ndim > 0 and len(value) == size, size)
    if id(value) in done or value is None or isinstance(value, (bool, int, float, str, type)) or callable(value):
        return done.get(id(value), value)
    if isinstance(value, (list, tuple, set, dict)):
        return _copied_container(value, rows, size, done)
    new = done[id(value)] = copy.copy(value)
    for name, attribute in list(getattr(value, "__dict__", {}).items()):
        vars(new)[name] = _copied(attribute, rows, size, done)
    return new


def _copied_container(value: Any, rows: list[int], size: int, done: dict[int, Any]) -> Any:
    if isinstance(value, dict):
        new = copy.copy(value)
        new.update({key: _copied(part, rows, size, done) for key, part in value.items()})
        return new
    parts = [_copied(part, rows, size, done) for part in value]
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


@contextmanager
def kept(module: nn.Module) -> Iterator[None]:
    """Within it, buffers and attributes of the modules and generators may change; afterwards they are as before."""
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    tables: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for part in module.modules():
        own = vars(part)
        tables += [(table, dict(table)) for table in (own, own["_buffers"])]
    generators = [(g, g.get_state()) for part in module.modules() for g in vars(part).values()
                  if isinstance(g, torch.Generator)]  # fmt: skip
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - what a model may draw from
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        for generator, state in generators:
            generator.set_state(state)
        for table, before in tables:
            _put_back(table, before)
        for buffer, value in buffers:
            if not torch.equal(buffer, value):
                buffer.copy_(value)


def _put_back(table: dict[str, Any], before: Mapping[str, Any]) -> None:
    if table.keys() == before.keys() and all(table[name] is value for name, value in before.items()):
        return
    table.clear()
    table.update(before)
