"""Fixtures of the clipping tests: tiny transformers, the slow obvious way, and the two compared."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dpeval_defenses.dp_adam.clipping import ClippedGradients

_HERE = Path(__file__).parent
BOUND = 0.5


@pytest.fixture(scope="session")
def zoo() -> SimpleNamespace:
    """The makers of ``zoo.py``: tiny transformers and batches for them."""
    return SimpleNamespace(**runpy.run_path(str(_HERE / "zoo.py")))


@pytest.fixture(scope="session")
def oracle() -> SimpleNamespace:
    """The brute force of ``oracle.py``."""
    return SimpleNamespace(**runpy.run_path(str(_HERE / "oracle.py")))


@pytest.fixture
def errors(oracle: SimpleNamespace) -> Callable[..., tuple[float, float]]:
    """``errors(model, losses)``: relative errors of the norms and of the clipped sum, against plain backward passes.

    ``losses()`` runs the model and returns its per-example losses; it is run under one random state, once for both.
    """

    def measure(model: nn.Module, losses: Callable[[], Tensor], mode: Any = "book-keeping") -> tuple[float, float]:
        torch.manual_seed(7)
        norms, expected = oracle.each_loss(model, losses(), BOUND)
        clip = ClippedGradients(model, BOUND if mode != "per-layer" else 1e9, mode)
        torch.manual_seed(7)
        found = clip.backward(losses())
        clip.detach()
        if mode == "per-layer":
            torch.manual_seed(7)
            norms, expected = oracle.each_loss(model, losses(), 1e9)
        return oracle.compare(model, found, norms, expected)

    return measure
