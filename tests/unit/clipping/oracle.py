"""The slow obvious way: one example, one forward, one backward, with nothing but torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def loop(model: nn.Module, count: int, loss_of: Callable[[int], Tensor], max_norm: float) -> tuple[Tensor, dict[str, Tensor]]:
    """Norms (count,) and the clipped sum by parameter name; ``loss_of(i)`` runs the model on example i alone."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    total = {name: torch.zeros_like(p) for name, p in named.items()}
    norms = []
    for i in range(count):
        grads = torch.autograd.grad(loss_of(i), list(named.values()), allow_unused=True, materialize_grads=True)
        norm = torch.sqrt(sum((g.double().square().sum() for g in grads), torch.zeros((), dtype=torch.float64)))
        norms.append(norm)
        for name, grad in zip(named, grads, strict=True):
            total[name] += min(1.0, max_norm / float(norm)) * grad if norm > 0 else grad
    return torch.stack(norms), total


def distance(model: nn.Module, expected: dict[str, Tensor]) -> float:
    """‖.grad − expected‖ / ‖expected‖ over all parameters together."""
    off = on = 0.0
    for name, p in model.named_parameters():
        if not p.requires_grad:
            assert p.grad is None, f"{name} is frozen but got a gradient"
            continue
        grad = torch.zeros_like(p) if p.grad is None else p.grad
        off += float((grad - expected[name]).double().square().sum())
        on += float(expected[name].double().square().sum())
    return (off / max(on, 1e-300)) ** 0.5
