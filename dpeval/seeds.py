"""One independent random stream for each (stage, cell), whatever the order or the process in which it is used.

>>> derive(0, "split") != derive(0, "noise") and derive(0, "split") == derive(0, "split")
True
>>> int(rng(7, "bootstrap").integers(1000)) == int(rng(7, "bootstrap").integers(1000))
True
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(root: int, *names: str | int) -> int:
    """A 63-bit seed from ``root`` and a path of names, by SHA-256: streams of different paths are unrelated."""
    text = "\x1f".join([str(int(root)), *(f"{type(name).__name__}:{name}" for name in names)])
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") >> 1


def rng(root: int, *names: str | int) -> np.random.Generator:
    """A numpy generator for the stream ``(root, *names)``."""
    return np.random.default_rng(derive(root, *names))


def generator(root: int, *names: str | int) -> torch.Generator:
    """A torch CPU generator for the stream ``(root, *names)``."""
    import torch

    return torch.Generator().manual_seed(derive(root, *names))
