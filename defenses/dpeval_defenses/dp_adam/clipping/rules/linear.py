"""Linear maps: ``F.linear`` (Linear, LoRA, heads), ``torch.addmm`` (transformers' Conv1D), and products with a matrix.

>>> linear in RULES.values(), addmm in RULES.values(), matmul in RULES.values()
(True, True, True)
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
    return _product(tape, use, input, weight, bias, transposed=False)


def addmm(tape: Tape, use: Use, input: Tensor, mat1: Tensor, mat2: Tensor, **scales: Any) -> Any:  # noqa: A002
    """``torch.addmm(bias, rows, weight)`` as Conv1D calls it: a bias of one dimension and no scales."""
    if scales or input.ndim != 1:
        return NotImplemented
    return _product(tape, use, mat1, mat2, input, transposed=True)


def matmul(tape: Tape, use: Use, input: Tensor, other: Tensor) -> Any:  # noqa: A002
    """``x @ W`` with a matrix of parameters on the right."""
    if other.ndim != 2 or input.ndim < 2:
        return NotImplemented
    return _product(tape, use, input, other, None, transposed=True)


def turned(tape: Tape, use: Use, input: Tensor, *axes: Any) -> Any:  # noqa: A002
    """The transpose of a matrix of parameters: remembered, so that a product with it is a product with the matrix."""
    if not tape.tracks(input) or input.ndim != 2 or (axes and sorted(a % 2 for a in axes) != [0, 1]):
        return NotImplemented
    spread = tape.spread(input)
    if not tape.shares(spread):
        return spread.T
    out: Any = tape.share(spread.hidden.mT, use.key)  # type: ignore[attr-defined]
    out.turned = input
    return out


def _product(tape: Tape, use: Use, x: Any, weight: Any, bias: Any, *, transposed: bool) -> Any:
    matrix = getattr(weight, "turned", weight)
    if tape.tracks(x) or hasattr(x, "turned") or matrix.ndim != 2 or not all_leaves(matrix, bias):
        return NotImplemented
    transposed = transposed != (matrix is not weight)
    rows, axis, free = placed(tape, use, x, matrix if tape.tracks(matrix) else bias)
    site = tape.site(axis, matrix, bias, transposed=transposed)
    out = Product.apply(rows, tape.data(matrix), tape.data(bias), tape.anchor, site)  # type: ignore[no-untyped-call]
    return tape.share(out, use.key) if free else out


RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    functional.linear: linear,
    torch.addmm: addmm,
    **dict.fromkeys((torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__), matmul),
    **dict.fromkeys((torch.t, torch.Tensor.t, torch.transpose, torch.Tensor.transpose), turned),
    torch.Tensor.T.__get__: turned,  # type: ignore[attr-defined]
    torch.Tensor.mT.__get__: turned,  # type: ignore[attr-defined]
}
