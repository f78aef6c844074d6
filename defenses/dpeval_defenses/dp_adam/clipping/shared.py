"""Values that depend on parameters but on no example: seen by all examples, and followed until they meet them.

A relative position table, a learned prompt, a gain used bare: their gradient sums over the batch before it reaches the
parameter. Here such a value carries a hidden first dimension of size B (a view, not a copy); operations on it alone
keep it hidden, and the first operation that mixes it with examples moves it into their batch dimension, so that each
example's gradient stays apart.

>>> unhidden(torch.zeros(5, 7, 1, 3), axis=1).shape      # of five examples; visible: (7, 1, 3)
torch.Size([7, 5, 3])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .functions import OutOfReach
from .trial import Key

if TYPE_CHECKING:
    from .tape import Tape


class Shared(torch.Tensor):
    """A tensor that hides its batch dimension: ``hidden`` has shape (B, *visible); ``trail`` is its origin."""

    tape: Tape
    hidden: Tensor
    trail: Key

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Sends every operation on the tensor to its tape."""
        del types
        return cls.tape.dispatch(func, args, kwargs or {})


def share(tape: Tape, inner: Tensor, trail: Key) -> Tensor:
    """``inner`` (B, *visible) as a tensor of the visible shape; with one example it simply is that example's."""
    if inner.shape[0] == 1:
        return inner[0]
    out: Shared = OutOfReach.apply(inner).as_subclass(tape.shared_class)  # type: ignore[no-untyped-call]
    out.hidden, out.trail = inner, trail
    return out


def unhidden(inner: Tensor, axis: int, times: int = 1) -> Tensor:
    """``inner`` (B, *visible), the batch moved to the visible ``axis``, of size 1; each example repeated ``times``."""
    inner = inner.squeeze(axis + 1)
    inner = inner if times == 1 else inner.repeat_interleave(times, 0)
    return inner.movedim(0, axis)
