"""Linear maps: ``F.linear`` (Linear, LoRA, heads) and ``torch.addmm`` (transformers' Conv1D), with or without a bias.

>>> sorted(f.__name__ for f in RULES)
['addmm', 'linear']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from dpeval_defenses.dp_adam.clipping.functions import Product
from dpeval_defenses.dp_adam.clipping.layout import Use
from dpeval_defenses.dp_adam.clipping.placing import placed
from dpeval_defenses.dp_adam.clipping.tracked import all_leaves

if TYPE_CHECKING:
    from dpeval_defenses.dp_adam.clipping.tape import Tape


def linear(tape: Tape, use: Use, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:  # noqa: A002
    """``F.linear`` of examples (or of a shared value) with a tracked weight or bias."""
    if not all_leaves(weight, bias):
        return NotImplemented
    return _product(tape, use, input, weight, bias, transposed=False)


def addmm(tape: Tape, use: Use, input: Tensor, mat1: Tensor, mat2: Tensor, **scales: Any) -> Any:  # noqa: A002
    """``torch.addmm(bias, rows, weight)`` as Conv1D calls it: a bias of one dimension and no scales."""
    if scales or input.ndim != 1 or not all_leaves(input, mat2):
        return NotImplemented
    return _product(tape, use, mat1, mat2, input, transposed=True)


def _product(tape: Tape, use: Use, x: Tensor, weight: Tensor, bias: Tensor | None, *, transposed: bool) -> Any:
    if tape.tracks(x):
        return NotImplemented
    x, axis, free = placed(tape, use, x, weight if tape.tracks(weight) else bias, int(transposed))
    site = tape.site(axis, weight, bias, transposed=transposed)
    out = Product.apply(x, tape.data(weight), tape.data(bias), tape.anchor, site)  # type: ignore[no-untyped-call]
    return tape.share(out, use.key) if free else out


RULES: dict[Callable[..., Any], Callable[..., Any]] = {functional.linear: linear, torch.addmm: addmm}
