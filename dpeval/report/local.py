"""What local noise is worth, side by side: one release, all of them, with the label, and behind a trusted shuffler.

The numbers come from a claim's details, by the names that :mod:`dpeval.privacy.claims` gives them.

>>> from dpeval.privacy.claims import local_gaussian_claim
>>> from dpeval.types import Unit
>>> claim = local_gaussian_claim(
...     sigma=0.60023, sensitivity=2.0, releases=3, delta=1e-5, unit=Unit.SEQUENCE, nominal_epsilon=8.0
... )
>>> dict(zip(COLUMNS, local_row("dp-forward", claim), strict=True))["ε of all releases"]
'40.52'
"""

from __future__ import annotations

from collections.abc import Sequence

from dpeval.privacy.translation import PAPER_TRANSLATION
from dpeval.report.cells import prose
from dpeval.report.numbers import count, epsilon, kind
from dpeval.report.table import NOTHING, Table
from dpeval.types import Claim, Trust

COLUMNS = (
    "defense", "nominal ε (not claimed)", "ε of one release", "releases", "ε of all releases", "label ε", "ε claimed",
    "ε of 10 answers", "central ε, shuffled", "central ε, closed form", f"{PAPER_TRANSLATION} (no guarantee)",
)  # fmt: skip
_DETAILS = (
    "nominal epsilon", "epsilon of one release", "releases", "epsilon of all releases", "label epsilon", None,
    "epsilon of 10 answers", "central epsilon, shuffled", "central epsilon, shuffled, closed form",
    f"{PAPER_TRANSLATION} epsilon (no guarantee)",
)  # fmt: skip
NOTE = (
    "ε of one release and of all releases are exact and local. A nominal ε is what a published calibration prints; a "
    "central ε needs a trusted shuffler and holds only where a number is shown; the paper's translation accounts "
    "a sampling that does not take place."
)


def local_tables(claims: Sequence[tuple[str, Claim]]) -> list[str]:
    """Markdown tables of the local claims among ``claims`` (label, claim), one for each kind."""
    told = [
        (label, claim) for label, claim in claims if claim.trust is Trust.LOCAL and _detail(claim, _DETAILS[1] or "")
    ]
    out: list[str] = []
    for one in dict.fromkeys(claim.kind for _, claim in told):
        some = [(label, claim) for label, claim in told if claim.kind == one]
        rows = tuple(local_row(label, claim) for label, claim in some)
        table = Table(COLUMNS, rows, numeric=tuple(range(1, len(COLUMNS)))).without_empty_columns()
        out += [f"### Local noise, {prose(kind(some[0][1]))}", table.markdown()]
    return [*out, NOTE] if out else []


def local_row(label: str, claim: Claim) -> tuple[str, ...]:
    """The cells of one claim, in the order of :data:`COLUMNS`."""
    cells = [epsilon(claim.epsilon) if name is None else _detail(claim, name) for name in _DETAILS]
    return (label, *(text or NOTHING for text in cells))


def _detail(claim: Claim, name: str) -> str:
    value = dict(claim.details).get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value.split(":")[0]
    return count(value) if isinstance(value, int) and name == "releases" else epsilon(float(value))
