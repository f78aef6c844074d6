"""Puts the operand of an operation with a rule into the form (B, …), or says why it has none.

>>> from dpeval_defenses.dp_adam.clipping.tape import Tape
>>> import torch
>>> tape = Tape(torch.nn.Linear(2, 1))
>>> tape.batch = 4
>>> check_rows(tape, torch.zeros(5, 2), axis=0, seen=False)
Traceback (most recent call last):
    ...
dpeval_defenses.dp_adam.clipping.checks.ClippingError: module '(the model itself)' (Linear): a parameter met ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from .layout import Use, unclear
from .lineage import kept_in_order
from .shared import Shared

if TYPE_CHECKING:
    from .tape import Tape


def placed(tape: Tape, use: Use, tensor: Tensor, parameter: Any) -> tuple[Tensor, int, bool]:
    """``tensor`` with examples in it, the axis along which they stand, and whether it had none of its own.

    It is an operand of ``use``, an operation with ``parameter``.
    """
    if isinstance(tensor, Shared):
        return tensor.hidden, 0, True
    batch = tape.batch = tensor.shape[0] if tape.batch is None else tape.batch
    if batch == 1:
        return tensor, 0, False
    axis, seen = _axis(tape, use, tensor, parameter)
    if axis is None:
        return tensor.expand(batch, *tensor.shape), 0, True
    check_rows(tape, tensor, axis, seen=seen)
    return tensor, axis, False


def _axis(tape: Tape, use: Use, tensor: Tensor, parameter: Any) -> tuple[int | None, bool]:
    """The axis of examples, and whether trial runs saw it: in this use, or (recomputed, uncounted) in every use.

    A tensor that carries a gradient and is not shared holds examples.
    """
    position = next(i for i, operand in enumerate(use.operands) if operand is tensor)
    if use.inputs is not None and tape.receiver is None:
        choices = {use.inputs[position]}
    else:
        choices = tape.layout.axes_of(parameter, position)
    if tensor.requires_grad:
        choices.discard(None)
    if len(choices) == 1:
        return choices.pop(), True
    tape.layout.need_plan(tape.where(), tensor)
    return 0 if tensor.requires_grad or (tensor.ndim and tensor.shape[0] == tape.batch) else None, False


def check_rows(tape: Tape, tensor: Tensor, axis: int, *, seen: bool) -> None:
    """ClippingError unless the rows along ``axis`` certainly are the examples in order; ``seen``: in trial runs."""
    batch, plan = tape.known_batch(), tape.layout.plan
    size = tensor.shape[axis] if -1 < axis < tensor.ndim else 0
    certain = size == batch
    if seen and plan is not None and plan.in_order:
        certain = size > 0 and size % batch == 0 and (axis > 0 or kept_in_order(tensor, batch, flattened=False))
    elif axis == 0 and size and size % batch == 0:
        if tensor.requires_grad:
            certain = kept_in_order(tensor, batch) and (certain or plan is None or plan.batch_first())
        else:
            certain = certain or size // batch in tape.layout.sizes
    if not certain:
        raise unclear(tape.where(), tensor, batch)
