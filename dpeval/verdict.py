"""Whether a claim survived its audit: refuted, consistent with what was seen, or not testable by it; and why.

>>> from dpeval.measure.one_run import one_run_bound
>>> from dpeval.types import Adjacency, Claim, Trust, Unit
>>> claim = Claim(epsilon=1.0, delta=1e-5, unit=Unit.RECORD, trust=Trust.CENTRAL, adjacency=Adjacency.ADD_OR_REMOVE_ONE,
...               mechanism="none at all", accountant="wishful thinking", scope="everything")
>>> print(judge(claim, one_run_bound(m=100, r=100, v=99, delta=1e-5), MEMBERSHIP_AUDIT).reading)
claim refuted: ε = 1 is claimed, but the audit shows ε > 3.01 with 95 % confidence (99 of 100 guesses right)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from dpeval.measure.detection import POWER, detection_limit
from dpeval.measure.epsilon import EpsilonBound, Method
from dpeval.types import Adjacency, Claim, NoClaim, PrivacyClaim, Trust, Undefined, Unit

Kind: TypeAlias = tuple[str, str, str]

MEMBERSHIP_AUDIT: Kind = (Unit.RECORD.value, Trust.CENTRAL.value, Adjacency.ADD_OR_REMOVE_ONE.value)
"""What guessing who was trained on can test."""

RELEASE_AUDIT: Kind = (Unit.SEQUENCE.value, Trust.LOCAL.value, Adjacency.ANY_TWO_INPUTS.value)
"""What telling two inputs' releases apart can test."""

_HEURISTIC = frozenset({Method.GAUSSIAN, Method.RECORD_RATES})


class MixedClaimsError(ValueError):
    """Claims of different unit, trust model or adjacency were to be compared; their ε mean different things."""


@dataclass(frozen=True)
class Refuted:
    """The lower bound lies above the claim: at its level, the claim is wrong."""

    claimed: Claim
    bound: EpsilonBound

    @property
    def reading(self) -> str:
        """One sentence for the report."""
        return (
            f"claim refuted: ε = {self.claimed.epsilon:.4g} is claimed, but the audit shows "
            f"ε > {_floor(self.bound.epsilon)} with {_confidence(self.bound)} confidence ({_guesses(self.bound)})"
        )


@dataclass(frozen=True)
class Consistent:
    """The experiment could have refuted the claim, and did not. That is not a proof of it.

    ``bound.ceiling`` is the largest claim that it could have refuted at all; ``smallest_refutable`` the smallest true
    ε at which the best possible attack would have refuted this claim with 80 % power (:mod:`dpeval.measure.detection`).
    """

    claimed: Claim
    bound: EpsilonBound
    smallest_refutable: float | None = None

    @property
    def reading(self) -> str:
        """One sentence for the report."""
        able = (
            ""
            if self.smallest_refutable is None or not math.isfinite(self.smallest_refutable)
            else f", and {100 * POWER:.0f} % of such experiments would refute this claim if the true ε were "
            f"{self.smallest_refutable:.2f} and the attack the best possible, planned without error"
        )
        return (
            f"claim not refuted: ε = {self.claimed.epsilon:.4g} is claimed, this attack shows ε > "
            f"{_floor(self.bound.epsilon)} with {_confidence(self.bound)} confidence ({_guesses(self.bound)}); "
            f"the experiment could have shown up to ε > {_floor(self.bound.ceiling)}{able}"
        )


@dataclass(frozen=True)
class Untestable:
    """This experiment cannot speak about the claim, and why."""

    reason: str
    claimed: PrivacyClaim
    bound: EpsilonBound | None = None

    @property
    def reading(self) -> str:
        """One sentence for the report."""
        return f"claim not testable here: {self.reason}"


Verdict: TypeAlias = Refuted | Consistent | Untestable


def judge(claim: PrivacyClaim, bound: EpsilonBound | Undefined, audited: Kind) -> Verdict:
    """Compare a claim with a lower bound on ε from an audit of ``audited`` kind.

    A bound at a larger δ than the claim's still refutes it, since a claim weakens with δ.

    Raises:
        ValueError: the bound rests on a model or heuristic, or stands at a smaller δ than the claim.
    """
    if isinstance(claim, NoClaim):
        return Untestable(claim.reason, claim)
    if isinstance(bound, Undefined):
        return Untestable(bound.reason, claim)
    if claim.kind != audited:
        return Untestable(
            f"the claim is {_said(claim.kind)}, this audit tests claims that are {_said(audited)}", claim, bound
        )
    if bound.method in _HEURISTIC:
        raise ValueError(f"a bound from {bound.method.value} cannot refute a claim; use a one-run or repeated audit")
    if bound.delta < claim.delta:
        raise ValueError(f"expected a bound at δ >= the claim's {claim.delta:g}, got {bound.delta:g}")
    return _compare(claim, bound)


def _compare(claim: Claim, bound: EpsilonBound) -> Verdict:
    if bound.epsilon > claim.epsilon:
        return Refuted(claim, bound)
    if bound.ceiling <= claim.epsilon:
        return Untestable(
            f"had every guess been right, {bound.trials} guesses would show ε > {_floor(bound.ceiling)} at most, "
            f"and ε = {claim.epsilon:.4g} is claimed",
            claim,
            bound,
        )
    return Consistent(claim, bound, detection_limit(bound, claim.epsilon))


def one_kind(claims: Iterable[Claim]) -> Kind | None:
    """The kind that all claims share, ``None`` for no claims.

    Raises:
        MixedClaimsError: the claims differ in kind, so that their ε must not be compared, sorted or share a column.
    """
    kinds = sorted({claim.kind for claim in claims})
    if len(kinds) > 1:
        raise MixedClaimsError(f"claims of different kinds cannot be compared: {'; '.join(map(_said, kinds))}")
    return kinds[0] if kinds else None


def _said(kind: Kind) -> str:
    unit, trust, adjacency = kind
    return f"per {unit}, {trust}, {adjacency}"


def _floor(value: float) -> str:
    # Rounded down: a lower bound must not grow by being printed.
    return f"{math.floor(value * 100) / 100:.2f}" if math.isfinite(value) else f"{value}"


def _confidence(bound: EpsilonBound) -> str:
    return f"{100 * (1 - bound.alpha):.4g} %"


def _guesses(bound: EpsilonBound) -> str:
    return f"{bound.correct} of {bound.guesses} guesses right"
