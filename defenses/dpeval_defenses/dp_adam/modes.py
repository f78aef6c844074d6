"""Training mode where something trains, evaluation mode where everything is frozen.

Dropout stays on in training, as the model's authors set it: each example draws its own mask, so clipping bounds its
share all the same. A part of the model whose parameters are all frozen runs in evaluation mode, so that its output is
a fixed function of the input (and can be computed once when it stands before everything that trains).

>>> model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout()), torch.nn.Linear(2, 1))
>>> for p in model[0].parameters(): p.requires_grad = False
>>> with training_mode(model.eval()):
...     print(model.training, model[0][1].training, model[1].training)
True False True
>>> model.training
False
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def training_mode(model: torch.nn.Module) -> Iterator[None]:
    """Put ``model`` into training mode but for its frozen parts; give each module its mode back at the end."""
    before = {module: module.training for module in model.modules()}
    model.train()
    _freeze_modes(model)
    try:
        yield
    finally:
        for module, mode in before.items():
            module.training = mode


def _freeze_modes(module: torch.nn.Module) -> None:
    parameters = list(module.parameters())
    if parameters and not any(p.requires_grad for p in parameters):
        module.eval()
        return
    for child in module.children():
        _freeze_modes(child)
