"""What one use of a parameter leaves behind for clipping: enough to know each example's gradient without building it.

A record answers three questions about the per-example gradients G_1 … G_B that one use of a parameter causes: their
squared norms, one of them added to a buffer, and their weighted sum.

>>> import torch
>>> data, grad = torch.ones(2, 3, 4), torch.ones(2, 3, 5)
>>> record = Outer(data, grad)
>>> record.squared_norms().tolist()      # each example's gradient is 3 everywhere, 5 × 4 entries
[180.0, 180.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from .norms import gathered_squared_norms, outer_squared_norms, rows_squared_norms, shared_squared_norms


def widened(tensor: Tensor) -> Tensor:
    """Half-precision values as float32; anything wider unchanged."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def scaled(tensor: Tensor, weights: Tensor) -> Tensor:
    """``tensor`` (B, T, n) with each example's part times its weight."""
    return tensor * weights.to(tensor.dtype)[:, None, None]


@dataclass(frozen=True, eq=False)
class Outer:
    """Example i's gradient is grad[i]ᵀ data[i] (of shape (p, d)), or its transpose: a matrix applied to T rows.

    ``data`` has shape (B, T, d): what the matrix was applied to; ``grad`` (B, T, p): the gradients of what came out.
    ``transposed``: the parameter has shape (d, p).
    """

    data: Tensor
    grad: Tensor
    transposed: bool = False

    @property
    def left(self) -> Tensor:
        """The factor that gives the parameter's rows, shape (B, T, rows)."""
        return self.data if self.transposed else self.grad

    @property
    def right(self) -> Tensor:
        """The factor that gives the parameter's columns, shape (B, T, columns)."""
        return self.grad if self.transposed else self.data

    def squared_norms(self) -> Tensor:
        """‖G_i‖², shape (B,)."""
        return outer_squared_norms(widened(self.left), widened(self.right))

    def add_example(self, i: int, into: Tensor) -> None:
        """Adds G_i to ``into``, which has the parameter's shape."""
        into.addmm_(widened(self.left[i]).T, widened(self.right[i]))

    def add_sum(self, weights: Tensor, into: Tensor) -> None:
        """Adds Σ w_i G_i to ``into``; the narrower factor is the one that is scaled, since scaling copies it."""
        left, right = widened(self.left), widened(self.right)
        if left.shape[-1] <= right.shape[-1]:
            left = scaled(left, weights)
        else:
            right = scaled(right, weights)
        into.addmm_(left.flatten(0, 1).T, right.flatten(0, 1))

    def take(self, keep: Tensor) -> Outer:
        """The record of the examples at ``keep`` alone."""
        return Outer(self.data[keep], self.grad[keep], self.transposed)


@dataclass(frozen=True, eq=False)
class Rows:
    """Example i's gradient adds grad[i, s] to row ids[i, s] of the parameter: a table that was looked up.

    ``ids`` has shape (B, S), ``grad`` (B, S, d) with zeros where the table's padding index was looked up, ``rows`` is
    the number of rows of the table.
    """

    ids: Tensor
    grad: Tensor
    rows: int

    def squared_norms(self) -> Tensor:
        """‖G_i‖², shape (B,): rows looked up several times are summed first."""
        return rows_squared_norms(self.ids, widened(self.grad), self.rows)

    def add_example(self, i: int, into: Tensor) -> None:
        """Adds G_i to ``into``, which has the parameter's shape."""
        into.index_add_(0, self.ids[i], widened(self.grad[i]).to(into.dtype))

    def add_sum(self, weights: Tensor, into: Tensor) -> None:
        """Adds Σ w_i G_i to ``into``."""
        into.index_add_(0, self.ids.flatten(), scaled(widened(self.grad), weights).flatten(0, 1))

    def take(self, keep: Tensor) -> Rows:
        """The record of the examples at ``keep`` alone."""
        return Rows(self.ids[keep], self.grad[keep], self.rows)


@dataclass(frozen=True, eq=False)
class Dense:
    """The per-example gradients themselves, shape (B, *parameter shape): biases, gains, parameters used bare."""

    grad: Tensor

    def squared_norms(self) -> Tensor:
        """‖G_i‖², shape (B,)."""
        flat = widened(self.grad).reshape(len(self.grad), -1)
        norms: Tensor = torch.linalg.vector_norm(flat, dim=1)
        return norms.square()

    def add_example(self, i: int, into: Tensor) -> None:
        """Adds G_i to ``into``."""
        into.add_(self.grad[i])

    def add_sum(self, weights: Tensor, into: Tensor) -> None:
        """Adds Σ w_i G_i to ``into``."""
        grad = widened(self.grad)
        into.add_((weights.to(grad.dtype) @ grad.reshape(len(grad), -1)).view(into.shape))

    def take(self, keep: Tensor) -> Dense:
        """The record of the examples at ``keep`` alone."""
        return Dense(self.grad[keep])


Record: TypeAlias = Outer | Rows | Dense


def squared_norms(records: list[Record], shape: torch.Size) -> Tensor:
    """‖Σ_r G_i^r‖² over several uses of one parameter, shape (B,), with every cross term.

    ``shape`` is the parameter's. Uses of one kind are joined; a table that is also a matrix (tied embeddings) costs one
    gather more; any other mixture is built one example at a time.
    """
    merged = _merged(records)
    if len(merged) == 1:
        return merged[0].squared_norms()
    outer = [r for r in merged if isinstance(r, Outer)]
    rows = [r for r in merged if isinstance(r, Rows)]
    if len(outer) == len(rows) == 1 and len(merged) == 2:
        cross = gathered_squared_norms(
            widened(outer[0].left), widened(outer[0].right), rows[0].ids, widened(rows[0].grad)
        )
        return outer[0].squared_norms() + rows[0].squared_norms() + 2 * cross
    return _built(merged, shape)


def total_squared_norms(uses: dict[nn.Parameter, list[Record]], count: int) -> Tensor:
    """‖g_i‖² over all parameters, shape (count,), float64; matrices applied to the same rows share a Gram matrix."""
    device = next((use.grad.device for records in uses.values() for use in records), None)
    total = torch.zeros(count, dtype=torch.float64, device=device)
    same: dict[object, list[Outer]] = {}
    for parameter, records in uses.items():
        only = records[0]
        if len(records) == 1 and isinstance(only, Outer):
            place = (only.data.data_ptr(), only.data.shape, only.data.stride(), only.data.dtype)
            same.setdefault(place, []).append(only)
        else:
            total += squared_norms(records, parameter.shape)
    for group in same.values():
        total += shared_squared_norms(widened(group[0].data), [widened(r.grad) for r in group])
    return total


def _merged(records: list[Record]) -> list[Record]:
    """Records of one kind joined along the positions (or summed), so that at most one of each kind is left."""
    outer = [r for r in records if isinstance(r, Outer)]
    rows = [r for r in records if isinstance(r, Rows)]
    dense = [r for r in records if isinstance(r, Dense)]
    merged: list[Record] = []
    if outer:
        merged.append(outer[0] if len(outer) == 1 else _joined(outer))
    if rows:
        ids, grad = torch.cat([r.ids for r in rows], 1), torch.cat([widened(r.grad) for r in rows], 1)
        merged.append(rows[0] if len(rows) == 1 else Rows(ids, grad, rows[0].rows))
    if dense:
        merged.append(dense[0] if len(dense) == 1 else Dense(torch.stack([widened(r.grad) for r in dense]).sum(0)))
    return merged


def _joined(outer: list[Outer]) -> Outer:
    left = torch.cat([widened(r.left) for r in outer], 1)
    right = torch.cat([widened(r.right) for r in outer], 1)
    return Outer(right, left)


def _built(records: list[Record], shape: torch.Size) -> Tensor:
    """The norms from each example's gradient itself, one at a time in one buffer of the parameter's shape."""
    first = records[0]
    like = widened(first.grad)
    buffer = like.new_zeros(shape)
    norms = []
    for i in range(len(like)):
        buffer.zero_()
        for record in records:
            record.add_example(i, buffer)
        norms.append(torch.linalg.vector_norm(buffer).square())
    return torch.stack(norms)
