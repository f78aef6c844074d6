"""Exact per-example gradient clipping for any PyTorch model, in one backward pass.

>>> import torch
>>> model = torch.nn.Linear(2, 1, bias=False)
>>> clip = ClippedGradients(model, max_norm=1.0)
>>> clip.backward(model(torch.tensor([[3.0, 4.0], [0.0, 0.5]])).squeeze(1)).tolist()
[5.0, 0.5]
>>> [[round(x, 4) for x in row] for row in model.weight.grad.tolist()]
[[0.6, 1.3]]
>>> clip.detach()
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from torch import Tensor, nn

from .checks import checked_losses, refuse_unfit
from .modes import BookKeeping, Mode, PerLayer, TwoPass
from .records import widened
from .tape import Tape

ModeName = Literal["book-keeping", "two-pass", "per-layer"]


class ClippedGradients:
    """Clips the gradient of each example to ``max_norm`` and adds the clipped gradients to ``.grad``."""

    def __init__(self, model: nn.Module, max_norm: float, mode: ModeName = "book-keeping") -> None:
        if not (math.isfinite(max_norm) and max_norm > 0):
            raise ValueError(f"ClippedGradients: expected a finite max_norm > 0, got {max_norm}")
        if mode not in get_args(ModeName):
            raise ValueError(f"ClippedGradients: expected mode in {get_args(ModeName)}, got {mode!r}")
        refuse_unfit(model)
        self.max_norm = max_norm
        self.mode: ModeName = mode
        self.nonfinite = 0
        self._tape = Tape(model)
        self._tape.attach()

    def backward(self, losses: Tensor) -> Tensor:
        """Adds Σ_i min(1, C/‖g_i‖) g_i to ``.grad``; returns the norms ‖g_i‖, shape (B,)."""
        losses = checked_losses(losses)
        squares = self._running().run(losses)
        self.nonfinite += int((~squares.isfinite()).sum())
        return squares.sqrt().to(widened(losses).dtype)

    def groups(self) -> dict[str, float]:
        """The bound of each group of parameters that is clipped on its own; flat clipping has one group, ''."""
        if self.mode != "per-layer":
            return {"": self.max_norm}
        names = list(dict.fromkeys(self._group_names().values()))
        return {name: self.max_norm / math.sqrt(len(names)) for name in names}

    def detach(self) -> None:
        """Leaves the model as it was before."""
        self._tape.detach()

    def _running(self) -> Mode:
        if self.mode == "book-keeping":
            return BookKeeping(self._tape, self.max_norm)
        if self.mode == "two-pass":
            return TwoPass(self._tape, self.max_norm)
        names = self._group_names()
        return PerLayer(self._tape, self.groups(), names.__getitem__)

    def _group_names(self) -> dict[nn.Parameter, str]:
        return {p: name.rpartition(".")[0] for name, p in self._tape.model.named_parameters() if p.requires_grad}
