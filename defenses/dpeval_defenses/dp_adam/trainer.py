"""The private training loop: clip each example's gradient, sum, add noise once, divide by the expected batch, step.

It knows no model and no data: ``per_example_loss`` takes the positions of some records and returns one loss for each.

>>> from dpeval_defenses.dp_adam.noise import SeededNoise
>>> from dpeval_defenses.dp_adam.sampler import PoissonSampler
>>> model = torch.nn.Linear(3, 1)
>>> features, targets = torch.randn(50, 3), torch.randn(50, 1)
>>> def per_example_loss(positions):
...     at = torch.from_numpy(positions)
...     return (model(features[at]) - targets[at]).square().sum(dim=1)
>>> settings = TrainSettings(steps=4, max_norm=0.1, noise_multiplier=1.0, learning_rate=0.1)
>>> log = train_private(model, per_example_loss, PoissonSampler(50, 0.2, entropy=1), SeededNoise(2), settings)
>>> [entry.step for entry in log], log[0].sigma_eff
([0, 1, 2, 3], 5.0)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import torch

from dpeval.types import Ints
from dpeval_defenses.dp_adam.clipping import ClippedGradients
from dpeval_defenses.dp_adam.modes import training_mode
from dpeval_defenses.dp_adam.noise import Noise
from dpeval_defenses.dp_adam.parallel import World
from dpeval_defenses.dp_adam.sampler import Sampler, micro_batches
from dpeval_defenses.dp_adam.settings import TrainSettings
from dpeval_defenses.dp_adam.steplog import StepLog, Tally

PerExampleLoss = Callable[[Ints], torch.Tensor]

_SETTLED = 3
"""Non-empty steps after which every trained tensor has had a gradient; a LoRA factor has none in the first."""


class Clipper(Protocol):
    """What the loop needs of a clipping engine; ``ClippedGradients`` is one."""

    def backward(self, losses: torch.Tensor) -> torch.Tensor:
        """Add the sum of the clipped gradients to ``.grad``; return the norms before clipping, shape ``(B,)``."""
        ...

    def detach(self) -> object:
        """Leave the model as it was."""
        ...


class Carrier(Protocol):
    """Stands between the parameters whose gradients are noised and those that the optimizer moves; see ``rgp``."""

    def moved(self, trained: dict[str, torch.nn.Parameter]) -> dict[str, torch.nn.Parameter]:
        """What the optimizer moves, by name."""
        ...

    def prepare(self, step: int) -> None:
        """Called before the first forward pass of ``step``."""
        ...

    def project(self) -> None:
        """Sets the gradients of what moves from the noised gradients of what trains, and from nothing else."""
        ...


class PrivateTrainer:
    """One run of DP-SGD or DP-Adam (Abadi et al. 2016, Algorithm 1; Li et al. 2022), one logical step at a time.

    The steps taken are counted in :attr:`steps_taken`: that number, and no other, is what the accountant must be given.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        per_example_loss: PerExampleLoss,
        sampler: Sampler,
        noise: Noise,
        settings: TrainSettings,
        *,
        engine: Callable[[torch.nn.Module, float], Clipper] = ClippedGradients,
        world: World = World(),  # noqa: B008  frozen
        carrier: Carrier | None = None,
    ) -> None:
        self.model, self.sampler, self.noise, self.settings, self.world = model, sampler, noise, settings, world
        self.log: list[StepLog] = []
        self._loss = per_example_loss
        self.trained = trainable(model)
        self._carrier = carrier
        self.moved = self.trained if carrier is None else carrier.moved(self.trained)
        """What the optimizer moves; with a carrier not the parameters whose gradients are noised."""
        self.optimizer = settings.make_optimizer(self.moved)
        self._silent, self._non_empty = set(self.trained), 0
        world.agree(p.data for p in self.moved.values())
        self._clipper = engine(model, settings.max_norm)
        self.sensitivity = float(getattr(self._clipper, "sensitivity", settings.max_norm))
        """The most that one record changes the clipped sum, as the engine states it; the noise is scaled to it."""

    @property
    def steps_taken(self) -> int:
        """The steps done so far, those before a resume included."""
        return len(self.log)

    def step(self) -> StepLog:
        """Take one logical step; an empty draw takes one too, of noise alone."""
        step = self.steps_taken
        self.model.zero_grad(set_to_none=True)
        if self._carrier is not None:
            self._carrier.prepare(step)
            self.world.agree(p.data for p in self.trained.values())
        tally = self._accumulate(step)
        entry = self._privatise(step, tally)
        if self._carrier is not None:
            self._carrier.project()
        self.settings.update(self.optimizer, entry.learning_rate)
        self.model.zero_grad(set_to_none=True)
        self.log.append(entry)
        return entry

    def close(self) -> None:
        """Detach the clipping engine and leave the model in evaluation mode."""
        self._clipper.detach()
        self.model.eval()

    def _accumulate(self, step: int) -> Tally:
        """Σ clip(g_i) over this process's part of the draw, into ``.grad``."""
        drawn = self.world.share(self.sampler.draw(step))
        tally = Tally()
        with training_mode(self.model), _own_dropout(self.settings.dropout_entropy, step, self.world.rank):
            for part in micro_batches(drawn, self.settings.micro_batch):
                tally.add(self._clipper.backward(self._loss(part)), self.settings.max_norm)
        if len(drawn):
            self._check_reached()
        return Tally(*self.world.total(tally.as_array()))

    def _check_reached(self) -> None:
        missing = [name for name, p in self.trained.items() if p.grad is None]
        if missing:
            raise ValueError(
                f"no gradient reached {len(missing)} of {len(self.trained)} trained parameters: {_some(missing)}; "
                "they would be moved by noise alone. Freeze them (requires_grad = False) or use them in the loss"
            )

    def _privatise(self, step: int, tally: Tally) -> StepLog:
        """.grad becomes (Σ clip(g_i) + σC z) / (expected batch size)."""
        sums = [_sum_of(p) for p in self.trained.values()]
        self.world.add_up(sums)
        self._watch_silent(sums, tally)
        scale = self.settings.noise_multiplier * self.sensitivity
        signal = sum(map(_square, sums)) ** 0.5
        noise_square = 0.0
        for index, total in enumerate(sums):
            noise = self._draw_noise(step, index, total) * scale
            noise_square += _square(noise)
            total.add_(noise).div_(self.sampler.rate * self.sampler.num_records)
        return StepLog.of(
            step, tally, signal=signal, noise=noise_square**0.5, learning_rate=self.settings.rate_at(step),
            sigma_eff=self.settings.noise_multiplier / self.sampler.rate,
        )  # fmt: skip

    def _draw_noise(self, step: int, index: int, like: torch.Tensor) -> torch.Tensor:
        if self.settings.noise_multiplier == 0:
            return torch.zeros_like(like)
        noise = self.noise.standard(step, index, like.shape).to(like)
        if not self.noise.repeatable:
            self.world.agree([noise])
        return noise

    def _watch_silent(self, sums: list[torch.Tensor], tally: Tally) -> None:
        """Refuse, once it is plain, a parameter whose gradients are all exactly zero."""
        self._silent -= {name for name, total in zip(self.trained, sums, strict=True) if bool(total.any())}
        self._non_empty += tally.drawn > 0
        if self._silent and self._non_empty == _SETTLED:
            raise ValueError(
                f"the gradients of {len(self._silent)} trained parameters were exactly zero in {_SETTLED} steps: "
                f"{_some(sorted(self._silent))}; noise alone would move them. Freeze them or use them in the loss"
            )


def train_private(
    model: torch.nn.Module,
    per_example_loss: PerExampleLoss,
    sampler: Sampler,
    noise: Noise,
    settings: TrainSettings,
    *,
    engine: Callable[[torch.nn.Module, float], Clipper] = ClippedGradients,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
    world: World = World(),  # noqa: B008  frozen
    carrier: Carrier | None = None,
) -> list[StepLog]:
    """Train ``model`` in place for ``settings.steps`` steps and return one log entry for each.

    ``per_example_loss(positions)`` takes ascending positions, shape ``(B,)``, and returns losses of shape ``(B,)``,
    each depending on its own record only. What is trained is what requires a gradient. ``engine(model, max_norm)``
    makes the clipping engine.
    """
    trainer = PrivateTrainer(
        model, per_example_loss, sampler, noise, settings, engine=engine, world=world, carrier=carrier
    )
    finish(trainer, progress)
    return trainer.log


def finish(trainer: PrivateTrainer, progress: Callable[[Iterable[int]], Iterable[int]] = iter) -> None:
    """Take the steps that are left, and close ``trainer``; ``progress`` is given their numbers."""
    try:
        for _ in progress(range(trainer.steps_taken, trainer.settings.steps)):
            trainer.step()
    finally:
        trainer.close()


def trainable(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """The parameters that train, by name; ValueError for none, or for a type too coarse to carry the noise."""
    found = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not found:
        raise ValueError("no parameter requires a gradient, so there is nothing to train")
    coarse = [f"{name} ({p.dtype})" for name, p in found.items() if p.dtype not in {torch.float32, torch.float64}]
    if coarse:
        raise ValueError(f"expected trained parameters of float32 or float64, got {_some(coarse)}; use model.float()")
    return found


def _sum_of(parameter: torch.nn.Parameter) -> torch.Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _square(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64)) ** 2


@contextlib.contextmanager
def _own_dropout(entropy: int, step: int, rank: int) -> Iterator[None]:
    """Dropout masks from a stream of the step's own; torch's global generators are left as they were."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=devices):
        seed = int(np.random.SeedSequence(entropy, spawn_key=(step, rank)).generate_state(1, np.uint64)[0]) >> 1
        # Not torch.manual_seed: without a device it records a stack trace at each call, which takes longer than a step.
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed_all(seed)
        yield


def _some(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
