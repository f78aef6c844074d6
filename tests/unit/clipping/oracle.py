"""The slow obvious way: one example, one backward pass, with nothing but torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Sums = dict[str, Tensor]


def alone(model: nn.Module, count: int, loss_of: Callable[[int], Tensor], bound: float) -> tuple[Tensor, Sums]:
    """Norms (count,) and the clipped sum by parameter name; ``loss_of(i)`` runs the model on example i alone."""
    return _clipped(model, (loss_of(i) for i in range(count)), bound)


def each_loss(model: nn.Module, losses: Tensor, bound: float) -> tuple[Tensor, Sums]:
    """The same from the losses of one batch, each with a backward pass of its own."""
    return _clipped(model, iter(losses), bound)


def _clipped(model: nn.Module, losses, bound: float) -> tuple[Tensor, Sums]:
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    total = {name: torch.zeros_like(p) for name, p in named.items()}
    norms = []
    for loss in losses:
        grads = torch.autograd.grad(
            loss, list(named.values()), allow_unused=True, materialize_grads=True, retain_graph=True
        )
        norm = sum(float(g.double().square().sum()) for g in grads) ** 0.5
        norms.append(norm)
        for name, grad in zip(named, grads, strict=True):
            total[name] += min(1.0, bound / norm if norm else 1.0) * grad
    return torch.tensor(norms, dtype=torch.float64), total


def compare(model: nn.Module, found: Tensor, norms: Tensor, expected: Sums) -> tuple[float, float]:
    """The largest relative error of a norm, and ‖.grad − expected‖ / ‖expected‖ over all; clears ``.grad``."""
    off = on = 0.0
    for name, p in model.named_parameters():
        if name not in expected:
            assert p.grad is None, f"{name} is frozen but got a gradient"
            continue
        grad = torch.zeros_like(p) if p.grad is None else p.grad
        off += float((grad.double() - expected[name].double()).square().sum())
        on += float(expected[name].double().square().sum())
        p.grad = None
    return float(((found - norms).abs() / norms.clamp(min=1e-12)).max()), (off / max(on, 1e-300)) ** 0.5
