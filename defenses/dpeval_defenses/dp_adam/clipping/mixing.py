"""How operations treat values shared by all examples: kept apart while alone, joined to the batch where they meet it.

>>> repeated(torch.zeros(5, 1, 3), (1, 3), (4, 6)).shape
torch.Size([5, 4, 6])
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from .checks import ClippingError
from .layout import Use, unclear
from .placing import check_rows
from .shared import Shared, share, unhidden
from .trial import Axes

if TYPE_CHECKING:
    from .tape import Tape

_ELEMENTWISE = """add sub rsub mul div true_divide where masked_fill maximum minimum addcmul addcdiv lerp pow
subtract multiply divide __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __rdiv__ __pow__
add_ sub_ mul_ div_ __iadd__ __isub__ __imul__ __itruediv__ __idiv__"""
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
BATCHED = frozenset(("matmul", "__matmul__", "__rmatmul__", "scaled_dot_product_attention"))
"""Operations that broadcast their leading dimensions."""
GROWING = frozenset(("expand", "expand_as", "broadcast_to", "repeat", "tile"))
TENSOR = object()
"""Stands for a tensor among the results of an operation."""


class Mixture:
    """One operation some of whose arguments are shared by all examples (or are bare parameters)."""

    def __init__(self, tape: Tape, use: Use, func: Callable[..., Any], args: Any, kwargs: Any) -> None:
        leaves, self.spec = tree_flatten((args, kwargs))
        self.tape, self.func = tape, func
        self.batch = tape.known_batch()
        self.name: str = getattr(func, "__name__", str(func))
        self.key, self.outputs = use.key, use.outputs
        self.leaves: list[Any] = [tape.spread(leaf) if tape.tracks(leaf) else leaf for leaf in leaves]
        self.shared = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Shared)]
        self.plain = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor) and i not in self.shared]
        self._planned = self._by_leaf(use.inputs)

    def run(self) -> Any:
        """The operation's result, examples kept apart."""
        if not self.shared:
            return self._call(self.leaves)
        if self.shared[0] == 0 and (self.name.startswith("__i") or self.name[-1:] == "_" != self.name[-2:-1]):
            return self._overwritten()
        if self.name in GROWING and self.shared == [0]:
            return self._grown()
        axes = {i: axis for i in self.plain if (axis := self._axis(i)) is not None}
        for i, axis in axes.items():
            check_rows(self.tape, self.leaves[i], axis, seen=self._planned.get(i) is not None)
        if axes and self.name in ELEMENTWISE | BATCHED and (laid := self._laid(axes)) is not None:
            return self._call(laid)
        return self._mapped(axes)

    def _call(self, leaves: list[Any]) -> Any:
        args, kwargs = tree_unflatten(leaves, self.spec)
        return self.func(*args, **kwargs)

    # --- where the examples are ------------------------------------------------------------------------------------

    def _by_leaf(self, inputs: Axes | None) -> dict[int, int | None]:
        tensors = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        return dict(zip(tensors, inputs, strict=True)) if inputs is not None and len(inputs) == len(tensors) else {}

    def _axis(self, i: int) -> int | None:
        """The axis of examples in a plain argument: as the probe saw it, else the first by its size; None for none."""
        tensor: Tensor = self.leaves[i]
        axis = self._planned.get(i)
        if i in self._planned and (axis is not None or not tensor.requires_grad):
            return axis
        plan = self.tape.layout.plan
        if tensor.requires_grad and plan is not None and not plan.batch_first():
            raise unclear(self.tape.where(), tensor, self.batch)
        if tensor.requires_grad:
            return 0
        self.tape.layout.need_plan(self.tape.where(), tensor)
        leads = tensor.ndim > 0 and tensor.shape[0] == self.batch
        if leads and self.name in ELEMENTWISE:
            leads = all(tensor.ndim > s.ndim or (tensor.ndim == s.ndim and s.shape[0] == 1)
                        for s in (self.leaves[k] for k in self.shared))  # fmt: skip
        return 0 if leads else None

    # --- joining ---------------------------------------------------------------------------------------------------

    def _laid(self, axes: dict[int, int]) -> list[Any] | None:
        """The arguments with each shared one laid along the batch of the others; None where it does not fit."""
        places = {(axis - self.leaves[i].ndim, self.leaves[i].shape[axis]) for i, axis in axes.items()}
        if len(places) != 1:
            return None
        from_end, size = places.pop()
        sizes = max(leaf.ndim for leaf in self.leaves if isinstance(leaf, Tensor))
        axis = sizes + from_end
        laid = list(self.leaves)
        for i in self.shared:
            visible = (1,) * (sizes - self.leaves[i].ndim) + tuple(self.leaves[i].shape)
            if axis < 0 or visible[axis] != 1 or (self.name in BATCHED and not self._leading(self.leaves[i], from_end)):
                return None
            inner = self.leaves[i].hidden.reshape(self.batch, *visible)
            laid[i] = unhidden(inner, axis, size // self.batch)
        return laid

    def _leading(self, tensor: Tensor, from_end: int) -> bool:
        """Whether a place counted from the end is among the dimensions that a batched operation broadcasts."""
        return from_end < -2 and tensor.ndim >= -from_end

    def _grown(self) -> Any:
        """expand and repeat: the dimension that grows by a factor of B is the batch."""
        first = self.leaves[0]
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():  # noqa: SLF001
            target = tuple(self._call([first.detach(), *self.leaves[1:]]).shape)
        unit = (1,) * (len(target) - first.ndim) + tuple(first.shape)
        axis = 0 if self.outputs is None else self.outputs[0]
        times, rest = divmod(target[axis], unit[axis] * self.batch) if target and axis not in (None, -1) else (0, 0)
        if axis is None or rest or not times or (times > 1 and self.outputs is None):
            return self._mapped({})
        body = (*target[:axis], unit[axis] * times, *target[axis + 1 :])
        return repeated(first.hidden, unit, body).movedim(0, axis).reshape(target)

    def _overwritten(self) -> Any:
        """An operation in place on a shared value, which only values that no example has met may change."""
        if any(self._axis(i) is not None for i in self.plain) or 0 in self.leaves[0].hidden.stride()[:1]:
            raise ClippingError(f"{self.tape.where()}: {self.name} would overwrite a value that all examples share")
        self._mapped({})
        return self.leaves[0]

    def _mapped(self, axes: dict[int, int]) -> Any:
        """The operation once for each example, whose arguments are batches of one."""
        inputs = [self._one_each(i, axes) if i in axes else leaf.hidden if isinstance(leaf, Shared) else leaf
                  for i, leaf in enumerate(self.leaves)]  # fmt: skip
        mapped = [*self.shared, *axes]
        specs: list[Any] = []

        def one(*tensors: Tensor) -> tuple[Tensor, ...]:
            filled = list(inputs)
            for i, tensor in zip(mapped, tensors, strict=True):
                filled[i] = tensor.movedim(0, axes[i]) if i in axes else tensor
            leaves, spec = tree_flatten(self._call(filled))
            specs.append((spec, [TENSOR if isinstance(leaf, Tensor) else leaf for leaf in leaves]))
            return tuple(leaf for leaf in leaves if isinstance(leaf, Tensor))

        try:
            results = over_examples(one, [inputs[i] for i in mapped], "different" if axes else "same")
        except (RuntimeError, ValueError, NotImplementedError) as error:
            raise ClippingError(
                f"{self.tape.where()}: there is no rule for {self.name} on a parameter, and it cannot be done for each "
                f"example apart: {error}"
            ) from error
        outputs = iter([self._placed(r, k, mixed=bool(axes)) for k, r in enumerate(results)])
        spec, leaves = specs[0]
        return tree_unflatten([next(outputs) if leaf is TENSOR else leaf for leaf in leaves], spec)

    def _one_each(self, i: int, axes: dict[int, int]) -> Tensor:
        rows: Tensor = self.leaves[i].movedim(axes[i], 0)
        return rows.reshape(self.batch, -1, *rows.shape[1:])

    def _placed(self, result: Tensor, k: int, *, mixed: bool) -> Tensor:
        """A mapped result (B, …): still shared, or with the examples in the dimension where the operation has them."""
        if not mixed:
            return share(self.tape, result, self.key)
        axis = 0 if self.outputs is None else self.outputs[k]
        if axis is None or axis < 0 or result.ndim <= axis + 1:
            raise unclear(self.tape.where(), result, self.batch)
        return result.movedim(axis + 1, 1).flatten(0, 1).movedim(0, axis)


def over_examples(one: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor], randomness: str) -> list[Tensor]:
    """``one`` on each example's part of ``inputs`` (B, …), by torch.func.vmap, or in turn where that has no rule."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")
            return list(torch.vmap(one, randomness=randomness)(*inputs))
    except (RuntimeError, NotImplementedError):
        apart = [one(*parts) for parts in zip(*(tensor.unbind(0) for tensor in inputs), strict=True)]
        return [torch.stack(results) for results in zip(*apart, strict=True)]


def repeated(inner: Tensor, visible: tuple[int, ...], body: tuple[int, ...]) -> Tensor:
    """(B, *visible) repeated to (B, *body), where each visible size divides the body's."""
    padded = inner.reshape(len(inner), *visible)
    times = [b // v for b, v in zip(body, visible, strict=True)]
    if all(v == 1 or t == 1 for v, t in zip(visible, times, strict=True)):
        return padded.expand(len(inner), *body)
    return padded.repeat(1, *times)
