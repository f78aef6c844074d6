"""Tokens by gradient descent: each row a weighted mean of candidate tokens, the weights pushed towards one of them.

A row's weights are ``softmax(z / T)`` over its candidates; the weighted mean of their vectors goes through ``forward``
to the rows that would be released, and z moves to bring these to the rows that were seen (Song and Raghunathan 2020,
section 3; Du et al. 2023, section 6.3). T falls while z moves, so that the weights end near one token.

The objective is the negative log-posterior under Gaussian noise, divided by what silence would cost: the squared
distance to what was seen over the squared length of what was seen, plus ``-2 noise²`` times the log-prior over the
same. Without noise it is zero at the truth.

>>> vectors = torch.eye(3).expand(2, 3, 3)
>>> problem = Problem(
...     seen=torch.eye(3)[[2, 1]][None], weight=torch.ones(1, 2), vectors=vectors, log_prior=torch.zeros(2, 3),
...     text=torch.tensor([0, 0]), forward=lambda mixed: mixed[None], noise=0.0)
>>> found = descend(problem, torch.zeros(2, 3), Schedule(steps=60))
>>> found.choice.tolist(), round(float(found.value[0]), 6)
([2, 1], 0.0)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_LOOK_EVERY = 20
_LEAST_POWER = 1e-20
_ANNEALED = 0.7
"""Share of the steps in which the temperature falls; the rest is spent at the last one."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A batch of B texts with N rows to be read among them, and k candidates for each of these."""

    seen: Tensor
    """What was released, (B, L, d); rows that are not compared hold zeros."""
    weight: Tensor
    """Of each row in the squared distance, (B, L); 0 where it is not compared."""
    vectors: Tensor
    """What a candidate stands for, (N, k, e); or (k, e) where all rows share their candidates."""
    log_prior: Tensor
    """Of each candidate, (N, k) or (k,)."""
    text: Tensor
    """The number of the text that each of the N rows belongs to."""
    forward: Callable[[Tensor], Tensor]
    """From the mixed vectors (N, e) to the rows (B, L, d) that would be released."""
    noise: float
    """Standard deviation of the noise on each released entry."""

    @property
    def power(self) -> Tensor:
        """What silence costs each text, (B,)."""
        return (self.weight * self.seen.square().sum(dim=2)).sum(dim=1).clamp(min=_LEAST_POWER)

    def mixed(self, shares: Tensor) -> Tensor:
        """The mean candidate vectors under ``shares`` (N, k)."""
        if self.vectors.ndim == 2:
            return shares @ self.vectors
        return torch.einsum("nk,nke->ne", shares, self.vectors)

    def chosen(self, choice: Tensor) -> Tensor:
        """The vectors of the candidates numbered ``choice`` (N,)."""
        if self.vectors.ndim == 2:
            return self.vectors[choice]
        return self.vectors[torch.arange(len(choice), device=choice.device), choice]

    def objective(self, mixed: Tensor, expected_log_prior: Tensor) -> Tensor:
        """The relative negative log-posterior of each text, (B,), given mixed vectors and each row's log-prior (N,)."""
        left = self.seen - self.forward(mixed)
        distance = (self.weight * left.square().sum(dim=2)).sum(dim=1)
        if self.noise > 0:
            prior = torch.zeros_like(distance).index_add(0, self.text, expected_log_prior)
            distance = distance - 2 * self.noise**2 * prior
        return distance / self.power

    def value(self, choice: Tensor) -> Tensor:
        """The objective of each text at whole tokens, (B,)."""
        rows = torch.arange(len(choice), device=choice.device)
        prior = self.log_prior[choice] if self.log_prior.ndim == 1 else self.log_prior[rows, choice]
        with torch.no_grad():
            return self.objective(self.chosen(choice), prior)


@dataclass(frozen=True)
class Schedule:
    """How z moves."""

    steps: int = 200
    """At most this many."""
    learning_rate: float = 0.1
    """Of Adam (Kingma and Ba 2015)."""
    hot: float = 1.0
    cold: float = 0.05
    """The temperature falls from ``hot`` to ``cold``, by the same factor each step."""
    tolerance: float = 1e-4
    """Converged, when at the last temperature no text's objective changes by more than this share in twenty steps."""

    def temperature(self, step: int) -> float:
        """The temperature of this step, counted from 0."""
        part = min(1.0, step / max(1.0, _ANNEALED * self.steps))
        return float(self.hot * (self.cold / self.hot) ** part)

    def is_cold(self, step: int) -> bool:
        """Whether the temperature falls no more."""
        return step >= _ANNEALED * self.steps


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended."""

    choice: Tensor
    """The candidate of largest weight of each row, (N,)."""
    value: Tensor
    """The objective at those whole tokens, (B,)."""
    steps: int
    signal: Tensor
    """Of each text, (B,): the length of the first gradient. Zero says that the release tells nothing."""


def descend(problem: Problem, start: Tensor, schedule: Schedule) -> Descent:
    """Move z from ``start`` (N, k) down the objective until it has converged or the steps are used up."""
    z = start.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([z], lr=schedule.learning_rate)
    before, signal, step = None, torch.zeros(len(problem.seen), device=z.device), 0
    while step < schedule.steps:
        values = _values(problem, z, schedule.temperature(step))
        (gradient,) = torch.autograd.grad(values.sum(), z)
        if step == 0:
            signal = signal.index_add(0, problem.text, gradient.square().sum(dim=1)).sqrt()
        z.grad = gradient
        optimiser.step()
        step += 1
        if schedule.is_cold(step) and step % _LOOK_EVERY == 0:
            now = values.detach()
            if before is not None and _settled(before, now, schedule.tolerance):
                break
            before = now
    choice = z.detach().argmax(dim=1)
    return Descent(choice, problem.value(choice), step, signal)


def _values(problem: Problem, z: Tensor, temperature: float) -> Tensor:
    shares = torch.softmax(z / temperature, dim=1)
    return problem.objective(problem.mixed(shares), (shares * problem.log_prior).sum(dim=1))


def _settled(before: Tensor, now: Tensor, tolerance: float) -> bool:
    return bool(((before - now).abs() <= tolerance * now.abs().clamp(min=tolerance)).all())
