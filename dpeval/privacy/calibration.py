"""The smallest noise multiplier that meets a target ε, on the safe side.

>>> sigma = calibrate(3.0, 1e-5, 0.01, 1000, accountant="rdp")
>>> f"{sigma:.3f}"
'0.865'
>>> from dpeval.privacy.accountants import epsilon
>>> 2.99 < epsilon(SampledGaussian(sigma, 0.01, 1000), 1e-5, accountant="rdp").value <= 3.0
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dpeval.privacy.accountants import SMALLEST_PLD_DELTA, Accountant, epsilon
from dpeval.privacy.gaussian import epsilon_of_gaussian
from dpeval.privacy.loss_distribution import central_limit_mu, fine_interval
from dpeval.privacy.mechanisms import Mechanism, SampledGaussian, reveals_nothing
from dpeval.privacy.renyi import EXTENDED_ORDERS
from dpeval.types import Adjacency

_SMALLEST, _LARGEST = 1e-3, 1e12
# How far below its aim ε may stay, relatively; the dearer the accountant, the coarser.
_SLACK: dict[str, float] = {"gdp-clt": 1e-7, "rdp": 5e-4, "pld": 1e-3}
# What part of the target to aim at. The coarser orders of other tools report up to 0.2 % more for the same run; with
# this margin a recomputation by them stays below the target too.
_AIM: dict[str, float] = {"gdp-clt": 1.0, "rdp": 0.9975, "pld": 1.0}


class UnattainableError(ValueError):
    """No amount of noise reaches the target with this accountant; ``floor`` is the ε that it tends to."""

    def __init__(self, target: float, floor: float, accountant: str, why: str) -> None:
        super().__init__(
            f"calibrate: epsilon = {target:g} cannot be reached by accountant {accountant!r}: with unlimited noise it "
            f"still reports {floor:.6g} ({why}); raise the target or delta, or use another accountant"
        )
        self.floor = floor


def calibrate(
    target_epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    *,
    accountant: Accountant,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    orders: Sequence[float] | None = None,
) -> float:
    """The noise multiplier σ of Poisson-sampled DP-SGD whose ε, computed again, is at most the target.

    ε ends within 0.3 % below the target wherever the accountant can get there. Raises :class:`UnattainableError`
    where it cannot, naming the floor and, for ``"rdp"``, the orders.
    """
    if not sampling_rate > 0 or steps < 1:
        raise ValueError(f"calibrate: expected sampling_rate > 0 and steps >= 1, got {sampling_rate} and {steps}")
    run = SampledGaussian(1.0, sampling_rate, steps)
    return calibrate_mechanism(run, target_epsilon, delta, accountant=accountant, adjacency=adjacency, orders=orders)


def calibrate_mechanism(
    mechanism: Mechanism,
    target_epsilon: float,
    delta: float,
    *,
    accountant: Accountant,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    orders: Sequence[float] | None = None,
) -> float:
    """As :func:`calibrate`, for any mechanism; its own noise multiplier is ignored."""
    if not 0 < target_epsilon < math.inf or not 0 < delta < 1:
        raise ValueError(f"calibrate: expected 0 < target < inf and 0 < delta < 1, got {target_epsilon}, {delta}")
    if reveals_nothing(with_noise(mechanism, 1.0)):
        raise ValueError(f"calibrate: nothing to calibrate, no record enters any step of {mechanism}")

    def of(sigma: float, discretisation: float | None = None) -> float:
        return epsilon(
            with_noise(mechanism, sigma),
            delta,
            accountant=accountant,
            adjacency=adjacency,
            orders=orders,
            discretisation=discretisation,
        ).value

    guess = _guess(mechanism, target_epsilon, delta, adjacency)
    aim, slack = target_epsilon * _AIM[accountant], _SLACK[accountant]
    if accountant == "pld" and isinstance(mechanism, SampledGaussian) and delta >= SMALLEST_PLD_DELTA:
        # A ten times coarser grid costs a tenth and lands so close that the fine one needs one or two more looks.
        rough = partial(_rough_epsilon, of, mechanism)
        guess = _smallest(rough, aim, guess, slack / 4).sigma
    found = _smallest(of, aim, guess, slack)
    if found.epsilon > target_epsilon:
        grid = orders if orders is not None else EXTENDED_ORDERS
        why = f"orders {grid[0]:g} to {grid[-1]:g}" if accountant == "rdp" else "its numerical resolution"
        raise UnattainableError(target_epsilon, found.epsilon, accountant, why)
    return found.sigma


def _rough_epsilon(of: Callable[[float, float], float], mechanism: SampledGaussian, sigma: float) -> float:
    return of(sigma, 10 * fine_interval(replace(mechanism, noise_multiplier=sigma)))


def with_noise(mechanism: Mechanism, sigma: float) -> Mechanism:
    """The same mechanism with another noise multiplier."""
    return replace(mechanism, noise_multiplier=sigma)


def _guess(mechanism: Mechanism, target: float, delta: float, adjacency: Adjacency) -> float:
    if not isinstance(mechanism, SampledGaussian):
        return 1.0
    moves = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0

    def of(sigma: float) -> float:
        mu = central_limit_mu(SampledGaussian(sigma, mechanism.sampling_rate, mechanism.steps))
        return epsilon_of_gaussian(moves * mu, delta)

    return _smallest(of, target, 1.0, 1e-3).sigma


@dataclass(frozen=True)
class _Point:
    sigma: float
    epsilon: float


def _smallest(of: Callable[[float], float], target: float, guess: float, slack: float) -> _Point:
    """Search for σ with ``target·(1−slack) < ε ≤ target`` where ε falls with σ; else the end of the range.

    Root finding of ln ε in ln σ, where the curve is nearly straight. Ends after a bounded number of steps: at an ε
    above the target only if the largest σ allowed still has it.
    """
    private: _Point | None = None
    exposed: _Point | None = None
    sigma, stride = guess, slack
    for step in range(200):
        here = _Point(sigma, of(sigma))
        if here.epsilon <= target:
            private = here
            if here.epsilon > target * (1 - slack) or sigma <= _SMALLEST:
                return here
        else:
            exposed = here
            if sigma >= _LARGEST:
                return here
        if private and exposed:
            if private.sigma <= exposed.sigma * (1 + 1e-12):
                return private
            sigma = _between(exposed, private, target * (1 - slack / 2), halve=step % 4 == 3)
        else:
            stride *= 2
            sigma = _outward(here, target, stride)
    return private or here


def _outward(here: _Point, target: float, stride: float) -> float:
    ratio = here.epsilon / target
    reach = abs(math.log(ratio)) if 0 < ratio < math.inf else 1.0
    move = max(stride, min(reach, 3.0))
    return min(max(here.sigma * math.exp(move if ratio > 1 else -move), _SMALLEST), _LARGEST)


def _between(exposed: _Point, private: _Point, aim: float, *, halve: bool) -> float:
    share = 0.5
    if not halve and private.epsilon > 0 and exposed.epsilon < math.inf:
        share = math.log(exposed.epsilon / aim) / math.log(exposed.epsilon / private.epsilon)
    share = min(max(share, 0.01), 0.99)
    return float(exposed.sigma * (private.sigma / exposed.sigma) ** share)
