"""Several linear maps of one input, tapped side by side: the queries, keys and values of an attention.

The tapped tensor of ``encoder.I.qkv`` is (B, n, width of all three). What follows gets its parts and nothing of the
input: the residual connection round the attention is dropped, as at ``encoder.I.mha``.

>>> maps = [nn.Linear(2, 3), nn.Linear(2, 3)]
>>> side_by_side(maps, torch.ones(1, 4, 2)).shape, stacked_weight(maps).shape
(torch.Size([1, 4, 6]), torch.Size([6, 2]))
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def side_by_side(maps: Sequence[nn.Module], x: Tensor) -> Tensor:
    """The outputs of ``maps`` for ``x`` (…, d), joined along the last axis; hooks of the maps do not run."""
    return torch.cat([each.forward(x) for each in maps], dim=-1)


def stacked_weight(maps: Sequence[nn.Module]) -> Tensor:
    """The matrix W of the joint map x ↦ Wx + b, shape (sum of the outputs, d)."""
    return torch.cat([_weight(each) for each in maps])


def largest_singular_value(maps: Sequence[nn.Module]) -> float:
    """By how much the joint map can stretch a difference: σ_max of the stacked matrix, exact to float64 rounding."""
    weight = stacked_weight(maps).detach().double().cpu()
    gram = weight.T @ weight if weight.shape[0] >= weight.shape[1] else weight @ weight.T
    return float(torch.linalg.eigvalsh(gram)[-1].clamp(min=0).sqrt())


def _weight(module: nn.Module) -> Tensor:
    weight = module.weight
    if not isinstance(weight, Tensor):
        raise TypeError(f"expected a linear map, got {type(module).__name__}")
    # transformers' Conv1D keeps its weight as (inputs, outputs).
    return weight if isinstance(module, nn.Linear) else weight.T
