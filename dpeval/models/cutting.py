"""Cuts a running model at a position: stops there, or goes on from a given tensor with nothing else.

Modules answer differently for one pass and are put back. What a module answers with (a tensor, a tuple, a tensor with
batch and rows in one axis) is learned once per model by :func:`answers_of`, not assumed.

>>> Answer(size=2, flat=False, carries=False).with_first(Tensor(1, 1, 2))[1] is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from dpeval.errors import ModelError
from dpeval.models.families import BLOCK, INPUT, Sublayer
from dpeval.models.joined import side_by_side, stacked_weight
from dpeval.models.layout import Layout

Forward: TypeAlias = Callable[..., Any]
Reply: TypeAlias = Callable[[int, str, Forward, tuple[Any, ...], dict[str, Any]], Any]

PROBE_ROWS, PROBE_LENGTH = 3, 8


@dataclass(frozen=True)
class Answer:
    """What a module returns: how many things in a tuple or list (0: a bare tensor), the first of them the tensor."""

    size: int
    flat: bool
    """Whether batch and rows are one axis, shape (B·rows, d)."""
    carries: bool
    """Whether the tuple holds other tensors that later modules may need."""
    width: int = 0
    """Last axis of the tensor."""
    listed: bool = False
    """Whether it is a list and not a tuple."""

    def with_first(self, tensor: Tensor) -> Any:
        """An answer of this kind with ``tensor`` (B, rows, d) as its tensor."""
        first = tensor.flatten(0, 1) if self.flat else tensor
        if self.size == 0:
            return first
        parts = [first, *[None] * (self.size - 1)]
        return parts if self.listed else tuple(parts)


def answers_of(encoder: nn.Module, run: Callable[[], object]) -> dict[str, Answer]:
    """The kind of answer of every module that ``run`` calls, by path, for a batch of 3 texts of 8 tokens."""
    found: dict[str, Answer] = {}

    def record(path: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            many = type(output) in (tuple, list)
            parts = output if many else (output,)
            if parts and isinstance(parts[0], Tensor) and parts[0].ndim > 0:
                found[path] = Answer(
                    size=len(parts) if many else 0,
                    flat=parts[0].ndim == 2 and len(parts[0]) == PROBE_ROWS * PROBE_LENGTH,
                    carries=any(isinstance(part, Tensor) for part in parts[1:]),
                    width=parts[0].shape[-1],
                    listed=type(output) is list,
                )

        return hook

    handles = [module.register_forward_hook(record(path)) for path, module in encoder.named_modules()]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return found


class ReachedError(Exception):
    """Ends a pass at the tap; carries the tensor (B, rows, d) out and never leaves the functions of a tap."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__("the tap is reached")
        self.tensor = tensor


@contextmanager
def answering(module: nn.Module, forward: Forward) -> Iterator[None]:
    """``module`` answers with ``forward`` for a while; its hooks still run."""
    before = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if before is None:
            module.__dict__.pop("forward", None)
        else:
            module.forward = before


@contextmanager
def counting_calls(layout: Layout, reply: Reply) -> Iterator[None]:
    """Every call of a block goes to ``reply(call number, path, the block's own forward, args, kwargs)``."""
    made = iter(range(10**9))

    def replying(path: str, own: Forward) -> Forward:
        return lambda *args, **kwargs: reply(next(made), path, own, args, kwargs)

    with ExitStack() as stack:
        for path, block in layout.blocks.items():
            stack.enter_context(answering(block, replying(path, block.forward)))
        yield


def stop_inside(block: nn.Module, sub: Sublayer, own: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run ``block`` up to the position and raise :class:`ReachedError` with its tensor."""
    if sub.joined:
        return _stop_at_maps([block.get_submodule(path) for path in sub.joined], own, args, kwargs)
    if sub.source == BLOCK:
        raise ReachedError(_first(_input(args, kwargs) if sub.before else own(*args, **kwargs)))
    shape = _input(args, kwargs).shape

    def reached(tensor: Any) -> None:
        found = _first(tensor)
        flat = isinstance(found, Tensor) and found.ndim == 2
        raise ReachedError(found.view(*shape[:-1], found.shape[-1]) if flat else found)

    module = block.get_submodule(sub.source)
    if sub.before:
        hook = module.register_forward_pre_hook(lambda _m, a, k: reached(_input(a, k)), with_kwargs=True)
    else:
        hook = module.register_forward_hook(lambda _m, _a, output: reached(output))
    try:
        own(*args, **kwargs)
    finally:
        hook.remove()
    raise ModelError(f"{sub.source} did not run in {type(block).__name__}")


def _stop_at_maps(maps: list[nn.Module], own: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def reached(_module: nn.Module, given: tuple[Any, ...]) -> None:
        raise ReachedError(side_by_side(maps, given[0]))

    handles = [each.register_forward_pre_hook(reached) for each in maps]
    try:
        return own(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()


def go_on_inside(
    block: nn.Module, path: str, sub: Sublayer, tensor: Tensor, answers: Mapping[str, Answer],
    own: Forward, args: tuple[Any, ...], kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """The answer of ``block`` when the position holds ``tensor`` and its own input is not looked at."""
    if sub.given == (BLOCK,):
        return handed_on(path, tensor, answers, own, args, kwargs)
    width = answers[path].width if path in answers else tensor.shape[-1]
    zeros = tensor.new_zeros(*tensor.shape[:-1], width)
    said = {**dict.fromkeys(sub.idle, tensor), **dict.fromkeys(sub.silent, zeros), **dict.fromkeys(sub.given, tensor)}
    args, kwargs = _with_input(args, kwargs, said.pop(INPUT, tensor))
    with ExitStack() as stack:
        if sub.joined:
            _answer_in_parts(stack, [block.get_submodule(part) for part in sub.joined], tensor)
        for part, value in said.items():
            answer = answers.get(f"{path}.{part}")
            if answer is None and part in sub.idle:
                continue  # it runs, and nobody listens
            if answer is None:
                raise ModelError(f"{path}.{part} gives no tensor, so that nothing can be put in its place")
            stack.enter_context(answering(block.get_submodule(part), constant(answer.with_first(value))))
        return own(*args, **kwargs)


def _answer_in_parts(stack: ExitStack, maps: list[nn.Module], tensor: Tensor) -> None:
    """Each map answers with its own columns of ``tensor``, once."""
    parts = torch.split(tensor, [stacked_weight([each]).shape[0] for each in maps], dim=-1)

    def once(part: Tensor) -> Forward:
        left = [part]

        def forward(*_args: Any, **_kwargs: Any) -> Tensor:
            if not left:
                raise ModelError("one of the joined maps runs more than once in a layer; such maps cannot be tapped")
            return left.pop()

        return forward

    for each, part in zip(maps, parts, strict=True):
        stack.enter_context(answering(each, once(part)))


def handed_on(
    path: str,
    tensor: Tensor,
    answers: Mapping[str, Answer],
    own: Forward,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The answer of a block of which only ``tensor`` is wanted; it runs only where later ones need the rest of it."""
    answer = answers.get(path)
    if answer is None:
        raise ModelError(f"{path} gives no tensor, so that nothing can be put in its place")
    if not answer.carries:
        return answer.with_first(tensor)
    others = own(*args, **kwargs)[1:]
    return [tensor, *others] if answer.listed else (tensor, *others)


def unheard(tensor: Tensor, answer: Answer) -> Tensor:
    """What a module before the tap may say, where nobody listens: ``tensor`` if it is as wide, else zeros."""
    return tensor if tensor.shape[-1] == answer.width else tensor.new_zeros(*tensor.shape[:-1], answer.width)


def constant(value: Any) -> Forward:
    """Answers with ``value`` whatever is asked."""
    return lambda *_args, **_kwargs: value


def _first(output: Any) -> Any:
    return output[0] if type(output) in (tuple, list) and output else output


def _input(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return args[0] if args else next(iter(kwargs.values()))


def _with_input(
    args: tuple[Any, ...], kwargs: dict[str, Any], tensor: Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args:
        return (tensor, *args[1:]), kwargs
    return args, kwargs | {next(iter(kwargs)): tensor}
