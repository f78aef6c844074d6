"""Checks a clipping engine on a user's own model, batch and loss: brute force, independence, and sensitivity.

For a few examples: the norm against a plain backward pass of that example's loss; the loss against that of the same
example among others; and what the clipped sum loses when the example is taken away, which must be its clipped gradient
and no longer than the bound.

>>> from dpeval_defenses.dp_adam.clipping import ClippedGradients
>>> model = torch.nn.Linear(2, 1)
>>> clip = ClippedGradients(model, max_norm=1.0)
>>> clip.verify(torch.randn(4, 2), lambda out: out.squeeze(1) ** 2).examples
3
>>> clip.verify(torch.randn(4, 2), lambda out: (out - out.mean()).squeeze(1) ** 2)
Traceback (most recent call last):
    ...
dpeval_defenses.dp_adam.clipping.verify.VerificationError: the loss of an example depends on the other examples ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from .checks import ClippingError, MixedExamplesError
from .closures import tensors_of

Loss = Callable[..., Tensor]


class VerificationError(ClippingError):
    """The gradients that were clipped are not what differential privacy needs them to be; the message says how far."""


@dataclass(frozen=True)
class Verification:
    """What a check found; all errors are relative and zero up to rounding."""

    examples: int
    """How many examples were compared with brute force."""
    norm_error: float
    """The largest relative error of a norm."""
    sum_error: float
    """The largest error of one example's share of the clipped sum, relative to the share."""
    coupling: float
    """The largest change of one example's loss when the others change, relative to the loss."""
    sensitivity: float
    """The largest share of one example in the clipped sum, as a multiple of the bound."""


class Engine(Protocol):
    """What a check needs of a clipping engine."""

    model: nn.Module

    def clipped(self, losses: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Norms (B,) and the clipped sum by parameter name; ``.grad`` is left alone."""

    def shares(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """One example's gradients, clipped."""

    def paused(self) -> Any:
        """A context in which the model is stock."""


def verify(engine: Engine, batch: Any, loss: Loss, bound: float, examples: int, tolerance: float) -> Verification:
    """Compares at most ``examples`` examples of ``batch``; VerificationError where an error exceeds ``tolerance``."""
    try:
        with evaluation(engine.model):
            probe = _Check(engine, batch, loss)
            chosen = sorted({round(k * (probe.rows - 1) / max(1, examples - 1)) for k in range(examples)})
            found = [probe.example(i) for i in chosen[: probe.rows]]
    except MixedExamplesError as error:
        raise VerificationError(
            f"the loss of an example depends on the other examples of the batch: {error}"
        ) from error
    norm, share, coupling, size = (max(column) for column in zip(*found, strict=True))
    result = Verification(len(found), norm, share, coupling, size / bound)
    _raise_for(result, tolerance)
    return result


def _raise_for(result: Verification, tolerance: float) -> None:
    if result.coupling > tolerance:
        raise VerificationError(
            f"the loss of an example depends on the other examples of the batch (it changed by {result.coupling:.2g} "
            "of itself when they changed): no norm of its own gradient bounds its influence. Average over each "
            "example's own tokens, and use no statistics over the batch"
        )
    if result.norm_error > tolerance or result.sum_error > tolerance:
        raise VerificationError(
            f"clipped gradients differ from brute force: norms by {result.norm_error:.2g}, shares of the sum by "
            f"{result.sum_error:.2g} (tolerance {tolerance:.2g})"
        )
    if result.sensitivity > 1 + tolerance:
        raise VerificationError(f"one example changes the clipped sum by {result.sensitivity:.4g} times the bound")


class _Check:
    """One batch, run whole and in parts."""

    def __init__(self, engine: Engine, batch: Any, loss: Loss) -> None:
        self.engine, self.batch, self.loss = engine, batch, loss
        self.losses = self._run(batch)
        if self.losses.ndim != 1:
            raise VerificationError(f"expected per-example losses of shape (B,), got {tuple(self.losses.shape)}")
        self.rows = len(self.losses)
        self.norms, self.sum = engine.clipped(self.losses)
        self.values = self.losses.detach()

    def example(self, i: int) -> tuple[float, float, float, float]:
        """Norm error, error of the share of the sum, coupling, and size of the share, for example ``i``."""
        with self.engine.paused():
            alone = self._alone(i)
            losses = self._run(self.batch) if alone is None else alone
            at = i if alone is None else 0
            brute = self._gradients(losses[at])
            coupling = self._changed(i) if alone is None else _relative(losses[at].detach(), self.values[i])
        norm = torch.sqrt(
            sum((g.double().square().sum() for g in brute.values()), torch.zeros((), dtype=torch.float64))
        )
        expected = self.engine.shares(brute)
        share = self._share(i, sliced=alone is not None)
        off = _length({name: share[name] - expected[name] for name in share})
        return _relative(self.norms[i], norm), off / max(_length(expected), 1e-12), coupling, _length(share)

    def _run(self, batch: Any) -> Tensor:
        output = call(self.engine.model, batch)
        return self.loss(output, batch) if _arguments(self.loss) > 1 else self.loss(output)

    def _alone(self, i: int) -> Tensor | None:
        """The losses of example ``i`` as a batch of one; None where the loss holds on to the whole batch's targets."""
        try:
            losses = self._run(rows_of(self.batch, self.rows, [i]))
        except (RuntimeError, ValueError, IndexError):
            return None
        return losses if losses.shape == (1,) else None

    def _changed(self, i: int) -> float:
        """How much loss ``i`` changes when all other rows, of the batch and of what the loss holds, are exchanged."""
        held = [t for t in (*tree_leaves(self.batch), *tensors_of(self.loss)) if _has_rows(t, self.rows)]
        with torch.no_grad(), exchanged(held, i):
            changed = self._run(self.batch)[i]
        return _relative(changed, self.values[i])

    def _share(self, i: int, *, sliced: bool) -> dict[str, Tensor]:
        """What the clipped sum loses without example ``i``."""
        if self.rows == 1:
            return self.sum
        if sliced:
            rest = self._run(rows_of(self.batch, self.rows, [j for j in range(self.rows) if j != i]))
        else:
            rest = self._run(self.batch) * torch.arange(self.rows, device=self.losses.device).ne(i)
        _, without = self.engine.clipped(rest)
        return {name: total - without[name] for name, total in self.sum.items()}

    def _gradients(self, loss: Tensor) -> dict[str, Tensor]:
        named = {name: p for name, p in self.engine.model.named_parameters() if p.requires_grad}
        grads = torch.autograd.grad(loss, list(named.values()), allow_unused=True, materialize_grads=True)
        return dict(zip(named, grads, strict=True))


def call(model: nn.Module, batch: Any) -> Any:
    """``model`` on a mapping of keyword arguments, a sequence of arguments, or one tensor."""
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, Sequence) else model(batch)


def rows_of(batch: Any, rows: int, at: list[int]) -> Any:
    """The rows ``at`` of every tensor in ``batch`` that has ``rows`` of them."""
    return tree_map(lambda t: t[at] if _has_rows(t, rows) else t, dict(batch) if isinstance(batch, Mapping) else batch)


@contextmanager
def exchanged(tensors: list[Tensor], keep: int) -> Iterator[None]:
    """Within it, every row but ``keep`` of ``tensors`` holds another row's values."""
    distinct = list({id(t): t for t in tensors}.values())
    originals = [t.clone() for t in distinct]
    order = [j for j in range(len(distinct[0])) if j != keep] if distinct else []
    try:
        for tensor, original in zip(distinct, originals, strict=True):
            tensor[order] = original[[*order[1:], keep]]
        yield
    finally:
        for tensor, original in zip(distinct, originals, strict=True):
            tensor.copy_(original)


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Within it, ``model`` is in evaluation mode, so that dropout does not make runs differ."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _arguments(function: Loss) -> int:
    """How many positional arguments ``function`` needs; 1 where that is not known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return 1
    return sum(1 for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def _has_rows(value: Any, rows: int) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0 and len(value) == rows


def _relative(a: Tensor, b: Tensor) -> float:
    a, b = a.detach().double(), b.detach().double()
    return float((a - b).abs() / b.abs().clamp(min=1e-6))


def _length(gradients: dict[str, Tensor]) -> float:
    return float(sum(float(g.double().square().sum()) for g in gradients.values()) ** 0.5)
