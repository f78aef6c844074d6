"""Shows that nothing goes round a release point, or names what does.

All on texts of random tokens. *Equal-input*, in one pass over the whole model: the tapped tensor is forced to the same
value for texts with other tokens, fewer tokens and other token types; the logits must agree to the bit. *Equal-input*,
cut in two: the first half runs on texts that also differ in mask and in the side of their padding, the second half on
the same tensor; the logits must agree to the bit. *Zero-noise*: an edit that only normalises must give the same logits
in one pass and cut in two, and an edit that does nothing those of the model as it is (where no residual is dropped), so
that the tapped tensor is the one that the rest of the model really uses. *Apart*: no text of a batch reaches another's
tensor.

>>> issubclass(LeakError, Exception)
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dpeval.errors import LeakError, ModelError
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import Batch
from dpeval.models.layout import Layout, TapPoint
from dpeval.models.probes import differing_texts, same_shape_texts
from dpeval.models.taps import capture, edited_pass, forward_from

TOLERANCE = 1e-5


def check_release_point(classifier: TextClassifier, tap: str, checkpoint: Checkpoint) -> None:
    """Raise LeakError, naming the module that the clear text still reaches, unless ``tap`` passes all tests.

    Raises ModelError where the model cannot be cut there at all.
    """
    point = Layout.of(classifier.encoder).point(tap)
    with _evaluating(classifier):
        try:
            _check(classifier, point, checkpoint)
        except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
            raise ModelError(f"position {tap!r}: the model cannot be cut there: {error}") from error


def _check(classifier: TextClassifier, point: TapPoint, checkpoint: Checkpoint) -> None:
    texts = same_shape_texts(checkpoint, classifier.device)
    constant = _normalised(capture(classifier, texts[0], point.name))
    for other in texts[1:]:
        _equal_input(classifier, point, constant, texts[0], other)
    _equal_input_halves(classifier, point, constant, differing_texts(checkpoint, classifier.device))
    _zero_noise(classifier, point, texts[0])
    _apart(classifier, point, texts)


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


def _equal_input_halves(model: TextClassifier, point: TapPoint, constant: Tensor, texts: list[Batch]) -> None:
    """What the first half leaves behind in the model must not reach the second."""
    expected: Tensor | None = None
    for text in texts:
        capture(model, text, point.name)
        logits = forward_from(model, point.name, constant)
        expected = logits if expected is None else expected
        if not torch.equal(logits, expected):
            raise LeakError(
                f"position {point.name!r} can be gone round: given the same tensor after two different texts, the "
                "second half of the model answers differently; a module keeps something of the text"
            )


def _zero_noise(model: TextClassifier, point: TapPoint, text: Batch) -> None:
    whole = edited_pass(model, text, point, _normalised)
    halves = forward_from(model, point.name, _normalised(capture(model, text, point.name)))
    _agree(whole, halves, point, "the model cut in two gives other logits than in one pass")
    if not point.drops_residual:
        plain, same = model(**text), forward_from(model, point.name, capture(model, text, point.name))
        _agree(plain, same, point, "with the tensor put back as it was the logits are not those of the model")


def _agree(one: Tensor, other: Tensor, point: TapPoint, what: str) -> None:
    gap = float((one - other).abs().max())
    if not gap <= TOLERANCE * max(1.0, float(one.abs().max())):
        raise LeakError(
            f"position {point.name!r}: {what} (by up to {gap:.2g}); what follows the position uses more than the "
            "tensor released there"
        )


def _apart(model: TextClassifier, point: TapPoint, texts: list[Batch]) -> None:
    """The tensor and the answer of a text are those it has beside any other text."""
    beside = [{name: torch.cat([texts[0][name], other[name]]) for name in other} for other in texts[1:3]]
    tensors = [capture(model, batch, point.name) for batch in beside]
    answers = [forward_from(model, point.name, tensor) for tensor in tensors]
    for one, other in (tensors, answers):
        gap = float((one[0] - other[0]).abs().max())
        if not gap <= TOLERANCE * max(1.0, float(one[0].abs().max())):
            raise LeakError(
                f"position {point.name!r}: a text's tensor or answer depends on the other texts of its batch (by up to "
                f"{gap:.2g}); noise for one text would not cover it"
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
