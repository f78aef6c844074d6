"""Per-example squared gradient norms from factors, each by the cheaper of its exact forms.

For G = LᵀR with L of shape (T, p) and R of shape (T, d): ‖G‖² = Σ_{t,s} (L_t·L_s)(R_t·R_s) costs 2T²(p + d)
operations (the *ghost* form: Goodfellow 2015; Li et al. 2022, equation 3), building G costs 2Tpd.

>>> import torch
>>> left, right = torch.randn(2, 7, 5), torch.randn(2, 7, 3)
>>> built = torch.stack([(l.T @ r).square().sum() for l, r in zip(left, right)])
>>> torch.allclose(outer_squared_norms(left, right), built, rtol=1e-4)
True
"""

from __future__ import annotations

import torch
from torch import Tensor

BUFFER = 1 << 22
"""Elements of the largest temporary that a norm may take (16 MiB of float32), beyond one example's gradient."""


def outer_squared_norms(left: Tensor, right: Tensor) -> Tensor:
    """‖left[i]ᵀ right[i]‖² for each example: left (B, T, p), right (B, T, d) -> (B,)."""
    _, steps, p = left.shape
    d = right.shape[2]
    if steps == 1:
        return (torch.linalg.vector_norm(left, dim=(1, 2)) * torch.linalg.vector_norm(right, dim=(1, 2))).square()
    if steps * (p + d) <= p * d:
        return ghost_squared_norms(left, right)
    return built_squared_norms(left, right)


def ghost_squared_norms(left: Tensor, right: Tensor) -> Tensor:
    """The ghost form, a few examples at a time: left (B, T, p), right (B, T, d) -> (B,)."""
    examples, steps = left.shape[:2]
    at_once = max(1, BUFFER // (steps * steps))
    parts = []
    for start in range(0, examples, at_once):
        a, b = left[start : start + at_once], right[start : start + at_once]
        parts.append((a @ a.mT).mul_(b @ b.mT).sum((1, 2)))
    return torch.cat(parts).clamp_(min=0)


def built_squared_norms(left: Tensor, right: Tensor) -> Tensor:
    """Builds the gradients, as many at a time as fit the buffer: left (B, T, p), right (B, T, d) -> (B,)."""
    examples, _, p = left.shape
    at_once = max(1, BUFFER // (p * right.shape[2]))
    parts = []
    for start in range(0, examples, at_once):
        built = left[start : start + at_once].mT @ right[start : start + at_once]
        parts.append(torch.linalg.vector_norm(built, dim=(1, 2)).square())
    return torch.cat(parts)


def rows_squared_norms(ids: Tensor, grad: Tensor, rows: int) -> Tensor:
    """‖Σ_s e(ids[i, s]) grad[i, s]ᵀ‖² for each example: ids (B, S), grad (B, S, d) -> (B,).

    Equal pairs (example, row) are found by sorting, their gradients summed, and the squares added by example.
    """
    examples = len(ids)
    key = (torch.arange(examples, device=ids.device)[:, None] * rows + ids).flatten()
    unique, where = torch.unique(key, return_inverse=True)
    summed = grad.new_zeros(len(unique), grad.shape[2]).index_add_(0, where, grad.flatten(0, 1))
    squares = torch.linalg.vector_norm(summed, dim=1).square()
    return grad.new_zeros(examples).index_add_(0, torch.div(unique, rows, rounding_mode="floor"), squares)


def gathered_squared_norms(left: Tensor, right: Tensor, ids: Tensor, grad: Tensor) -> Tensor:
    """⟨left[i]ᵀ right[i], Σ_s e(ids[i, s]) grad[i, s]ᵀ⟩: what a tied table's two uses have in common, shape (B,).

    left (B, T, V) and right (B, T, d) are the matrix's factors, ids (B, S) and grad (B, S, d) the lookups.
    """
    at_rows = left.gather(2, ids[:, None, :].expand(-1, left.shape[1], -1))
    return (at_rows * (right @ grad.mT)).sum((1, 2))
