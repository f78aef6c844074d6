"""Reparametrised gradient perturbation (Yu et al. 2021): the gradient of a matrix seen through two thin ones.

In each step every weight matrix W is written as W̃ + L R, with orthonormal columns of L and rows of R of small rank r.
The forward pass computes what it always did. The gradients of L and R alone are clipped for each example, summed and
noised, r (p + d) numbers instead of p d; then they are carried back to the whole matrix,

    ∂W = (∂L) R + L (∂R) − L Lᵀ (∂L) R,

and the optimizer moves W. What follows the noise, L and R of the next step among it, is post-processing. L and R come
from one iteration of the power method on the update so far, W − W₀, and are random where there is none yet. The
authors' factor of 1/10 on the gradients of the classification head is left out: clipping bounds it.

>>> layer = LowRankLinear(nn.Linear(5, 3), rank=1)
>>> layer.refresh(torch.Generator().manual_seed(0))
>>> x = torch.randn(2, 5)
>>> torch.allclose(layer(x), layer.plain(x), atol=1e-6)
True
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from dpeval.errors import ModelError


class LowRankLinear(nn.Module):
    """Stands for a linear layer (or transformers' Conv1D) while it trains; ``plain`` holds the whole weight."""

    def __init__(self, plain: nn.Linear | Conv1D, rank: int) -> None:
        super().__init__()
        self.plain = plain.requires_grad_(requires_grad=False)
        width, height = self._whole().shape
        self.left = nn.Linear(rank, width, bias=False, device=plain.weight.device, dtype=plain.weight.dtype)
        self.right = nn.Linear(height, rank, bias=False, device=plain.weight.device, dtype=plain.weight.dtype)
        self.register_buffer("start", self._whole().detach().clone(), persistent=False)
        self.register_buffer("residual", self._whole().detach().clone(), persistent=False)
        nn.init.zeros_(self.left.weight)
        nn.init.zeros_(self.right.weight)

    @property
    def whole(self) -> nn.Parameter:
        """The parameter that the optimizer moves."""
        return cast("nn.Parameter", self.plain.weight)

    @property
    def weight(self) -> Tensor:
        """The whole weight, for code that looks at its type or place."""
        return self.whole

    def forward(self, x: Tensor) -> Tensor:
        """What ``plain`` computes."""
        clear = nn.functional.linear(x, self.get_buffer("residual"), self.plain.bias)
        thin: Tensor = self.left(self.right(x))
        return clear + thin

    @torch.no_grad()
    def refresh(self, generator: torch.Generator) -> None:
        """New L and R for the weight as it is; random numbers are drawn on the CPU."""
        whole = self._whole()
        left, right = carriers(whole - self.get_buffer("start"), self.left.in_features, generator)
        self.left.weight.copy_(left)
        self.right.weight.copy_(right)
        self.get_buffer("residual").copy_(whole - left @ right)

    def project(self) -> None:
        """The gradient of the whole weight from those of L and R."""
        left, right = self.left.weight.detach(), self.right.weight.detach()
        found = carried_back(left, right, _grad(self.left.weight), _grad(self.right.weight))
        self.plain.weight.grad = found.T.contiguous() if isinstance(self.plain, Conv1D) else found

    def _whole(self) -> Tensor:
        weight: Tensor = self.plain.weight
        return weight.T if isinstance(self.plain, Conv1D) else weight


def carriers(update: Tensor, rank: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """L (p, r) with orthonormal columns and R (r, d) with orthonormal rows, from one power iteration on (p, d)."""
    start = torch.randn(update.shape[1], rank, generator=generator).to(update)
    if not bool(update.any()):
        other = torch.randn(update.shape[0], rank, generator=generator).to(update)
        return torch.linalg.qr(other)[0], torch.linalg.qr(start)[0].T
    left = torch.linalg.qr(update @ start)[0]
    return left, torch.linalg.qr(update.T @ left)[0].T


def carried_back(left: Tensor, right: Tensor, of_left: Tensor, of_right: Tensor) -> Tensor:
    """The gradient (p, d) from those of L (p, r) and R (r, d)."""
    return of_left @ right + left @ (of_right - (left.T @ of_left) @ right)


class LowRankCarrier:
    """All the low-rank layers of a model in training, for :class:`~dpeval_defenses.dp_adam.trainer.PrivateTrainer`."""

    def __init__(self, layers: dict[str, LowRankLinear], entropy: int) -> None:
        self.layers, self._entropy = layers, entropy

    def moved(self, trained: dict[str, nn.Parameter]) -> dict[str, nn.Parameter]:
        """What the optimizer moves: whole weights in place of their carriers, and what else trains."""
        thin = {id(p) for layer in self.layers.values() for p in (layer.left.weight, layer.right.weight)}
        rest = {name: p for name, p in trained.items() if id(p) not in thin}
        whole: dict[str, nn.Parameter] = {f"{name}.weight": layer.whole for name, layer in self.layers.items()}
        return whole | rest

    def prepare(self, step: int) -> None:
        """New carriers for ``step``, the same whenever it is taken."""
        for index, layer in enumerate(self.layers.values()):
            words = np.random.SeedSequence(self._entropy, spawn_key=(step, index)).generate_state(1, np.uint64)
            layer.refresh(torch.Generator().manual_seed(int(words[0]) >> 1))

    def project(self) -> None:
        """Gradients of the whole weights from the noised gradients of their carriers."""
        for layer in self.layers.values():
            layer.project()


def add_low_rank(model: nn.Module, layers: nn.ModuleList, rank: int, entropy: int) -> LowRankCarrier:
    """Replace every linear layer in ``layers``, a part of ``model``; :func:`remove_low_rank` puts them back."""
    places = list(_linear_layers(layers))
    if not places:
        raise ModelError(f"adapt = 'rgp': the layers of {type(model).__name__} have no linear layer; use 'full'")
    for parent, name in places:
        plain = getattr(parent, name)
        most = min(plain.weight.shape)
        if rank > most:
            raise ModelError(f"adapt = 'rgp': expected rgp_rank of at most {most}, got {rank}")
        setattr(parent, name, LowRankLinear(plain, rank))
    found = {name: m for name, m in model.named_modules() if isinstance(m, LowRankLinear)}
    return LowRankCarrier(found, entropy)


def remove_low_rank(model: nn.Module) -> None:
    """Put the plain layers, with their weights as they are now, back into ``model``."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, LowRankLinear):
                setattr(parent, name, child.plain)


def _linear_layers(layers: nn.ModuleList) -> Iterator[tuple[nn.Module, str]]:
    for parent in layers.modules():
        for name, child in parent.named_children():
            if isinstance(child, (nn.Linear, Conv1D)):
                yield parent, name


def _grad(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
