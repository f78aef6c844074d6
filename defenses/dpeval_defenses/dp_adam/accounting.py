"""What decides ε: noise, sampling and steps, before training as a plan and after it as a claim.

>>> accounting = Accounting(epsilon=3.0, clip=0.1, epochs=10, batch_size=64)
>>> plan = accounting.plan(num_records=600)
>>> plan.steps, round(plan.sampling_rate, 4), round(plan.noise_multiplier, 2)
(100, 0.1067, 1.37)
>>> claim = accounting.claim(plan, steps_taken=100, trained=770, repeatable=True)
>>> 2.98 < claim.epsilon <= 3.0
True
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from dpeval.privacy.claims import Detail, dp_sgd_claim
from dpeval.privacy.sampled import (
    FixedSizeGaussian,
    Mechanism,
    SampledGaussian,
    UnattainableError,
    calibrate_mechanism,
    epsilon,
)
from dpeval.privacy.steps import default_delta, sampling_rate, steps_for
from dpeval.types import Adjacency, NoClaim, PrivacyClaim

AccountantName = Literal["pld", "rdp", "gdp-clt"]

_DIAGNOSTICS = "the training log and its means (gradient norms, share clipped, signal to noise)"
_SIZE = "the number of training records: it is taken as public, and sets sampling rate, steps and δ"
_SEEDED = "an adversary who knows the run's seed and with it the noise: set secure_noise for people's real data"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run about to start."""

    num_records: int
    delta: float
    noise_multiplier: float
    sampling_rate: float
    steps: int


@dataclass(frozen=True, kw_only=True)
class Accounting:
    """The settings of DP-Adam that decide ε; see there for their meaning."""

    epsilon: float | None = None
    noise_multiplier: float | None = None
    delta: float | None = None
    clip: float = 0.1
    epochs: int = 3
    steps: int | None = None
    batch_size: int = 256
    accountant: AccountantName = "pld"
    adjacency: Literal["add-or-remove-one", "replace-one"] = "add-or-remove-one"
    sampling: Literal["poisson", "fixed"] = "poisson"

    def check(self) -> None:
        """ValueError for settings that no data can make meaningful."""
        for name, value in (("epsilon", self.epsilon), ("delta", self.delta)):
            if value is not None and not 0 < value < (1 if name == "delta" else float("inf")):
                raise ValueError(f"dp-adam: expected {name} {'in (0, 1)' if name == 'delta' else '> 0'}, got {value}")
        if self.noise_multiplier is not None and not 0 <= self.noise_multiplier < float("inf"):
            raise ValueError(f"dp-adam: expected noise_multiplier >= 0, got {self.noise_multiplier}")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"dp-adam: expected steps >= 1, got {self.steps}")
        if self.sampling == "fixed" and (self.accountant, self.adjacency) != ("rdp", "replace-one"):
            raise ValueError(
                "dp-adam: sampling = 'fixed' is covered only by accountant = 'rdp' with adjacency = 'replace-one' "
                f"(the numbers of Poisson sampling do not hold for it); got {self.accountant!r}, {self.adjacency!r}"
            )
        if self.accountant == "gdp-clt" and self.adjacency == "replace-one":
            raise ValueError("dp-adam: the gdp-clt formula is stated for add-or-remove-one; use 'pld' for replace-one")

    def delta_for(self, num_records: int) -> float:
        """δ as given, or 1/(2N) (Li et al. 2022)."""
        return default_delta(num_records) if self.delta is None else self.delta

    def unfit(self, num_records: int) -> str | None:
        """Why the target cannot be reached on so many records, or ``None``."""
        try:
            self.plan(num_records)
        except UnattainableError as error:
            return str(error)
        return None

    def plan(self, num_records: int) -> Plan:
        """Steps, sampling rate, δ and noise; UnattainableError where no noise reaches the target."""
        steps = steps_for(self.epochs, num_records, self.batch_size) if self.steps is None else self.steps
        rate, delta = sampling_rate(num_records, self.batch_size), self.delta_for(num_records)
        sigma = self.noise_multiplier
        if sigma is None:
            if self.epsilon is None:
                raise ValueError("dp-adam: give epsilon or noise_multiplier")
            shape = self._mechanism(1.0, rate, steps, num_records)
            sigma = _noise_for(shape, self.epsilon, delta, self.accountant, Adjacency(self.adjacency))
        return Plan(
            num_records=num_records, delta=delta, noise_multiplier=sigma, sampling_rate=rate, steps=steps
        )  # fmt: skip

    def claim(
        self, plan: Plan, *, steps_taken: int, trained: int, repeatable: bool, also: tuple[Detail, ...] = ()
    ) -> PrivacyClaim:
        """The claim of a run of ``plan`` that took ``steps_taken`` steps and trained so many parameters."""
        if plan.noise_multiplier == 0:
            return NoClaim("gradients were clipped, but no noise was added: noise_multiplier = 0")
        done = self._mechanism(plan.noise_multiplier, plan.sampling_rate, steps_taken, plan.num_records)
        return dp_sgd_claim(
            done,
            delta=plan.delta,
            accountant=self.accountant,
            num_records=plan.num_records,
            clip=self.clip,
            adjacency=Adjacency(self.adjacency),
            target_epsilon=self.epsilon,
            also_excludes=(_SIZE, _DIAGNOSTICS, *((_SEEDED,) if repeatable else ())),
            also_details=(*self._details(done, plan, trained, repeatable=repeatable), *also),
        )

    def _mechanism(self, sigma: float, rate: float, steps: int, num_records: int) -> Mechanism:
        if self.sampling == "fixed":
            return FixedSizeGaussian(sigma, min(self.batch_size, num_records), num_records, steps)
        return SampledGaussian(sigma, rate, steps)

    def _details(self, done: Mechanism, plan: Plan, trained: int, *, repeatable: bool) -> tuple[Detail, ...]:
        details: list[Detail] = [
            ("effective noise multiplier", plan.noise_multiplier / plan.sampling_rate),
            ("trained parameters", trained),
            ("noise source", "seeded, repeatable" if repeatable else "operating system, not repeatable"),
        ]
        if self.accountant == "gdp-clt":
            bound = epsilon(done, plan.delta, accountant="pld", adjacency=Adjacency(self.adjacency))
            details.append(("epsilon by pld, a bound", bound.value))
        return tuple(details)


@lru_cache(maxsize=256)
def _noise_for(
    shape: Mechanism, target: float, delta: float, accountant: AccountantName, adjacency: Adjacency
) -> float:
    # Kept, because planning asks for the same noise before each training does, and the search takes seconds.
    return calibrate_mechanism(shape, target, delta, accountant=accountant, adjacency=adjacency)
