"""Privacy claims as JSON and back, exactly.

>>> claim_from_json(claim_to_json(NoClaim("nothing is promised")))
NoClaim(reason='nothing is promised')
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from dpeval.types import Adjacency, Claim, NoClaim, PrivacyClaim, Trust, Unit


def claim_to_json(claim: PrivacyClaim) -> dict[str, Any]:
    """The claim's kind and fields, as plain JSON material."""
    return {"kind": type(claim).__name__, **dataclasses.asdict(claim)}


def claim_from_json(stored: Mapping[str, Any]) -> PrivacyClaim:
    """The claim that :func:`claim_to_json` described."""
    fields = {key: value for key, value in stored.items() if key != "kind"}
    if stored["kind"] == "NoClaim":
        return NoClaim(**fields)
    return Claim(
        **fields
        | {
            "unit": Unit(fields["unit"]),
            "trust": Trust(fields["trust"]),
            "adjacency": Adjacency(fields["adjacency"]),
            "excludes": tuple(fields["excludes"]),
            "details": tuple((name, value) for name, value in fields["details"]),
        }
    )
