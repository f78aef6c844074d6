"""How numbers are shown: never without the interval, the unit and the condition that they have.

>>> from dpeval.types import Estimate, Undefined
>>> measured(Estimate(0.74, 0.70, 0.78, n=400))
'0.74 [0.70, 0.78]'
>>> measured(Undefined("one class"))
'undefined (one class)'
>>> duration(125), size(3 * 2**30), p_value(0.00002), count(12808)
('2 min 05 s', '3.0 GiB', '< 0.0001', '12,808')
"""

from __future__ import annotations

import math

from dpeval.types import Claim, Cost, Estimate, Measured, Undefined

FINEST = 6
"""Decimals at most."""


def measured(value: Measured, null: float | None = None) -> str:
    """A value with its interval, or why there is none.

    Decimals follow the width of the interval: at least one digit of its half. Where ``null`` is given, there are as
    many as keep both bounds on their true side of it, so that rounding never makes an interval touch its baseline.
    """
    if isinstance(value, Undefined):
        return undefined(value)
    places = _places(value, null)
    if value.low == value.high and math.isinf(value.value):
        return number(value.value, places)
    low = "(-∞" if value.low == -math.inf else f"[{number(value.low, places)}"
    high = "∞)" if value.high == math.inf else f"{number(value.high, places)}]"
    return f"{number(value.value, places)} {low}, {high}"


def undefined(value: Undefined) -> str:
    """Why a quantity has no value."""
    return value.reason if value.reason.startswith("undefined") else f"undefined ({value.reason})"


def counted(value: Measured, null: float | None = None) -> str:
    """:func:`measured` with the records and models behind it.

    >>> counted(Estimate(0.74, 0.70, 0.78, n=400, models=3))
    '0.74 [0.70, 0.78] (400 records, 3 models)'
    """
    if isinstance(value, Undefined):
        return undefined(value)
    return f"{measured(value, null)} ({plural(value.n, 'record')}, {plural(value.models, 'model')})"


def number(value: float, places: int = 2) -> str:
    """A bare number with ``places`` decimals; only for numbers that have no interval (rates, baselines, bounds).

    >>> number(-0.0001), number(math.inf), number(0.000012, 2)
    ('0.00', '∞', '1.2e-05')
    """
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if 0 < value < 0.5 * 10**-places:
        return f"{value:.2g}"
    shown = f"{value:.{places}f}"
    return shown.removeprefix("-") if float(shown) == 0 else shown


def lower_bound(value: float) -> str:
    """A lower bound, rounded down: it must not grow by being printed.

    >>> lower_bound(1.799), lower_bound(0.0)
    ('1.79', '0.00')
    """
    return number(value) if math.isinf(value) else f"{math.floor(value * 100 + 1e-9) / 100:.2f}"


def plain(value: float) -> str:
    """A number as short as it is exact enough: settings, sizes of noise, rates.

    >>> plain(8.0), plain(0.5), plain(1e-05), plain(1234567)
    ('8', '0.5', '1e-05', '1,234,567')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not math.isfinite(value):
        return number(value)
    return count(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"


def percent(level: float) -> str:
    """A confidence level.

    >>> percent(0.95), percent(0.999)
    ('95 %', '99.9 %')
    """
    return f"{100 * level:.4g} %"


def p_value(value: float | None) -> str:
    """A p-value; ``–`` where the cell has none."""
    if value is None:
        return "–"
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"


def count(value: int) -> str:
    """A whole number with groups of three digits."""
    return f"{value:,}"


def plural(value: int, noun: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> plural(1, "cell"), plural(2, "cell")
    ('1 cell', '2 cells')
    """
    return f"{count(value)} {noun if value == 1 else many or noun + 's'}"


def duration(seconds: float | None) -> str:
    """Seconds, minutes or hours; ``–`` where nothing was measured."""
    if seconds is None:
        return "–"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def size(number_of_bytes: int | None) -> str:
    """Bytes in binary units; ``–`` where nothing was measured."""
    if number_of_bytes is None:
        return "–"
    value, units = float(number_of_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while abs(value) >= 1023.95 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def seconds_of(cost: Cost | None) -> str:
    """Training time."""
    return duration(cost.seconds if cost else None)


def memory_of(cost: Cost | None) -> str:
    """Peak memory above the start."""
    return size(cost.peak_bytes if cost else None)


def epsilon(value: float) -> str:
    """ε alone; used only where unit, trust model and adjacency stand beside it.

    >>> epsilon(8.0), epsilon(0.03125), epsilon(math.inf)
    ('8', '0.03125', '∞')
    """
    return number(value) if math.isinf(value) else f"{value:.4g}"


def delta(value: float) -> str:
    """δ; zero is pure differential privacy."""
    return "0" if value == 0 else f"{value:.2g}"


def kind(claim: Claim) -> str:
    """What a claim protects, from whom, and which inputs it makes alike, in words."""
    return f"per {claim.unit.value}, {claim.trust.value} trust, {claim.adjacency.value.replace('-', ' ')}"


def guarantee(claim: Claim) -> str:
    """ε with everything without which it says nothing.

    >>> from dpeval.types import Adjacency, Trust, Unit
    >>> guarantee(Claim(epsilon=8, delta=1e-5, unit=Unit.SEQUENCE, trust=Trust.LOCAL, mechanism="aMGM",
    ...     adjacency=Adjacency.ANY_TWO_INPUTS, accountant="analytic", scope="the released embedding"))
    'ε = 8, δ = 1e-05 (per sequence, local trust, any two inputs)'
    """
    return f"ε = {epsilon(claim.epsilon)}, δ = {delta(claim.delta)} ({kind(claim)})"


def _places(value: Estimate, null: float | None) -> int:
    places = _places_for(_half(value))
    while null is not None and places < FINEST and _moved(value, null, places):
        places += 1
    return places


def _half(value: Estimate) -> float:
    """Half the interval, or the one distance that is finite."""
    sides = [d for d in (value.value - value.low, value.high - value.value) if math.isfinite(d)]
    return sum(sides) / len(sides) if sides else 1.0


def _places_for(half: float) -> int:
    if half == 0:
        return 3
    if half >= 10:
        return 0 if half >= 100 else 1
    return min(FINEST - 1, max(2, math.ceil(-math.log10(half))))


def _moved(value: Estimate, null: float, places: int) -> bool:
    """Whether rounding moves a bound onto, or over, the null that it excludes (or off the one it includes)."""
    low, high, at = (_rounded(x, places) for x in (value.low, value.high, null))
    return (low <= at <= high) == value.excludes(null)


def _rounded(value: float, places: int) -> float:
    return value if math.isinf(value) else round(value, places)
