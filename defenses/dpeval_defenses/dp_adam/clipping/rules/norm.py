"""Layer norm with a gain (and a bias).

Norms written out in Python (Llama's, T5's, Gemma's) need no rule: their gain is a parameter used bare.

>>> [f.__name__ for f in RULES.values()]
['layer_norm']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from dpeval_defenses.dp_adam.clipping.functions import LayerNorm
from dpeval_defenses.dp_adam.clipping.layout import Use
from dpeval_defenses.dp_adam.clipping.placing import placed
from dpeval_defenses.dp_adam.clipping.tracked import all_leaves

if TYPE_CHECKING:
    from dpeval_defenses.dp_adam.clipping.tape import Tape


def layer_norm(
    tape: Tape,
    use: Use,
    input: Tensor,  # noqa: A002
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    """``F.layer_norm`` with a tracked gain or bias."""
    if not all_leaves(weight, bias) or tape.tracks(input):
        return NotImplemented
    x, axis, free = placed(tape, use, input, weight if tape.tracks(weight) else bias)
    if x.is_cuda and torch.is_autocast_enabled("cuda"):
        x = x.float()
    site = tape.site(axis, weight, bias)
    out = LayerNorm.apply(x, list(normalized_shape), tape.data(weight), tape.data(bias), eps, tape.anchor, site)  # type: ignore[no-untyped-call]
    return tape.share(out, use.key) if free else out


RULES: dict[Callable[..., Any], Callable[..., Any]] = {functional.layer_norm: layer_norm}
