"""Normalisations with a gain (and a bias): layer norm by its own rule, RMS and group norm as norm, then gain.

Norms written out in Python (Llama's, T5's, Gemma's) need no rule: their gain is a parameter used bare.

>>> sorted(f.__name__ for f in RULES)
['group_norm', 'layer_norm', 'rms_norm']
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


def rms_norm(
    tape: Tape,
    use: Use,
    input: Tensor,  # noqa: A002
    normalized_shape: list[int],
    weight: Tensor,
    eps: float | None = None,
) -> Any:
    """``F.rms_norm`` as the bare norm times the gain."""
    del tape, use
    return functional.rms_norm(input, normalized_shape, None, eps) * weight


def group_norm(
    tape: Tape,
    use: Use,
    input: Tensor,  # noqa: A002
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    """``F.group_norm`` as the bare norm, then gain and bias along the channels."""
    del tape, use
    out = functional.group_norm(input, num_groups, None, None, eps)
    channels = (-1, *[1] * (input.ndim - 2))
    out = out if weight is None else out * weight.view(channels)
    return out if bias is None else out + bias.view(channels)


RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    functional.layer_norm: layer_norm,
    functional.rms_norm: rms_norm,
    functional.group_norm: group_norm,
}
