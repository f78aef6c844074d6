"""What each training step looked like: diagnostics for the experimenter.

NOT PRIVATE. Every figure here but the step, the learning rate and σ_eff is computed from the members' gradients without
noise. No claim covers them: look at them in an experiment, never publish them about real people's data.

>>> tally = Tally(); tally.add(torch.tensor([0.0625, 0.25, float("inf")]), max_norm=0.1); tally
Tally(drawn=3.0, finite=2.0, norms=0.3125, clipped=1.0)
>>> StepLog.of(0, tally, signal=2.0, noise=4.0, learning_rate=0.1, sigma_eff=5.0).signal_to_noise
0.5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

import numpy as np
import torch

from dpeval.types import Floats


@dataclass
class Tally:
    """Sums over the examples of a step: how many, how many with a finite norm, their norms, how many were clipped."""

    drawn: float = 0.0
    finite: float = 0.0
    norms: float = 0.0
    clipped: float = 0.0

    def add(self, norms: torch.Tensor, max_norm: float) -> None:
        """Count the examples whose gradient norms are ``norms``, shape ``(B,)``."""
        values = norms.detach().double()
        finite = values[torch.isfinite(values)]
        self.drawn += values.numel()
        self.finite += finite.numel()
        self.norms += float(finite.sum())
        self.clipped += int((finite > max_norm).sum())

    def as_array(self) -> Floats:
        """The four sums, shape ``(4,)``."""
        return np.asarray(astuple(self), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class StepLog:
    """One step. NOT PRIVATE but for ``step``, ``learning_rate`` and ``sigma_eff``: see the module's docstring.

    ``mean_norm`` is the mean gradient norm before clipping (0 for an empty draw), ``clipped`` the share of examples
    clipped, ``dropped`` the number whose gradient was not finite and was left out. ``signal_to_noise`` is the norm of
    the summed clipped gradients over the norm of the noise added (infinite without noise); ``sigma_eff`` is the noise
    multiplier over the sampling rate (Li et al. 2022).
    """

    step: int
    drawn: int
    learning_rate: float
    sigma_eff: float
    mean_norm: float
    clipped: float
    dropped: int
    signal_to_noise: float

    @classmethod
    def of(
        cls, step: int, tally: Tally, *, signal: float, noise: float, learning_rate: float, sigma_eff: float
    ) -> StepLog:
        """The entry of a step from its sums."""
        return cls(
            step=step,
            drawn=int(tally.drawn),
            learning_rate=learning_rate,
            sigma_eff=sigma_eff,
            mean_norm=tally.norms / tally.finite if tally.finite else 0.0,
            clipped=tally.clipped / tally.finite if tally.finite else 0.0,
            dropped=int(tally.drawn - tally.finite),
            signal_to_noise=signal / noise if noise else float("inf"),
        )

    def plain(self) -> dict[str, float | None]:
        """As JSON material; ``None`` stands for infinity."""
        return {key: None if value == float("inf") else value for key, value in asdict(self).items()}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> StepLog:
        """The entry that :meth:`plain` described."""
        finite: dict[str, Any] = {key: float("inf") if value is None else value for key, value in values.items()}
        return cls(**finite)


def summary(log: Sequence[StepLog], *, num_records: int | None = None) -> dict[str, float]:
    """Means over the steps of a run, finite numbers only; empty for an empty log. NOT PRIVATE.

    The effective noise multiplier is σ/q (Li et al. 2022). Over ``num_records`` it is σ/(qN), the noise of the averaged
    gradient in units of the clipping norm.
    """
    if not log:
        return {}
    drawn = [entry for entry in log if entry.drawn]
    ratios = [entry.signal_to_noise for entry in log]
    third = -(-len(log) // 3)
    found = {
        "steps": float(len(log)),
        "empty draws": float(len(log) - len(drawn)),
        "records drawn per step": float(np.mean([entry.drawn for entry in log])),
        "effective noise multiplier": log[0].sigma_eff,
        "mean gradient norm": float(np.mean([entry.mean_norm for entry in drawn])) if drawn else 0.0,
        "share clipped": float(np.mean([entry.clipped for entry in drawn])) if drawn else 0.0,
        "signal to noise": float(np.mean(ratios)),
        "signal to noise, first third": float(np.mean(ratios[:third])),
        "signal to noise, last third": float(np.mean(ratios[-third:])),
        "records dropped for infinite gradients": float(sum(entry.dropped for entry in log)),
    }
    if num_records is not None:
        found["noise multiplier over expected batch"] = log[0].sigma_eff / num_records
    return {name: value for name, value in found.items() if np.isfinite(value)}
