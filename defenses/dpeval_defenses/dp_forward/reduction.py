"""Fewer columns around the noise: M1 maps each row from d to k before it, M2 back from k to d after it.

Du et al. 2023, section 3.2: the noise has k columns instead of d, each with the same σ, since the bound (and with it
the sensitivity 2C) comes after M1 and does not depend on k. Both maps end in a tanh, as in the published code.

M1 runs on the user's device. Where the part before the noise is frozen, M1 is drawn from a fixed seed and public; where
that part learns from clear texts, M1 learns with it. M2 only ever sees noised tensors and always learns.

>>> reduction = Reduction(width=8, reduced=2)
>>> reduction.reduce(torch.zeros(1, 3, 8)).shape, reduction.restore(torch.zeros(1, 3, 2)).shape
(torch.Size([1, 3, 2]), torch.Size([1, 3, 8]))
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from dpeval.models.classifier import TextClassifier

NAME = "reduction"
FILE = "reduction.safetensors"
PUBLIC_SEED = 0


class Reduction(nn.Module):
    """M1 and M2 of one position; drawn from :data:`PUBLIC_SEED`, so that anybody can draw them again."""

    def __init__(self, width: int, reduced: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(PUBLIC_SEED)
        self.down = _linear(width, reduced, draw)
        self.up = _linear(reduced, width, draw)

    def reduce(self, x: Tensor) -> Tensor:
        """M1: rows (…, d) to rows (…, k)."""
        return torch.tanh(self.down(x))

    def restore(self, x: Tensor) -> Tensor:
        """M2: rows (…, k) to rows (…, d)."""
        return torch.tanh(self.up(x))

    @property
    def reduced(self) -> int:
        """k."""
        return int(self.down.out_features)


def _linear(inputs: int, outputs: int, draw: torch.Generator) -> nn.Linear:
    """Keeps the size of what goes in: entries of deviation 1/√inputs; no bias at first."""
    made = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        made.weight.normal_(0.0, inputs**-0.5, generator=draw)
        made.bias.zero_()
    return made


def attach(classifier: TextClassifier, width: int, reduced: int) -> Reduction:
    """Give ``classifier`` a reduction of ``width`` columns to ``reduced``; its parameters train with the others."""
    if not 0 < reduced < width:
        raise ValueError(f"reduce_to: expected a number of columns between 1 and {width - 1}, got {reduced}")
    made = Reduction(width, reduced).to(classifier.device)
    classifier.add_module(NAME, made)
    return made


def reduction_of(classifier: TextClassifier) -> Reduction | None:
    """The reduction of ``classifier``, if it has one."""
    found = classifier.__dict__["_modules"].get(NAME)
    return found if isinstance(found, Reduction) else None


def let_learn(classifier: TextClassifier, *, before: bool) -> None:
    """M2 learns; M1 only where what comes ``before`` the noise does."""
    reduction = reduction_of(classifier)
    if reduction is not None:
        reduction.down.requires_grad_(before)
        reduction.up.requires_grad_(True)


@contextmanager
def set_apart(classifier: TextClassifier) -> Iterator[Reduction | None]:
    """``classifier`` without its reduction, as the public checkpoint builds it."""
    reduction = reduction_of(classifier)
    if reduction is not None:
        del classifier.reduction
    try:
        yield reduction
    finally:
        if reduction is not None:
            classifier.add_module(NAME, reduction)


def save_reduction(reduction: Reduction | None, folder: Path) -> None:
    """Write both maps, if there are any."""
    if reduction is not None:
        save_file({name: tensor.cpu().contiguous() for name, tensor in reduction.state_dict().items()}, folder / FILE)


def load_reduction(classifier: TextClassifier, folder: Path) -> None:
    """Attach the maps that were written to ``folder``, if there are any."""
    if (folder / FILE).is_file():
        stored = load_file(str(folder / FILE))
        reduced, width = stored["down.weight"].shape
        attach(classifier, width, reduced).load_state_dict(stored)
