"""Exact per-example gradient clipping for any PyTorch model, in one backward pass.

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
from typing import Literal

import torch
from torch import Tensor, nn

from .checks import checked_losses, refuse_unfit
from .records import Record, squared_norms, widened
from .tape import Tape

Mode = Literal["book-keeping", "two-pass", "per-layer"]


class ClippedGradients:
    """Clips the gradient of each example to ``max_norm`` and adds the clipped gradients to ``.grad``."""

    def __init__(self, model: nn.Module, max_norm: float, mode: Mode = "book-keeping") -> None:
        if not (math.isfinite(max_norm) and max_norm > 0):
            raise ValueError(f"ClippedGradients: expected a finite max_norm > 0, got {max_norm}")
        refuse_unfit(model)
        self.max_norm = max_norm
        self.mode = mode
        self.nonfinite = 0
        self._tape = Tape(model)
        self._tape.attach()

    def backward(self, losses: Tensor) -> Tensor:
        """Adds Σ_i min(1, C/‖g_i‖) g_i to ``.grad``; returns the norms ‖g_i‖, shape (B,)."""
        losses = checked_losses(losses)
        records: dict[nn.Parameter, list[Record]] = {}

        def keep(parameter: nn.Parameter, record: Record) -> None:
            records.setdefault(parameter, []).append(record)

        self._tape.open(keep, len(losses))
        try:
            losses.sum().backward()
        finally:
            self._tape.close()
        return self._clip(records, losses)

    def detach(self) -> None:
        """Leaves the model as it was before."""
        self._tape.detach()

    @torch.no_grad()
    def _clip(self, records: dict[nn.Parameter, list[Record]], losses: Tensor) -> Tensor:
        total = torch.zeros(len(losses), dtype=torch.float64, device=losses.device)
        for parameter, uses in records.items():
            total += squared_norms(uses, parameter.shape)
        norms = total.sqrt()
        finite = norms.isfinite()
        factors = torch.where(norms > self.max_norm, self.max_norm / norms, 1.0)
        if not bool(finite.all()):
            self.nonfinite += int((~finite).sum())
            factors = factors[finite]
            records = {p: [r.take(finite) for r in uses] for p, uses in records.items()}
        for parameter, uses in records.items():
            _accumulate(parameter, uses, factors)
        return norms.to(widened(losses).dtype)


def _accumulate(parameter: nn.Parameter, uses: list[Record], factors: Tensor) -> None:
    """Adds Σ_i factors_i g_i to the parameter's gradient."""
    direct = parameter.grad is not None and parameter.dtype in (torch.float32, torch.float64)
    into = parameter.grad if direct else torch.zeros_like(widened(parameter.data))
    assert into is not None  # noqa: S101
    for use in uses:
        use.weighted_sum(factors, into)
    if direct:
        return
    if parameter.grad is None:
        parameter.grad = into.to(parameter.dtype)
    else:
        parameter.grad.add_(into)
