"""One optimizer step of each method: plain training, this library's three modes, and Opacus in its two ways.

A private step is forward, clipping, noise and Adam. A logical batch is taken in micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from dpeval_defenses.dp_adam.clipping import ClippedGradients

from .shapes import Task

Step = Callable[[int, int], None]
"""Takes one step on so many rows, at most so many at a time."""

OURS = ("book-keeping", "two-pass", "per-layer")
OPACUS = ("opacus-hooks", "opacus-ghost")
METHODS = ("non-private", *OURS, *OPACUS)
BOUND, SIGMA = 0.1, 1.0
CHUNK = 1 << 15
"""Values that one thread makes at a time: not so many that torch would split the work once more."""


def step_of(method: str, task: Task) -> Step:
    """The step of ``method``; raises what Opacus raises where it refuses a model."""
    if method == "non-private":
        return _plain(task)
    return _opacus(method, task) if method in OPACUS else _clipped(method, task)


def _parts(rows: int, at_once: int) -> list[int]:
    return [min(at_once, rows - start) for start in range(0, rows, at_once)]


def _plain(task: Task) -> Step:
    optimizer = torch.optim.Adam(task.model.parameters(), lr=1e-4)

    def step(rows: int, at_once: int) -> None:
        optimizer.zero_grad()
        for part in _parts(rows, at_once):
            (task.losses(task.model, *task.batch(part)).sum() / rows).backward()
        optimizer.step()

    return step


def _clipped(mode: str, task: Task) -> Step:
    optimizer = torch.optim.Adam(task.model.parameters(), lr=1e-4)
    clip = ClippedGradients(task.model, BOUND, mode)  # type: ignore[arg-type]
    noise = ChunkedNoise()

    def step(rows: int, at_once: int) -> None:
        optimizer.zero_grad()
        for part in _parts(rows, at_once):
            clip.backward(task.losses(task.model, *task.batch(part)))
        noise.add([p.grad for p in task.model.parameters() if p.grad is not None], SIGMA * BOUND, rows)
        optimizer.step()

    return step


class ChunkedNoise:
    """Gaussian noise, made in small pieces by as many threads as torch has."""

    def __init__(self) -> None:
        self.threads = torch.get_num_threads()
        self.pool = ThreadPoolExecutor(self.threads)
        self.generators = [torch.Generator().manual_seed(k) for k in range(self.threads)]

    def add(self, grads: list[Tensor], std: float, divisor: int) -> None:
        """(grad + noise) / divisor, in place."""
        pieces = [piece for grad in grads for piece in grad.view(-1).split(CHUNK)]

        def finish(k: int) -> None:
            buffer = torch.empty(CHUNK)
            for piece in pieces[k :: self.threads]:
                piece.add_(buffer[: len(piece)].normal_(std=std, generator=self.generators[k])).div_(divisor)

        list(self.pool.map(finish, range(self.threads)))


def _opacus(method: str, task: Task) -> Step:
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    ghost = method == "opacus-ghost"
    inner = torch.optim.Adam(task.model.parameters(), lr=1e-4)
    wrap, optimize = (
        (GradSampleModuleFastGradientClipping, DPOptimizerFastGradientClipping)
        if ghost
        else (GradSampleModule, DPOptimizer)
    )
    options = {"max_grad_norm": BOUND} if ghost else {}
    model = wrap(task.model, loss_reduction="mean", strict=False, **options)
    optimizer = optimize(inner, noise_multiplier=SIGMA, max_grad_norm=BOUND, expected_batch_size=1)

    class Losses(nn.Module):
        reduction = "mean"

        def forward(self, inputs: dict[str, Tensor], targets: Tensor) -> Tensor:
            losses = task.losses(model, inputs, targets)
            return losses if self.reduction == "none" else losses.mean()

    losses = DPLossFastGradientClipping(model, optimizer, Losses()) if ghost else Losses()

    def step(rows: int, at_once: int) -> None:
        optimizer.expected_batch_size = rows
        parts = _parts(rows, at_once)
        for k, part in enumerate(parts):
            optimizer.zero_grad()
            optimizer.signal_skip_step(do_skip=k + 1 < len(parts))
            losses(*task.batch(part)).backward()
            optimizer.step()
        optimizer.zero_grad()

    return step
