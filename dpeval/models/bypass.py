"""Shows that nothing goes round a release point, or names what does.

Two tests, both on texts of random tokens. *Equal-input*: the tapped tensor is forced to the same value while texts of
equal and of different length run through the whole model; the logits must agree to the bit. *Zero-noise*: an edit that
only normalises must give the same logits in one pass over the whole model and when the model is cut in two halves, so
that the tapped tensor is the one that the rest of the model really uses.

>>> issubclass(LeakError, Exception)
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dpeval.errors import LeakError
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import Batch, to_device
from dpeval.models.layout import Layout, TapPoint
from dpeval.models.taps import capture, edited_pass, forward_from

LENGTH = 24
TOLERANCE = 1e-5


def check_release_point(classifier: TextClassifier, tap: str, checkpoint: Checkpoint) -> None:
    """Raise LeakError, naming the module that the clear text still reaches, unless ``tap`` passes both tests."""
    point = Layout.of(classifier.encoder).point(tap)
    texts = _texts(classifier, checkpoint)
    with _evaluating(classifier):
        constant = _normalised(capture(classifier, texts[0], tap))
        for other in texts[1:]:
            _equal_input(classifier, point, constant, texts[0], other)
        _zero_noise(classifier, point, texts[0])


def _equal_input(model: TextClassifier, point: TapPoint, constant: Tensor, one: Batch, other: Batch) -> None:
    first, second = (_traced(model, point, constant, batch) for batch in (one, other))
    if torch.equal(first.logits, second.logits):
        return
    culprit = next(
        (name for name in first.outputs if not _same(first.outputs[name], second.outputs.get(name))), "the head"
    )
    gap = float((first.logits - second.logits).abs().max())
    raise LeakError(
        f"position {point.name!r} can be gone round: with the same tensor forced there for two different texts, "
        f"{culprit} still differs (logits by up to {gap:.2g}). A residual connection or another side input reaches it; "
        "release at a position after it, for instance encoder.I.add_norm_2 or output"
    )


def _zero_noise(model: TextClassifier, point: TapPoint, text: Batch) -> None:
    whole = edited_pass(model, text, point, _normalised)
    halves = forward_from(model, point.name, _normalised(capture(model, text, point.name)))
    gap = float((whole - halves).abs().max())
    if not gap <= TOLERANCE * max(1.0, float(whole.abs().max())):
        raise LeakError(
            f"position {point.name!r}: the model cut in two gives other logits than in one pass (by up to {gap:.2g}); "
            "what follows the position uses more than the tensor released there"
        )


class _Trace:
    def __init__(self) -> None:
        self.logits = torch.empty(0)
        self.outputs: dict[str, Tensor] = {}
        self.reached = False


def _traced(model: TextClassifier, point: TapPoint, constant: Tensor, batch: Batch) -> _Trace:
    """Logits, and the output of every module that finishes after the tap, in order."""
    trace = _Trace()

    def force(_: Tensor) -> Tensor:
        trace.reached = True
        return constant

    def record(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            first = output[0] if isinstance(output, tuple) and output else output
            if trace.reached and isinstance(first, Tensor):
                trace.outputs.setdefault(name, first.detach())

        return hook

    handles = [module.register_forward_hook(record(name)) for name, module in model.named_modules() if name]
    try:
        trace.logits = edited_pass(model, batch, point, force)
    finally:
        for handle in handles:
            handle.remove()
    return trace


def _same(one: Tensor, other: Tensor | None) -> bool:
    return other is not None and torch.equal(one, other)


def _normalised(x: Tensor) -> Tensor:
    scaled: Tensor = x / x.flatten(1).norm(dim=1).clamp(min=1e-12).view(-1, 1, 1)
    return scaled


def _texts(model: TextClassifier, checkpoint: Checkpoint) -> list[Batch]:
    """Three texts of one batch shape: two that fill it, one of half the length; the rest of the model sees no mask."""
    draw = torch.Generator().manual_seed(0)
    width = min(LENGTH, checkpoint.max_length)
    batches = []
    for length in (width, width, max(2, width // 2)):
        ids = torch.full((1, width), checkpoint.pad_id)
        ids[0, :length] = torch.randint(0, checkpoint.vocab_size, (length,), generator=draw)
        types = {"token_type_ids": torch.randint(0, 2, (1, width), generator=draw)} if checkpoint.takes_types else {}
        batches.append(to_device({"input_ids": ids, "attention_mask": torch.ones_like(ids), **types}, model.device))
    return batches


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
