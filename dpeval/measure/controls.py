"""Whether an attack is worth listening to: it must break what is broken, and must not break what holds nothing.

>>> from dpeval.types import Estimate
>>> validate(Estimate(0.9, 0.8, 1.0, n=100), Estimate(0.5, 0.4, 0.6, n=100), null=0.5).validated
True
"""

from __future__ import annotations

from dataclasses import dataclass

from dpeval.types import Estimate, Measured, Undefined


@dataclass(frozen=True)
class Validation:
    """Whether an attack's results mean anything on these data, and why (not)."""

    validated: bool
    reason: str


def validate(positive: Measured, negative: Measured, null: float) -> Validation:
    """Judge an attack by its controls.

    Args:
        positive: its value on an over-fitted undefended model; must lie above ``null`` with its whole interval.
        negative: its value on a model that never saw the data; its interval must reach down to ``null``.
        null: the value of an attack that knows nothing (0.5 for AUC, 0 for a gain).
    """
    if isinstance(positive, Undefined):
        return Validation(False, f"attack not validated: its positive control is undefined ({positive.reason})")
    if isinstance(negative, Undefined):
        return Validation(False, f"attack not validated: its negative control is undefined ({negative.reason})")
    if positive.low <= null:
        sign = "; inverted? Its answers are worse than guessing there" if positive.high < null else ""
        return Validation(
            False,
            f"attack not validated: it does not break the over-fitted undefended model {_shown(positive, null)}{sign}",
        )
    if negative.low > null:
        return Validation(
            False, f"attack not validated: it 'breaks' a model that never saw the data {_shown(negative, null)}"
        )
    return Validation(True, f"breaks the over-fitted undefended model {_shown(positive, null)}, not the untrained one")


def _shown(found: Estimate, null: float) -> str:
    return f"({found.value:.3f} [{found.low:.3f}, {found.high:.3f}], chance {null:g})"
