"""Whether the losses of a batch are each one example's own, tested by a backward pass over half of them.

Nothing may come back to the examples of the other half. What this finds is a loss or a model that mixes examples or
reorders them; weights that are detached from the graph leave no such mark (``verify`` finds those).

>>> from dpeval_defenses.dp_adam.clipping import ClippedGradients
>>> model = torch.nn.Linear(2, 1)
>>> ClippedGradients(model, 1.0).backward(model(torch.randn(4, 2)).squeeze(1).softmax(0))
Traceback (most recent call last):
    ...
dpeval_defenses.dp_adam.clipping.checks.MixedExamplesError: the loss of an example depends on other examples ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .checks import MixedExamplesError
from .records import Record

if TYPE_CHECKING:
    from .tape import Tape

ROUNDING = 1e-7
"""What comes back, relative to the largest of all examples, that is not taken for a trace."""


def refuse_mixed_losses(tape: Tape, losses: Tensor) -> None:
    """Raises :class:`MixedExamplesError` where a loss has a gradient through another example; keeps the graph."""
    count = len(losses)
    chosen = torch.zeros(count, dtype=torch.bool, device=losses.device)
    chosen[torch.randperm(count, generator=torch.Generator().manual_seed(count))[: count // 2].to(losses.device)] = True
    reached: list[str] = []

    def look(parameter: nn.Parameter, record: Record) -> None:
        sizes = torch.linalg.vector_norm(record.grad.detach().reshape(count, -1), torch.inf, dim=1).nan_to_num(0, 0, 0)
        if bool((sizes[~chosen] > ROUNDING * sizes.max()).any()):
            reached.append(tape.name(parameter))

    with tape.listening(look, count):
        propagate(losses[chosen].sum(), tape.anchor)
    if reached:
        raise MixedExamplesError(
            f"the loss of an example depends on other examples of the batch, by way of {reached[0]!r} (and "
            f"{len(reached) - 1} more uses): no norm of its own gradient bounds its influence. Average over each "
            "example's own tokens, use no statistics over the batch, and keep examples in their order"
        )


def propagate(loss: Tensor, anchor: Tensor) -> None:
    """A backward pass to the uses of parameters and nowhere else, so that no ``.grad`` changes; keeps the graph."""
    try:
        torch.autograd.grad(loss, anchor, retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        if "use_reentrant" not in str(error):
            raise
        loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
