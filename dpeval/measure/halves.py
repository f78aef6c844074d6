"""A calibration half and a measured half of the records, by a hash of the unit: the same for every model and attack.

>>> calibration_half(("a", "b", "c", "d"), salt=0)
array([ True,  True, False, False])
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def calibration_half(units: Sequence[str], salt: int = 0) -> NDArray[np.bool_]:
    """Which records are for calibration, shape ``(n,)``: one bit of SHA-256 of salt and unit, so groups stay whole."""
    side = {unit: hashlib.sha256(f"{salt}\x1f{unit}".encode()).digest()[0] & 1 for unit in set(units)}
    return np.array([side[unit] == 1 for unit in units], dtype=np.bool_)


def unit_names(ids: Sequence[str], groups: Sequence[int] | None) -> tuple[str, ...]:
    """What was sampled independently: each record's near-duplicate group where groups are given, else the record."""
    return tuple(ids) if groups is None else tuple(f"group {g}" for g in groups)
