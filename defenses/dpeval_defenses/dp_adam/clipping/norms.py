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

BLOCK = 128
"""Gram matrices of at least twice as many positions are taken in halves, for their symmetry."""
BUFFER = 1 << 22
"""Elements of the largest part of Gram matrices that is held at a time (16 MiB of float32)."""
SMALL = 1 << 14
"""Elements of gradients that are built for several examples at a time (64 KiB of float32); larger ones one by one."""


def outer_squared_norms(left: Tensor, right: Tensor) -> Tensor:
    """‖left[i]ᵀ right[i]‖² for each example: left (B, T, p), right (B, T, d) -> (B,)."""
    return shared_squared_norms(left, [right])


def shared_squared_norms(data: Tensor, grads: list[Tensor]) -> Tensor:
    """Σ_l ‖data[i]ᵀ grads[l][i]‖²: several matrices applied to the same rows, (B, T, d) and (B, T, p_l) -> (B,)."""
    _, steps, d = data.shape
    widths = [g.shape[2] for g in grads]
    if steps == 1:
        squares = [torch.linalg.vector_norm(g, dim=(1, 2)).square() for g in grads]
        product: Tensor = torch.linalg.vector_norm(data, dim=(1, 2)).square() * torch.stack(squares).sum(0)
        return product
    halves = 1.0 if steps < 2 * BLOCK else 0.5 + 0.5 * BLOCK / steps
    if halves * steps * (d + sum(widths)) <= d * sum(widths):
        return ghost_squared_norms(data, grads)
    return torch.stack([built_squared_norms(g, data) for g in grads]).sum(0)


def ghost_squared_norms(data: Tensor, grads: list[Tensor]) -> Tensor:
    """The ghost form of :func:`shared_squared_norms`, in blocks of examples and of positions.

    Gram matrices are symmetric: where they are large, the blocks above the diagonal are left out and those below count
    twice.
    """
    examples, steps = data.shape[:2]
    if steps >= 2 * BLOCK:
        return _below_diagonal(data, grads)
    at_once = max(1, BUFFER // (steps * steps))
    parts = []
    for start in range(0, examples, at_once):
        own = slice(start, start + at_once)
        parts.append(_gram_product(data[own], data[own], [(g[own], g[own]) for g in grads]))
    return torch.cat(parts).clamp_(min=0)


def _below_diagonal(data: Tensor, grads: list[Tensor]) -> Tensor:
    """Halves the positions: both halves on their own, and twice what they have in common."""
    half = data.shape[1] // 2
    lower, upper = data[:, :half], data[:, half:]
    pairs = [(g[:, half:], g[:, :half]) for g in grads]
    examples, at_once = len(data), max(1, BUFFER // (half * half))
    parts = []
    for start in range(0, examples, at_once):
        own = slice(start, start + at_once)
        parts.append(_gram_product(upper[own], lower[own], [(a[own], b[own]) for a, b in pairs]))
    total = torch.cat(parts).mul_(2)
    total += ghost_squared_norms(lower, [b for _, b in pairs])
    total += ghost_squared_norms(upper, [a for a, _ in pairs])
    return total.clamp_(min=0)


def _gram_product(left: Tensor, right: Tensor, grads: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Σ_ts (left_t · right_s) Σ_l (a_lt · b_ls) for each example."""
    (a, b), *more = grads
    gram = a @ b.mT
    for a, b in more:
        gram.baddbmm_(a, b.mT)
    return gram.mul_(left @ right.mT).sum((1, 2))


def built_squared_norms(left: Tensor, right: Tensor) -> Tensor:
    """Builds the gradients: small ones of all examples together, large ones one at a time in one buffer.

    left (B, T, p), right (B, T, d) -> (B,).
    """
    p, d = left.shape[2], right.shape[2]
    if p * d <= SMALL:
        norms: Tensor = torch.linalg.vector_norm(left.mT @ right, dim=(1, 2))
        return norms.square()
    buffer, squares = left.new_empty(p, d), left.new_empty(len(left))
    flat = buffer.view(-1)
    for i in range(len(left)):
        torch.mm(left[i].T, right[i], out=buffer)
        torch.dot(flat, flat, out=squares[i])
    return squares


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
