"""Autograd functions that compute what torch computes, but hand the factors of each weight gradient to the tape.

The product that would form the weight gradient is left out of the backward pass: the clipped sum is formed once, when
the norms are known. Saved tensors go through autograd's own saving, so gradient checkpointing and offloading hold.

>>> Site(tape=None, batch=2, axis=1).examples_first(torch.zeros(5, 2, 4)).shape
torch.Size([2, 5, 4])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from .checks import ClippingError
from .records import Dense, Outer, Record, Rows


class Receiver(Protocol):
    """Where records go during a backward pass."""

    def receive(self, site: Site, parameter: nn.Parameter, record: Record) -> None:
        """Takes the record of one use of ``parameter``; raises outside of the engine's own backward pass."""


@dataclass(frozen=True, eq=False)
class Site:
    """One use of parameters in one forward pass: who is told, how many examples there are and along which axis."""

    tape: Receiver
    batch: int
    axis: int = 0
    weight: nn.Parameter | None = None
    bias: nn.Parameter | None = None
    transposed: bool = False

    def examples_first(self, tensor: Tensor, trailing: int = 1) -> Tensor:
        """``tensor`` as (B, T, *its last ``trailing`` sizes); several rows of one example stand side by side."""
        if self.axis:
            tensor = tensor.movedim(self.axis, 0)
        return tensor.reshape(self.batch, -1, *tensor.shape[tensor.ndim - trailing :])

    def tell(self, parameter: nn.Parameter | None, record: Record) -> None:
        """Hands ``record`` to the tape if ``parameter`` is trained."""
        if parameter is not None:
            self.tape.receive(self, parameter, record)


def autocast_to(tensor: Tensor) -> Tensor:
    """``tensor`` in the type in which autocast would multiply it."""
    kind = tensor.device.type
    if torch.is_autocast_enabled(kind) and tensor.is_floating_point() and tensor.dtype != torch.float64:
        return tensor.to(torch.get_autocast_dtype(kind))
    return tensor


class Product(torch.autograd.Function):
    """x Wᵀ + b, or x W + b for a transposed site (transformers' Conv1D)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, anchor: Tensor, site: Site) -> Tensor:  # noqa: ARG004
        """y, keeping x where the weight is trained."""
        x = autocast_to(x)
        ctx.site = site
        ctx.save_for_backward(x if site.weight is not None else None, weight)
        out = functional.linear(x, weight.T if site.transposed else weight, bias)
        ctx.lead = out.shape[0]
        unviewed: Tensor = torch.ops.aten._unsafe_view(out, out.shape)  # noqa: SLF001 - so that it may be written to
        return unviewed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of x; the factors of the others go to the tape."""
        (grad,), site = grads, ctx.site
        x, weight = ctx.saved_tensors
        rows = site.examples_first(grad)
        if site.weight is not None:
            site.tell(site.weight, Outer(site.examples_first(x), rows, site.transposed))
        if site.bias is not None:
            site.tell(site.bias, Dense(rows.sum(1, dtype=_sum_type(rows))))
        if not ctx.needs_input_grad[0]:
            return None, None, None, None, None
        weight = weight.to(grad.dtype)
        return grad @ (weight.T if site.transposed else weight), None, None, None, None


class Lookup(torch.autograd.Function):
    """Rows of a table; the padding index's row gets no gradient, as in torch."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, table: Tensor, padding: int | None, anchor: Tensor, site: Site) -> Tensor:  # noqa: ARG004
        """The rows of ``ids``."""
        ctx.site, ctx.padding, ctx.rows, ctx.lead = site, padding, len(table), ids.shape[0]
        ctx.save_for_backward(ids)
        return functional.embedding(ids, table)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, ...]:
        """Nothing: ids have no gradient; the table's goes to the tape."""
        (grad,), site = grads, ctx.site
        (ids,) = ctx.saved_tensors
        ids = site.examples_first(ids, trailing=0)
        rows = site.examples_first(grad)
        if ctx.padding is not None:
            rows = rows.masked_fill((ids == ctx.padding)[..., None], 0)
        site.tell(site.weight, Rows(ids, rows, ctx.rows))
        return None, None, None, None, None


class LayerNorm(torch.autograd.Function):
    """Layer normalisation with gain and bias over the last dimensions ``shape``."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        shape: list[int],
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        anchor: Tensor,  # noqa: ARG004
        site: Site,
    ) -> Tensor:
        """The normalised x, keeping what its gradients need."""
        out, mean, rstd = torch.native_layer_norm(x, shape, weight, bias, eps)
        ctx.site, ctx.shape, ctx.lead = site, shape, x.shape[0]
        ctx.save_for_backward(x, mean, rstd, weight, bias)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of x; each example's gradients of gain and bias go to the tape."""
        (grad,), site = grads, ctx.site
        x, mean, rstd, weight, bias = ctx.saved_tensors
        sizes = len(ctx.shape)
        rows = site.examples_first(grad, sizes)
        if site.weight is not None:
            product = ((x - mean).mul_(rstd)).mul_(grad)
            site.tell(site.weight, Dense(site.examples_first(product, sizes).sum(1, dtype=_sum_type(product))))
        if site.bias is not None:
            site.tell(site.bias, Dense(rows.sum(1, dtype=_sum_type(rows))))
        back: Tensor | None = None
        if ctx.needs_input_grad[0]:
            back = torch.ops.aten.native_layer_norm_backward(
                grad, x, ctx.shape, mean, rstd, weight, bias, [True, False, False]
            )[0]
        return back, None, None, None, None, None, None


class Spread(torch.autograd.Function):
    """A parameter used bare, seen once by each example: (B, *shape) without a copy."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, anchor: Tensor, site: Site) -> Tensor:  # noqa: ARG004
        """(B, *shape), a view."""
        ctx.site, ctx.lead = site, site.batch
        return parameter.unsqueeze(0).expand(site.batch, *parameter.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, ...]:
        """Nothing: each example's gradient goes to the tape."""
        ctx.site.tell(ctx.site.weight, Dense(grads[0]))
        return None, None, None


class OutOfReach(torch.autograd.Function):
    """What stands visibly for a shared tensor; a gradient that reaches it went round the recording."""

    @staticmethod
    def forward(ctx: Any, inner: Tensor) -> Tensor:  # noqa: ARG004
        """The values of the first example, which are those of all."""
        return inner.detach()[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, ...]:  # noqa: ARG004
        """Raises ClippingError."""
        raise ClippingError(
            "a value that is computed from parameters alone was used by an operation that cannot be recorded, so that "
            "its per-example gradients are unknown: reentrant gradient checkpointing (set use_reentrant=False), a "
            "custom autograd function, or compiled code"
        )


def _sum_type(tensor: Tensor) -> torch.dtype:
    return torch.float32 if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.dtype
