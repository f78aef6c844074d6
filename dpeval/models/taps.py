"""Reading and replacing the tensor at a tap: the user's half of a model, and everybody else's.

A release cuts a model in two. :func:`capture` is the client's half: it runs on the text and stops at the tap.
:func:`forward_from` is the rest: it gets the tapped tensor and nothing else, neither mask nor lengths nor token types.
What would carry the text round the tap (the residual connection past ``mha`` and ``ffn``) is dropped, as in Du et al.
2023 (DP-Forward, section 3.3): the sum that follows is taken with zeros.

Nothing stays on the model after a pass. With a classifier and a batch at hand::

    released = edit(closed(capture(classifier, batch, "encoder.0.ffn"), batch["attention_mask"], length=64))
    logits = forward_from(classifier, "encoder.0.ffn", released)

>>> closed(torch.ones(1, 2, 1), torch.tensor([[1, 0]]), length=3)[0].tolist()
[[1.0], [0.0], [0.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from dpeval.errors import ModelError
from dpeval.models.classifier import TextClassifier
from dpeval.models.cutting import (
    PROBE_LENGTH,
    PROBE_ROWS,
    Answer,
    Forward,
    ReachedError,
    answering,
    answers_of,
    constant,
    counting_calls,
    go_on_inside,
    handed_on,
    stop_inside,
    unheard,
)
from dpeval.models.encoding import Batch
from dpeval.models.layout import Layout, TapPoint

Edit: TypeAlias = Callable[[Tensor], Tensor]
"""A change of the tapped tensor, shape (B, rows, d) to the same shape."""


def capture(model: TextClassifier, batch: Batch, tap: str) -> Tensor:
    """The tensor at ``tap``, shape (B, L, d), or (B, 1, d) for a pooled one; nothing after the tap is computed."""
    layout = Layout.of(model.encoder)
    point = layout.point(tap)
    try:
        with _stopping(model, layout, point):
            model(**batch)
    except ReachedError as reached:
        return _checked(reached.tensor, batch, point)
    raise ModelError(f"{tap}: the module {point.source} did not run")


def forward_from(model: TextClassifier, tap: str, tensor: Tensor, mask: Tensor | None = None) -> Tensor:
    """Logits (B, classes) from the tapped tensor (B, rows, d) alone; layers before the tap are not run.

    ``mask`` (B, rows) tells which rows are padding, for a release whose lengths are public; by default every row
    counts.
    """
    layout = Layout.of(model.encoder)
    with _going_on(model, layout, layout.point(tap), tensor):
        logits: Tensor = model(**_anonymous(tensor, mask))
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
    missing = length - rows.shape[1]
    return nn.functional.pad(rows, (0, 0, 0, missing)) if missing else rows


def edited_pass(model: TextClassifier, batch: Batch, point: TapPoint, edit: Edit) -> Tensor:
    """One pass over the whole model on ``batch``, mask and all, with the tensor at ``point`` edited on its way."""
    layout = Layout.of(model.encoder)
    answers = _answers(model)

    def reply(call: int, path: str, own: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if point.at is None or call != point.layer:
            return own(*args, **kwargs)
        block = layout.blocks[path]
        try:
            stop_inside(block, point.at, own, args, kwargs)
        except ReachedError as reached:
            tensor = edit(_checked(reached.tensor, batch, point))
        return go_on_inside(block, path, point.at, tensor, answers, own, args, kwargs)

    if point.at is not None:
        with counting_calls(layout, reply):
            logits: Tensor = model(**batch)
        return logits
    with _edited(model, point, lambda rows: edit(_checked(rows, batch, point))):
        whole: Tensor = model(**batch)
    return whole


@contextmanager
def _stopping(model: TextClassifier, layout: Layout, point: TapPoint) -> Iterator[None]:
    def reply(call: int, path: str, own: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if call == point.layer and point.at is not None:
            return stop_inside(layout.blocks[path], point.at, own, args, kwargs)
        return own(*args, **kwargs)

    with counting_calls(layout, reply) if point.at is not None else _edited(model, point, _stop):
        yield


@contextmanager
def _going_on(model: TextClassifier, layout: Layout, point: TapPoint, tensor: Tensor) -> Iterator[None]:
    """Everything up to the tap is idle, and the tap holds ``tensor``."""
    answers = _answers(model)
    start = max(0, point.layer) if point.layer is not None else 0

    def reply(call: int, path: str, own: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if call < start and path in answers:
            return handed_on(path, unheard(tensor, answers[path]), answers, own, args, kwargs)
        if call == point.layer and point.at is not None:
            return go_on_inside(layout.blocks[path], path, point.at, tensor, answers, own, args, kwargs)
        return own(*args, **kwargs)

    with ExitStack() as stack:
        for path in _unheard(layout, point, answers, tensor.shape[-1]):
            stack.enter_context(
                answering(model.encoder.get_submodule(path), constant(answers[path].with_first(tensor)))
            )
        if start or point.at is not None:
            stack.enter_context(counting_calls(layout, reply))
        if point.at is None:
            stack.enter_context(_edited(model, point, lambda _: tensor))
        yield


def _unheard(layout: Layout, point: TapPoint, answers: dict[str, Answer], width: int) -> list[str]:
    """Modules outside the blocks that only lead to the tap; what they say is thrown away, so the tensor will do."""
    after_first = point.layer is not None and point.layer > 0
    embeddings = [path for path in ("embeddings",) if after_first and path in answers and answers[path].width == width]
    mixed = [path for path in (layout.convolution,) if path and after_first and path in answers]
    return embeddings + mixed


@contextmanager
def _edited(model: TextClassifier, point: TapPoint, edit: Edit) -> Iterator[None]:
    """The output of the module at ``point`` is edited, in the one call that a pass makes of it."""
    passed: list[Tensor] = []

    def on_source(_module: nn.Module, _args: Any, output: Any) -> Any:
        many = type(output) in (tuple, list)
        first = output[0] if many else output
        if passed:
            raise ModelError(
                f"{point.name}: the module runs more than once in a pass; a release point is passed once. Where layers "
                "share their modules, positions by name count the calls"
            )
        passed.append(_like(first, edit(_rows(first, point))))
        return type(output)((passed[0], *output[1:])) if many else passed[0]

    source = model.pool if point.source is None else model.encoder.get_submodule(point.source)
    handle = source.register_forward_hook(on_source)
    try:
        yield
        if not passed:
            raise ModelError(f"{point.name}: the module {point.source} did not run")
    finally:
        handle.remove()


def _answers(model: TextClassifier) -> dict[str, Answer]:
    """What each module of the encoder answers with; learned in the first pass and kept with the model."""
    known: dict[str, Answer] = model.answers
    if not known:
        shape = (PROBE_ROWS, PROBE_LENGTH)
        batch = _anonymous(torch.empty(*shape, 1, device=model.device), None)
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        try:
            with torch.no_grad():
                known.update(answers_of(model.encoder, lambda: model(**batch)))
        finally:
            for module, training in modes:
                module.training = training
    return known


def _rows(tensor: Any, point: TapPoint) -> Tensor:
    if isinstance(tensor, Tensor) and tensor.ndim in {2, 3} and tensor.is_floating_point():
        return tensor.unsqueeze(1) if tensor.ndim == 2 else tensor
    shape = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
    raise ModelError(f"{point.name}: expected a tensor (batch, rows, d) or (batch, d) there, got {shape}")


def _checked(tensor: Any, batch: Batch, point: TapPoint) -> Tensor:
    """The tapped tensor with a row for each token, or one row for a text; else ModelError."""
    rows, (texts, length) = _rows(tensor, point), batch["input_ids"].shape
    if rows.shape[0] != texts or rows.shape[1] not in {1, length}:
        raise ModelError(
            f"{point.name}: expected a tensor ({texts}, {length} or 1, d) for {texts} texts of {length} tokens, got "
            f"{tuple(rows.shape)}; this model orders, pads or shortens texts there, so that no row belongs to one token"
        )
    return rows


def _like(original: Tensor, rows: Tensor) -> Tensor:
    return rows.squeeze(1) if original.ndim == 2 else rows


def _anonymous(tensor: Tensor, mask: Tensor | None) -> Batch:
    """A batch that says nothing but its shape, and what is public: what the second half of a model is called with."""
    shape = tensor.shape[:2]
    return {
        "input_ids": torch.zeros(shape, dtype=torch.long, device=tensor.device),
        "attention_mask": torch.ones(shape, dtype=torch.long, device=tensor.device) if mask is None else mask,
    }


def _stop(tensor: Tensor) -> Tensor:
    raise ReachedError(tensor)
