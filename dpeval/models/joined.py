"""Several linear maps of one input, tapped side by side: the queries, keys and values of an attention.

The tapped tensor of ``encoder.I.qkv`` is (B, n, 3d). What follows gets its three parts and nothing of the input: the
residual connection round the attention is dropped, as at ``encoder.I.mha``.

>>> maps = [nn.Linear(2, 3), nn.Linear(2, 3)]
>>> side_by_side(maps, torch.ones(1, 4, 2)).shape, stacked_weight(maps).shape
(torch.Size([1, 4, 6]), torch.Size([6, 2]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from dpeval.errors import ModelError


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
    weight: Tensor = module.weight
    # transformers' Conv1D keeps its weight as (inputs, outputs).
    return weight if isinstance(module, nn.Linear) else weight.T


@contextmanager
def joint_edit(maps: Sequence[nn.Module], edit: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
    """For one pass, let ``maps`` give the parts of ``edit`` of their joined outputs, whichever runs first.

    Yields a list that holds the edited tensor once one of them has run.
    """
    made: list[Tensor] = []
    given: set[int] = set()
    true = [each.forward for each in maps]
    width = [_weight(each).shape[0] for each in maps]

    def part(place: int) -> Callable[[Tensor], Tensor]:
        def forward(x: Tensor) -> Tensor:
            if place in given:
                raise ModelError("one of the joined maps runs more than once in a pass; such maps cannot be tapped")
            given.add(place)
            if not made:
                made.append(edit(torch.cat([each(x) for each in true], dim=-1)))
            return made[0].split(width, dim=-1)[place]

        return forward

    try:
        for place, each in enumerate(maps):
            each.forward = part(place)
        yield made
    finally:
        for each in maps:
            each.__dict__.pop("forward", None)
