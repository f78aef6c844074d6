"""Reading and replacing the tensor at a tap: the user's half of a model, and everybody else's.

A release cuts a model in two. :func:`capture` is the client's half: it runs on the text and stops at the tap.
:func:`forward_from` is the rest: it gets the tapped tensor and nothing else, neither mask nor lengths nor token types.
What would carry the text round the tap (the residual connection past ``mha`` and ``ffn``) is dropped, as in Du et al.
2023 (DP-Forward, section 3.3), by giving the norm that follows exactly the tapped tensor.

Hooks live for one forward pass. With a classifier and a batch at hand::

    released = edit(closed(capture(classifier, batch, "encoder.0.ffn"), batch["attention_mask"], length=64))
    logits = forward_from(classifier, "encoder.0.ffn", released)

>>> closed(torch.ones(1, 2, 1), torch.tensor([[1, 0]]), length=3)[0].tolist()
[[1.0], [0.0], [0.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from dpeval.errors import ModelError
from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import Batch
from dpeval.models.layout import Layout, TapPoint

Edit: TypeAlias = Callable[[Tensor], Tensor]
"""A change of the tapped tensor, shape (B, rows, d) to the same shape."""


def capture(model: TextClassifier, batch: Batch, tap: str) -> Tensor:
    """The tensor at ``tap``, shape (B, L, d), or (B, 1, d) for a pooled one; nothing after the tap is computed."""
    point = Layout.of(model.encoder).point(tap)
    try:
        edited_pass(model, batch, point, _stop)
    except _ReachedError as reached:
        return reached.tensor
    raise ModelError(f"{tap}: the module {point.source} did not run")


def forward_from(model: TextClassifier, tap: str, tensor: Tensor) -> Tensor:
    """Logits (B, classes) from the tapped tensor (B, rows, d) alone; layers before the tap are not run."""
    layout = Layout.of(model.encoder)
    point = layout.point(tap)
    batch = _anonymous(tensor)
    if not layout.skippable or point.layer is None or point.layer < 0:
        return edited_pass(model, batch, point, lambda _: tensor)
    follower = _follower(model, layout, point)
    if follower is None:
        with _edited(model, point, lambda _: tensor), _idle(model, point), _without_layers(layout, point.layer):
            rest: Tensor = model(**batch)
        return rest
    with _without_layers(layout, point.layer + 1), _fed(follower, tensor):
        logits: Tensor = model(**batch)
    return logits


def run_edited(model: TextClassifier, batch: Batch, tap: str, edit: Edit) -> Tensor:
    """Logits when the tensor at ``tap`` is replaced by ``edit`` of it: both halves, one after the other."""
    length = batch["attention_mask"].shape[1]
    return forward_from(model, tap, edit(closed(capture(model, batch, tap), batch["attention_mask"], length)))


def closed(tensor: Tensor, mask: Tensor, length: int) -> Tensor:
    """The tapped tensor with ``length`` rows for every text, rows of padding zero; a pooled tensor as it is.

    Zero rows are part of what is normalised and noised like any other, so the number of tokens is protected too.
    """
    if tensor.shape[1] == 1:
        return tensor
    rows = tensor * mask.to(tensor.dtype).unsqueeze(-1)
    return nn.functional.pad(rows, (0, 0, 0, length - rows.shape[1]))


def edited_pass(model: TextClassifier, batch: Batch, point: TapPoint, edit: Edit) -> Tensor:
    """One pass over the whole model on ``batch`` with the tensor at ``point`` edited on its way."""
    with _edited(model, point, edit):
        logits: Tensor = model(**batch)
    return logits


@contextmanager
def _edited(model: TextClassifier, point: TapPoint, edit: Edit) -> Iterator[None]:
    passed: list[Tensor] = []

    def on_source(_module: nn.Module, _args: Any, output: Any) -> Any:
        first = output[0] if isinstance(output, tuple) else output
        if passed:
            raise ModelError(f"{point.name}: the module runs more than once in a pass; a release point is passed once")
        passed.append(_like(first, edit(_rows(first, point))))
        return (passed[0], *output[1:]) if isinstance(output, tuple) else passed[0]

    def on_sink(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if not passed:
            raise ModelError(f"{point.name}: {point.sink} ran before {point.source}")
        return (passed[0], *args[1:])

    # Modules are looked up by path now: taking layers out of the stack later renumbers the rest.
    source = model.pool if point.source is None else model.encoder.get_submodule(point.source)
    handles = [source.register_forward_hook(on_source)]
    if point.sink is not None:
        handles.append(model.encoder.get_submodule(point.sink).register_forward_pre_hook(on_sink))
    try:
        yield
        if not passed:
            raise ModelError(f"{point.name}: the module {point.source} did not run")
    finally:
        for handle in handles:
            handle.remove()


def _rows(tensor: Any, point: TapPoint) -> Tensor:
    if isinstance(tensor, Tensor) and tensor.ndim in {2, 3} and tensor.is_floating_point():
        return tensor.unsqueeze(1) if tensor.ndim == 2 else tensor
    shape = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
    raise ModelError(f"{point.name}: expected a tensor (batch, rows, d) or (batch, d) there, got {shape}")


def _like(original: Tensor, rows: Tensor) -> Tensor:
    return rows.squeeze(1) if original.ndim == 2 else rows


def _anonymous(tensor: Tensor) -> Batch:
    """A batch that says nothing but its shape: what the second half of a model is called with."""
    shape = tensor.shape[:2]
    return {
        "input_ids": torch.zeros(shape, dtype=torch.long, device=tensor.device),
        "attention_mask": torch.ones(shape, dtype=torch.long, device=tensor.device),
    }


def _follower(model: TextClassifier, layout: Layout, point: TapPoint) -> nn.Module | None:
    """The module that takes the tapped tensor as its first argument, when the tap is the output of a whole layer."""
    if layout.family is None or point.layer is None or not point.name.endswith(".add_norm_2"):
        return None
    layers = layout.layers
    return layers[point.layer + 1] if point.layer + 1 < len(layers) else model.pool


@contextmanager
def _fed(module: nn.Module, tensor: Tensor) -> Iterator[None]:
    def replace(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        return ((tensor, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": tensor})

    handle = module.register_forward_pre_hook(replace, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _idle(model: TextClassifier, point: TapPoint) -> Iterator[None]:
    """The modules that only lead to the tap hand their input on, for one pass."""
    passing = [model.encoder.get_submodule(path) for path in point.idle]
    attention = [model.encoder.get_submodule(path) for path in (point.idle_attention,) if path]
    try:
        for module in passing:
            module.forward = _hand_on
        for module in attention:
            module.forward = _hand_on_as_attention
        yield
    finally:
        for module in [*passing, *attention]:
            module.__dict__.pop("forward", None)


def _hand_on(hidden: Tensor, *_args: Any, **_kwargs: Any) -> Tensor:
    return hidden


def _hand_on_as_attention(hidden: Tensor, *_args: Any, **_kwargs: Any) -> tuple[Tensor, None]:
    return hidden, None


@contextmanager
def _without_layers(layout: Layout, count: int) -> Iterator[None]:
    """The stack without its first ``count`` layers, for one pass."""
    parent, name, layers = layout.parent, layout.stack_name, layout.layers
    setattr(parent, name, nn.ModuleList(list(layers)[count:]))
    try:
        yield
    finally:
        setattr(parent, name, layers)


class _ReachedError(Exception):
    """Ends a pass at the tap; never leaves this module."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__("the tap is reached")
        self.tensor = tensor


def _stop(tensor: Tensor) -> Tensor:
    raise _ReachedError(tensor)
