"""Exact per-example gradient clipping for any PyTorch model, in one backward pass.

>>> import torch
>>> model = torch.nn.Linear(2, 1, bias=False)
>>> clip = ClippedGradients(model, max_norm=1.0)
>>> clip.backward(model(torch.tensor([[3.0, 4.0], [0.0, 0.5]])).squeeze(1)).tolist()
[5.0, 0.5]
>>> [[round(x, 4) for x in row] for row in model.weight.grad.tolist()]
[[0.6, 1.3]]
>>> clip.detach()
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from .apart import refuse_mixed_losses
from .checks import checked_losses, refuse_unfit
from .modes import BookKeeping, Mode, PerLayer, TwoPass
from .records import widened
from .tape import Tape
from .verify import Loss, Verification, verify

ModeName = Literal["book-keeping", "two-pass", "per-layer"]


class ClippedGradients:
    """Clips the gradient of each example to ``max_norm`` and adds the clipped gradients to ``.grad``.

    The model is used as ever; ``backward`` takes the place of ``loss.backward()``::

        clip = ClippedGradients(model, max_norm=0.1)
        losses = per_example_loss(model(**batch))        # shape (B,)
        norms = clip.backward(losses)                    # .grad += Σ_i min(1, C/‖g_i‖) g_i

    Modes: ``book-keeping`` keeps the factors of all weight gradients until the norms are known, one backward pass (Bu
    et al. 2022); ``two-pass`` runs the backward pass twice and keeps nothing (Li et al. 2022); ``per-layer`` clips the
    parameters of each of K modules to max_norm/√K, in one pass and keeping nothing. In every mode one example changes
    the sum by at most :attr:`sensitivity`.

    The first dimension of the model's inputs is the batch, and loss i belongs to row i. A model that cannot be clipped
    exactly is refused with :class:`ClippingError`, here or in its first forward pass. While a model is clipped, its
    forward passes with gradients on are followed by ``backward`` of this object or by nothing; evaluation is as ever.
    """

    def __init__(self, model: nn.Module, max_norm: float, mode: ModeName = "book-keeping") -> None:
        """Raises ValueError for a bad ``max_norm`` or ``mode`` and ClippingError for a model that cannot be exact."""
        if not (math.isfinite(max_norm) and max_norm > 0):
            raise ValueError(f"ClippedGradients: expected a finite max_norm > 0, got {max_norm}")
        if mode not in get_args(ModeName):
            raise ValueError(f"ClippedGradients: expected mode in {get_args(ModeName)}, got {mode!r}")
        refuse_unfit(model)
        self.model = model
        self.max_norm = max_norm
        self.mode: ModeName = mode
        self.nonfinite = 0
        """Examples whose gradient was not finite, since the start; their share of every sum is zero."""
        self.untouched: tuple[str, ...] = ()
        """Trained parameters that the last ``backward`` found no use of: their ``.grad`` is as it was."""
        self._tape = Tape(model)
        self._tape.attach()

    @property
    def sensitivity(self) -> float:
        """The most that one example can change the clipped sum, in the Euclidean norm: √(Σ bounds²) = max_norm."""
        return math.sqrt(sum(bound**2 for bound in self.bounds().values()))

    def bounds(self) -> dict[str, float]:
        """The bound of each group of parameters that is clipped on its own, by module path; flat: one group, ''."""
        if self.mode != "per-layer":
            return {"": self.max_norm}
        names = list(dict.fromkeys(self._modules().values()))
        return {name: self.max_norm / math.sqrt(len(names)) for name in names}

    def backward(self, losses: Tensor) -> Tensor:
        """Adds Σ_i min(1, C/‖g_i‖) g_i to ``.grad``; returns the norms ‖g_i‖ before clipping, shape (B,).

        ``losses`` has shape (B,): one loss for each row of the model's input, none depending on other rows. Norms are
        float32 (float64 for float64 losses). An example whose gradient is not finite contributes nothing and is counted
        in :attr:`nonfinite` (in ``per-layer``: nothing to the groups where it is not finite); one whose gradient is
        zero has factor 1. ClippingError for a scalar, for a batch of another size, and for gradients that went round
        the recording. After a forward pass of a new kind there is one backward pass more, over half of the losses,
        which refuses losses that depend on other examples.
        """
        losses = checked_losses(losses)
        if self._tape.layout.fresh and len(losses) > 1:
            refuse_mixed_losses(self._tape, losses)
            self._tape.layout.fresh = False
        squares = self._running().run(losses)
        trained = ((name, p) for name, p in self.model.named_parameters() if p.requires_grad)
        self.untouched = tuple(name for name, p in trained if p not in self._tape.touched)
        self.nonfinite += int((~squares.isfinite()).sum())
        return squares.sqrt().to(widened(losses).dtype)

    def verify(
        self, batch: Any, per_example_loss: Loss, *, examples: int = 3, tolerance: float | None = None
    ) -> Verification:
        """Compares the engine with brute force on a few examples of ``batch``; changes nothing.

        ``batch`` is what the model is called with (a mapping, a sequence or a tensor), ``per_example_loss`` takes the
        model's output (and the batch, if it has a second parameter) and returns losses of shape (B,). Runs in
        evaluation mode. Raises :class:`VerificationError` where losses depend on other examples, norms or shares differ
        from brute force by more than ``tolerance`` (relative; by default 1e-6 in float64, 1e-3 in float32), or one
        example changes the clipped sum by more than the bound.
        """
        if tolerance is None:
            doubles = all(p.dtype == torch.float64 for p in self.model.parameters())
            tolerance = 1e-6 if doubles else 1e-3
        return verify(self, batch, per_example_loss, self.sensitivity, examples, tolerance)

    def detach(self) -> None:
        """Leaves the model as it was before; the object can no longer be used."""
        self._tape.detach()

    # --- what verification needs -----------------------------------------------------------------------------------

    def clipped(self, losses: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Norms (B,) and the clipped sum by parameter name; ``.grad`` and :attr:`nonfinite` are left alone."""
        trained = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        kept, counted, untouched = {name: p.grad for name, p in trained.items()}, self.nonfinite, self.untouched
        for parameter in trained.values():
            parameter.grad = None
        try:
            norms = self.backward(losses)
            return norms, {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in trained.items()}
        finally:
            self.nonfinite, self.untouched = counted, untouched
            for name, parameter in trained.items():
                parameter.grad = kept[name]

    def shares(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """One example's gradients by parameter name, clipped as the mode does."""
        bounds, modules = self.bounds(), self._modules()
        named = dict(self.model.named_parameters())
        group = {name: modules[named[name]] if self.mode == "per-layer" else "" for name in gradients}
        squares = dict.fromkeys(bounds, 0.0)
        for name, gradient in gradients.items():
            squares[group[name]] += float(gradient.double().square().sum())
        factors = {g: min(1.0, bounds[g] / math.sqrt(s)) if s else 1.0 for g, s in squares.items()}
        return {name: gradient * factors[group[name]] for name, gradient in gradients.items()}

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within it, the model is stock."""
        self._tape.detach()
        try:
            yield
        finally:
            self._tape.attach()

    # --- parts -----------------------------------------------------------------------------------------------------

    def _running(self) -> Mode:
        if self.mode == "book-keeping":
            return BookKeeping(self._tape, self.max_norm)
        if self.mode == "two-pass":
            return TwoPass(self._tape, self.max_norm)
        return PerLayer(self._tape, self.bounds(), self._modules().__getitem__)

    def _modules(self) -> dict[nn.Parameter, str]:
        """The path of the module that owns each trained parameter (the first, for a shared one)."""
        return {p: name.rpartition(".")[0] for name, p in self.model.named_parameters() if p.requires_grad}
