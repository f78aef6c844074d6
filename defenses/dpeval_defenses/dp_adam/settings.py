"""How to train: the numbers of one run, its optimizer and its learning rates.

>>> settings = TrainSettings(steps=4, max_norm=0.1, noise_multiplier=1.0, learning_rate=0.1)
>>> [round(settings.rate_at(step), 3) for step in range(4)]
[0.1, 0.075, 0.05, 0.025]
>>> warm = TrainSettings(steps=4, max_norm=0.1, noise_multiplier=1.0, learning_rate=0.1, schedule="cosine", warmup=2)
>>> [round(warm.rate_at(step), 3) for step in range(4)]
[0.05, 0.1, 0.1, 0.05]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch

Schedule = Literal["linear", "cosine", "constant"]
"""How the learning rate goes on after its warm-up: down to zero in a line or half a cosine, or not at all."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """How to train. ``noise_multiplier`` is the standard deviation of the noise in units of ``max_norm``."""

    steps: int
    max_norm: float
    noise_multiplier: float
    learning_rate: float
    weight_decay: float = 0.0
    optimizer: Literal["adamw", "sgd"] = "adamw"
    schedule: Schedule = "linear"
    warmup: int = 0
    """Steps in which the rate rises in equal parts to its full value, which the last of them has."""
    micro_batch: int = 32
    head_learning_rate: float | None = None
    """The learning rate of the parameters named ``head.…``; by default that of all."""
    dropout_entropy: int = 0

    def __post_init__(self) -> None:
        checks = (("steps", self.steps >= 1, ">= 1"), ("max_norm", 0 < self.max_norm < float("inf"), "> 0 and finite"),
                  ("noise_multiplier", 0 <= self.noise_multiplier < float("inf"), ">= 0 and finite"),
                  ("learning_rate", self.learning_rate > 0, "> 0"),
                  ("head_learning_rate", self.head_learning_rate is None or self.head_learning_rate > 0, "> 0"),
                  ("weight_decay", self.weight_decay >= 0, ">= 0"),
                  ("micro_batch", self.micro_batch >= 1, ">= 1"),
                  ("optimizer", self.optimizer in {"adamw", "sgd"}, "adamw or sgd"),
                  ("schedule", self.schedule in get_args(Schedule), "linear, cosine or constant"),
                  ("warmup", 0 <= self.warmup <= self.steps, f"from 0 to the {self.steps} steps"))  # fmt: skip
        for name, good, wanted in checks:
            if not good:
                raise ValueError(f"TrainSettings: expected {name} {wanted}, got {getattr(self, name)!r}")

    def rate_at(self, step: int) -> float:
        """The learning rate of ``step``, counted from 0; after the warm-up it would reach zero at step ``steps``."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        match self.schedule:
            case "linear":
                return self.learning_rate * (1 - done)
            case "cosine":
                return self.learning_rate * (1 + math.cos(math.pi * done)) / 2
            case "constant":
                return self.learning_rate

    def make_optimizer(self, parameters: Mapping[str, torch.nn.Parameter]) -> torch.optim.Optimizer:
        """AdamW (Loshchilov and Hutter 2019) or plain SGD over the named ``parameters``."""
        head = [p for name, p in parameters.items() if name.startswith("head.")]
        body = [p for name, p in parameters.items() if not name.startswith("head.")]
        faster = (self.head_learning_rate or self.learning_rate) / self.learning_rate
        groups = [{"params": part, "scale": scale} for part, scale in ((body, 1.0), (head, faster)) if part]
        if self.optimizer == "sgd":
            return torch.optim.SGD(groups, lr=self.learning_rate)
        return torch.optim.AdamW(groups, lr=self.learning_rate, weight_decay=self.weight_decay)

    def update(self, optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
        """One step of ``optimizer``, which :meth:`make_optimizer` made; weight decay is decoupled for both kinds."""
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * group["scale"]
        if self.optimizer == "sgd" and self.weight_decay:
            with torch.no_grad():
                for group in optimizer.param_groups:
                    for p in group["params"]:
                        p.mul_(1 - group["lr"] * self.weight_decay)
        optimizer.step()
