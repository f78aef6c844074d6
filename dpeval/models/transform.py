"""What a release does to the tapped tensor before it leaves the device.

A transform is a frozen dataclass; its import path and its fields are all that is stored of it.

>>> from_json(to_json(Identity()))
Identity()
"""

from __future__ import annotations

import dataclasses
import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dpeval.errors import StoreError


@dataclass(frozen=True)
class Transform(ABC):
    """A change of the released tensor, drawn for each example from its own generator."""

    @abstractmethod
    def apply(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """The released tensor for ``x`` of shape (B, rows, d), same shape; ``generators[i]`` (CPU) serves example i."""

    def noisier(self, factor: float) -> Transform | None:
        """The same change with its noise multiplied by ``factor``; ``None`` where no field ``sigma`` is its scale."""
        sigma = getattr(self, "sigma", None)
        if not isinstance(sigma, float | int) or isinstance(sigma, bool):
            return None
        louder: Transform = dataclasses.replace(self, sigma=sigma * factor)  # type: ignore[call-arg]
        return louder


@dataclass(frozen=True)
class Identity(Transform):
    """Releases the clear tensor."""

    def apply(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """``x`` itself."""
        del generators
        return x


def normal_like(x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """Standard normal noise of the shape of ``x``, example i from ``generators[i]``: independent of batch and order."""
    drawn = torch.empty(x.shape, dtype=x.dtype)
    for row, draw in zip(drawn, generators, strict=True):
        row.normal_(generator=draw)
    return drawn.to(x.device)


def to_json(transform: Transform) -> dict[str, Any]:
    """Import path and fields of ``transform``."""
    cls = type(transform)
    return {"class": f"{cls.__module__}:{cls.__qualname__}", "fields": dataclasses.asdict(transform)}


def from_json(stored: Mapping[str, Any]) -> Transform:
    """The transform that :func:`to_json` described; StoreError when its class cannot be found."""
    module, _, name = str(stored["class"]).partition(":")
    try:
        cls = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise StoreError(f"transform {stored['class']}: not found; load the plug-in that defines it first") from error
    if not (isinstance(cls, type) and issubclass(cls, Transform)):
        raise StoreError(f"{stored['class']}: expected a Transform, got {cls!r}")
    return cls(**stored["fields"])
