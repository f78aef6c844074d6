"""Values that depend on parameters but on no example: seen by all examples of a batch, and followed until they meet them.

A relative position table, a learned prompt, a gain used bare: their gradient sums over the batch before it reaches the
parameter. Here such a value carries a hidden first dimension of size B (a view, not a copy); operations on it alone
keep it hidden, and the first operation that mixes it with examples moves it into their batch dimension, so that each
example's gradient stays apart.

>>> visible_shape((1, 4), (3, 5, 4))
(3, 5, 4)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from .checks import CannotClip
from .functions import OutOfReach

if TYPE_CHECKING:
    from .tape import Tape

ELEMENTWISE = frozenset(
    "add sub rsub mul div true_divide where masked_fill maximum minimum addcmul addcdiv lerp pow "
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __rdiv__ __pow__ "
    "add_ sub_ mul_ div_ __iadd__ __isub__ __imul__ __itruediv__ __idiv__ subtract multiply divide".split()
)
GROWING = frozenset(("expand", "expand_as", "broadcast_to", "repeat", "tile"))


class Shared(torch.Tensor):
    """A tensor without a batch dimension that hides one: ``inner`` has shape (B, *visible)."""

    tape: Tape
    inner: Tensor

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Sends every operation on the tensor to its tape."""
        return cls.tape.dispatch(func, args, kwargs or {})


def visible_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The broadcast of ``shapes``."""
    return tuple(torch.broadcast_shapes(*(tuple(s) for s in shapes)))


def share(tape: Tape, inner: Tensor) -> Tensor:
    """``inner`` (B, *visible) as a tensor of the visible shape; with one example it simply is that example's."""
    if inner.shape[0] == 1:
        return inner[0]
    out: Shared = OutOfReach.apply(inner).as_subclass(tape.shared_class)
    out.inner = inner
    return out


def shared_operation(tape: Tape, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """``func`` on arguments some of which are shared (or bare parameters), so that examples stay apart."""
    leaves, spec = tree_flatten((args, kwargs))
    leaves = [tape.spread(leaf) if tape.tracks(leaf) else leaf for leaf in leaves]
    shared = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Shared)]
    if not shared:
        args, kwargs = tree_unflatten(leaves, spec)
        return func(*args, **kwargs)
    name = getattr(func, "__name__", str(func))
    if isinstance(leaves[0], Shared) and (name.endswith("_") and not name.endswith("__") or name.startswith("__i")):
        raise CannotClip(f"{tape.where()}: {name} would overwrite a value that all examples share; write a new tensor")
    if name in GROWING and shared == [0]:
        return _grown(tape, func, leaves, spec)
    joined = _aligned(tape, leaves, shared) if name in ELEMENTWISE else _led(tape, leaves, shared)
    if joined is not None:
        args, kwargs = tree_unflatten(joined, spec)
        return func(*args, **kwargs)
    return _mapped(tape, func, leaves, spec)


def _aligned(tape: Tape, leaves: list[Any], shared: list[int]) -> list[Any] | None:
    """For broadcasting operations: shared tensors laid along the examples' first dimension; None if none is there."""
    shapes = [leaf.shape for leaf in leaves if isinstance(leaf, Tensor)]
    plain = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, Shared)]
    out = visible_shape(*shapes)
    own = visible_shape(*(leaves[i].shape for i in shared))
    if out and out[0] == tape.batch and (len(own) < len(out) or own[0] == 1):
        laid = list(leaves)
        for i in shared:
            inner, visible = leaves[i].inner, tuple(leaves[i].shape)
            tail = visible[1:] if len(visible) == len(out) else visible
            laid[i] = inner.reshape(len(inner), *[1] * (len(out) - 1 - len(tail)), *tail)
        return laid
    _refuse_examples(tape, plain)
    return None


def _led(tape: Tape, leaves: list[Any], shared: list[int]) -> list[Any] | None:
    """For any other operation: shared tensors whose visible first size is 1 take the batch's place there."""
    if not any(_per_example(tape, leaf) for leaf in leaves):
        return None
    if not all(leaves[i].ndim and leaves[i].shape[0] == 1 for i in shared):
        return None
    return [leaf.inner.squeeze(1) if isinstance(leaf, Shared) else leaf for leaf in leaves]


def _per_example(tape: Tape, leaf: Any) -> bool:
    if not isinstance(leaf, Tensor) or isinstance(leaf, Shared):
        return False
    return leaf.requires_grad or (leaf.ndim > 0 and leaf.shape[0] == tape.batch)


def _refuse_examples(tape: Tape, plain: list[Tensor]) -> None:
    for tensor in plain:
        if tensor.requires_grad:
            raise CannotClip(
                f"{tape.where()}: a value shared by all examples meets a tensor of shape {tuple(tensor.shape)} whose "
                f"batch dimension (of size {tape.batch}) is not the first; put the batch first"
            )


def _grown(tape: Tape, func: Callable[..., Any], leaves: list[Any], spec: Any) -> Any:
    """expand and repeat: a new or unit first dimension that becomes B is the batch."""
    first = leaves[0]
    (args, kwargs) = tree_unflatten([first.detach() if leaf is first else leaf for leaf in leaves], spec)
    with torch.no_grad():
        target = tuple(func(*args, **kwargs).shape)
    inner = first.inner
    unit = (1,) * (len(target) - first.ndim) + tuple(first.shape)
    if target and target[0] != unit[0] and target[0] == unit[0] * len(inner):
        return _repeated(inner, unit, (unit[0], *target[1:])).reshape(target)
    return _mapped(tape, func, leaves, spec)


def _repeated(inner: Tensor, visible: tuple[int, ...], body: tuple[int, ...]) -> Tensor:
    """(B, *visible) repeated to (B, *body), where each visible size divides the body's."""
    padded = inner.reshape(len(inner), *visible)
    times = [b // v for b, v in zip(body, visible, strict=True)]
    if all(v == 1 or t == 1 for v, t in zip(visible, times, strict=True)):
        return padded.expand(len(inner), *body)
    return padded.repeat(1, *times)


def _mapped(tape: Tape, func: Callable[..., Any], leaves: list[Any], spec: Any) -> Any:
    """``func`` once for each example by torch.func.vmap; examples' tensors are seen as batches of one."""
    examples = [_per_example(tape, leaf) for leaf in leaves]
    mixed = any(examples)
    inputs = [_one_each(tape, leaf) if e else leaf.inner if isinstance(leaf, Shared) else leaf
              for leaf, e in zip(leaves, examples, strict=True)]  # fmt: skip
    mapped = [i for i, leaf in enumerate(leaves) if examples[i] or isinstance(leaf, Shared)]

    def one(*tensors: Tensor) -> Any:
        filled = list(inputs)
        for i, tensor in zip(mapped, tensors, strict=True):
            filled[i] = tensor
        args, kwargs = tree_unflatten(filled, spec)
        return func(*args, **kwargs)

    try:
        out = torch.vmap(one, randomness="different" if mixed else "same")(*(inputs[i] for i in mapped))
    except (RuntimeError, ValueError, NotImplementedError) as error:
        name = getattr(func, "__name__", str(func))
        raise CannotClip(f"{tape.where()}: no rule for {name} on a parameter, and torch.func cannot map it: {error}") from error
    if mixed:
        return tree_map(lambda t: t.flatten(0, 1) if isinstance(t, Tensor) else t, out)
    return tree_map(lambda t: share(tape, t) if isinstance(t, Tensor) else t, out)


def _one_each(tape: Tape, tensor: Tensor) -> Tensor:
    if tensor.ndim == 0 or tensor.shape[0] % tape.batch:
        _refuse_examples(tape, [tensor])
    return tensor.reshape(tape.batch, -1, *tensor.shape[1:])
