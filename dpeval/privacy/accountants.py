"""ε of DP-SGD by three accountants.

``"pld"`` is the tight one (numerical composition, rounded up), ``"rdp"`` a looser bound that holds for every δ, and
``"gdp-clt"`` the central-limit approximation that some papers print: not a bound, and labelled so.

>>> run = SampledGaussian(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
>>> tight, loose = (epsilon(run, 1e-5, accountant=a) for a in ("pld", "rdp"))
>>> f"{tight.value:.3f} {loose.value:.3f} {tight.is_bound}"
'1.828 2.101 True'
>>> epsilon(run, 1e-5, accountant="gdp-clt").is_bound
False
>>> replaced = epsilon(run, 1e-5, accountant="pld", adjacency=Adjacency.REPLACE_ONE)
>>> f"{replaced.value:.3f}"
'2.843'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from dpeval.privacy.gaussian import epsilon_of_gaussian, gaussian_mu
from dpeval.privacy.loss_distribution import central_limit_mu, pld_epsilon
from dpeval.privacy.mechanisms import (
    FixedSizeGaussian,
    Mechanism,
    SampledGaussian,
    ShuffledGaussian,
    reveals_nothing,
)
from dpeval.privacy.renyi import (
    EXTENDED_ORDERS,
    WHOLE_ORDERS,
    Curve,
    fixed_size_curve,
    gaussian_curve,
    poisson_curve,
    rdp_epsilon,
)
from dpeval.types import Adjacency

Accountant: TypeAlias = Literal["rdp", "pld", "gdp-clt"]
ACCOUNTANTS: tuple[Accountant, ...] = get_args(Accountant)

SMALLEST_PLD_DELTA = 1e-9
"""Below this the rounding noise of the discrete Fourier transform can push the numerical ε under the true one."""


@dataclass(frozen=True)
class EpsilonReport:
    """An ε, which accountant it is from, and whether it is a guarantee."""

    value: float
    accountant: str
    """The accountant that gave the value; ``note`` says why where it is not the one asked for."""
    is_bound: bool
    """``False`` marks an approximation, which may lie on either side of the true ε."""
    note: str = ""
    settings: tuple[tuple[str, float | int | str], ...] = ()
    """What the accountant depended on: order, discretisation, library version."""


def epsilon(
    mechanism: Mechanism,
    delta: float,
    *,
    accountant: Accountant,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    orders: Sequence[float] | None = None,
    discretisation: float | None = None,
) -> EpsilonReport:
    """ε of ``mechanism`` at ``delta``, rounded up unless the accountant is the ``"gdp-clt"`` approximation.

    ``orders`` replaces the extended grid of ``"rdp"``, ``discretisation`` the interval of ``"pld"``. No noise or
    ``delta = 0`` gives infinity; no steps or no sampling gives 0. Raises :class:`ValueError` for what no accountant
    here covers, naming what does.
    """
    _check_request(delta, accountant, adjacency)
    if reveals_nothing(mechanism) or delta == 1:
        return EpsilonReport(0.0, accountant, True, "nothing is revealed")
    if mechanism.noise_multiplier == 0 or delta == 0:
        return EpsilonReport(math.inf, accountant, True, "no finite ε: no noise, or δ = 0")
    match mechanism:
        case SampledGaussian():
            return _poisson(mechanism, delta, accountant, adjacency, orders, discretisation)
        case FixedSizeGaussian():
            return _fixed_size(mechanism, delta, accountant, adjacency, orders)
        case ShuffledGaussian():
            return _shuffled(mechanism, delta, adjacency)


def _check_request(delta: float, accountant: str, adjacency: Adjacency) -> None:
    if not 0 <= delta <= 1:
        raise ValueError(f"epsilon: expected 0 <= delta <= 1, got {delta}")
    if accountant not in ACCOUNTANTS:
        raise ValueError(f"epsilon: expected an accountant of {ACCOUNTANTS}, got {accountant!r}")
    if adjacency is Adjacency.ANY_TWO_INPUTS:
        raise ValueError("epsilon: DP-SGD is accounted for add-or-remove-one or replace-one; got any-two-inputs")


def _poisson(
    run: SampledGaussian,
    delta: float,
    accountant: Accountant,
    adjacency: Adjacency,
    orders: Sequence[float] | None,
    discretisation: float | None,
) -> EpsilonReport:
    if accountant == "gdp-clt":
        return _central_limit(run, delta, adjacency)
    if accountant == "rdp":
        return _rdp_poisson(run, delta, adjacency, orders)
    if run.sampling_rate == 1:
        mu = gaussian_mu(run.noise_multiplier, _moves(adjacency), run.steps)
        return EpsilonReport(epsilon_of_gaussian(mu, delta), "pld", True, "no subsampling: closed form, exact")
    if delta < SMALLEST_PLD_DELTA:
        why = f"the numerical accountant does not reach δ = {delta:.3g} (below {SMALLEST_PLD_DELTA:g}); this is RDP's"
        fallback = _rdp_poisson(run, delta, adjacency, orders)
        return replace(fallback, note="; ".join(n for n in (why, fallback.note) if n))
    value, interval = pld_epsilon(run, delta, adjacency, discretisation)
    return EpsilonReport(value, "pld", True, "", (("discretisation", interval), _library()))


def _moves(adjacency: Adjacency) -> float:
    # How far one changed record moves the clipped sum, in units of C.
    return 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0


def _rdp_poisson(
    run: SampledGaussian, delta: float, adjacency: Adjacency, orders: Sequence[float] | None
) -> EpsilonReport:
    if run.sampling_rate == 1:
        return _rdp(gaussian_curve(_moves(adjacency) / run.noise_multiplier), run.steps, delta, orders)
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        return _rdp(poisson_curve(run), run.steps, delta, orders)
    return _rdp_replaced(run, delta, orders)


def _rdp(curve: Curve, steps: int, delta: float, orders: Sequence[float] | None) -> EpsilonReport:
    found = rdp_epsilon(curve, steps, delta, orders)
    grid = orders if orders is not None else EXTENDED_ORDERS
    settings = (("order", round(found.order, 6)), ("orders", f"{grid[0]:g} to {grid[-1]:g}"))
    return EpsilonReport(found.epsilon, "rdp", True, "", settings)


def _rdp_replaced(run: SampledGaussian, delta: float, orders: Sequence[float] | None) -> EpsilonReport:
    # Remove then add: an (ε, δ')-bound for one record out gives (2ε, (1+e^ε)·δ') for one record replaced.
    curve, log_target = poisson_curve(run), math.log(delta)
    low, high = log_target - 700, log_target - math.log(2)
    best: EpsilonReport | None = None
    for _ in range(40):
        middle = (low + high) / 2
        report = _rdp(curve, run.steps, math.exp(max(middle, -700.0)), orders)
        if math.log1p(math.exp(min(report.value, 700))) + middle <= log_target:
            low, best = middle, report
        else:
            high = middle
    value = 2 * best.value if best else math.inf
    note = "replace-one from add-or-remove-one by group privacy: valid but loose; pld is tight"
    return EpsilonReport(value, "rdp", True, note, best.settings if best else ())


def rdp_at(run: SampledGaussian, orders: Sequence[float]) -> list[float]:
    """The Rényi divergence of the whole run at each order, add or remove one record."""
    if reveals_nothing(run) or run.noise_multiplier == 0:
        return [0.0 if reveals_nothing(run) else math.inf for _ in orders]
    return [run.steps * divergence for divergence in poisson_curve(run)(orders)]


def _central_limit(run: SampledGaussian, delta: float, adjacency: Adjacency) -> EpsilonReport:
    if adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
        raise ValueError(f"epsilon: the gdp-clt formula is stated for add-or-remove-one, got {adjacency}; use pld")
    mu = central_limit_mu(run)
    note = "approximation by a central limit theorem, not a bound: the true ε is often higher"
    value = epsilon_of_gaussian(mu, delta) if math.isfinite(mu) else math.inf
    return EpsilonReport(value, "gdp-clt", False, note, (("mu", mu),))


def _fixed_size(
    run: FixedSizeGaussian,
    delta: float,
    accountant: Accountant,
    adjacency: Adjacency,
    orders: Sequence[float] | None,
) -> EpsilonReport:
    if accountant != "rdp" or adjacency is not Adjacency.REPLACE_ONE:
        raise ValueError(
            "epsilon: fixed-size batches without replacement are covered only by accountant='rdp' with replace-one "
            f"adjacency (Poisson's numbers are far too small for them); got {accountant!r}, {adjacency}"
        )
    report = _rdp(fixed_size_curve(run), run.steps, delta, WHOLE_ORDERS if orders is None else orders)
    return replace(report, settings=(*report.settings, _library()))


def _shuffled(run: ShuffledGaussian, delta: float, adjacency: Adjacency) -> EpsilonReport:
    if adjacency is not Adjacency.REPLACE_ONE:
        raise ValueError(
            "epsilon: shuffled batches are covered only for replace-one (a record more or less shifts every later "
            f"batch); got {adjacency}"
        )
    mu = gaussian_mu(run.noise_multiplier, 2.0, run.epochs)
    note = "shuffling counted for nothing: one Gaussian release of sensitivity 2C per pass, exact composition"
    return EpsilonReport(epsilon_of_gaussian(mu, delta), "gaussian", True, note)


def _library() -> tuple[str, str]:
    from importlib.metadata import version

    return ("dp-accounting", version("dp-accounting"))
