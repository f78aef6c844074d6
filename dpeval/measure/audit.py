"""A lower bound on ε from one training run: guesses planned on one half of the records, counted on the other.

>>> import numpy as np
>>> from dpeval.measure.membership import MembershipRun
>>> rng = np.random.default_rng(0)
>>> coins = rng.random(600) < 0.5
>>> run = MembershipRun(tuple(f"r{i}" for i in range(600)), coins + 0.1 * rng.normal(size=600), coins)
>>> audit_one_run([run], independent_coins=True, delta=1e-5).epsilon > 4
True
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpeval.measure.epsilon import EpsilonBound, upper_rate
from dpeval.measure.halves import calibration_half
from dpeval.measure.membership import MembershipRun
from dpeval.measure.one_run import one_run_bound
from dpeval.types import Floats, Undefined

_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
"""Shares of the records that may be guessed "member" (from the top) and "non-member" (from the bottom)."""


_AUDITED = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Shares of the records whose coins are audited."""


_PARTS = ((0.0, 0.5), (0.5, 1.0))
"""Where :func:`_place` puts the records of each part that plans are tried on."""


class DesignError(ValueError):
    """The records were not included by independent coins, which the one-run bound needs."""


@dataclass(frozen=True, eq=False)
class _Coins:
    """Membership from the most to the least member-like record; ties ordered by a hash, never by position.

    ``chance`` is the share of members among the records of the same score: what a guess inside a tie is worth, where
    the order in the tie is luck.
    """

    is_member: NDArray[np.bool_]
    chance: Floats

    def guess(self, plan: _Plan) -> _Count:
        return self._guess(plan, self.is_member.astype(np.float64))

    def expected(self, plan: _Plan) -> _Count:
        return self._guess(plan, self.chance)

    def _guess(self, plan: _Plan, member: Floats) -> _Count:
        n = len(member)
        top = round(plan.top * n)
        bottom = min(round(plan.bottom * n), n - top)
        # Rounded down, but not for what adding up has lost.
        right = math.floor(float(member[:top].sum()) + float((1 - member[n - bottom :]).sum()) + 1e-9)
        return _Count(right, top + bottom)


@dataclass(frozen=True)
class _Plan:
    top: float
    bottom: float


@dataclass(frozen=True)
class _Count:
    right: int
    guesses: int


def audit_one_run(
    runs: Sequence[MembershipRun], *, independent_coins: bool, delta: float, alpha: float = 0.05, salt: int = 0
) -> EpsilonBound | Undefined:
    """The one-run bound, coins of all runs together: each run draws its own, so they are one larger experiment.

    How many of the most and the least member-like records are guessed is planned on the calibration half. Records of
    one group (near-duplicates, a user's texts) share a coin and take no part: the claim is for one record.

    Raises:
        DesignError: ``independent_coins`` is false; a fixed-size split makes the coins dependent.
    """
    if not independent_coins:
        raise DesignError(
            "the one-run bound needs each record included by its own fair coin; this split was made another way. "
            "Split with independent coins, or use the two-rate bound over repeated trainings"
        )
    # In parts: what the share of members happens to be differs between them, as it will on the other half.
    planning = [coins for part in _PARTS for coins in _coins(runs, salt, True, part)]
    plan = _best_plan(planning, alpha)
    share = _audited_share(planning, plan, delta, alpha)
    coins = _coins(runs, salt, False, (0.0, share))
    m = sum(len(each.is_member) for each in coins)
    if m == 0 or not any(len(each.is_member) for each in planning):
        return Undefined("no record that shares its coin with no other is left to audit")
    counts = [each.guess(plan) for each in coins]
    right, guesses = sum(c.right for c in counts), sum(c.guesses for c in counts)
    found = one_run_bound(m=m, r=guesses, v=right, delta=delta, alpha=alpha)
    said = (("share_called_member", plan.top), ("share_called_nonmember", plan.bottom), ("share_audited", share))
    return replace(found, details=said)


def _audited_share(planning: Sequence[_Coins], plan: _Plan, delta: float, alpha: float) -> float:
    """How many of the records to audit: δ costs 2 m δ, so where it is large fewer audited coins show more.

    Those left out count as fixed data. Every share is judged at the accuracy of the whole calibration half: what a part
    of it happens to give is luck.
    """
    counts = [each.expected(plan) for each in planning]
    m, right = sum(len(each.is_member) for each in planning), sum(c.right for c in counts)
    guesses = sum(c.guesses for c in counts)

    def worth(share: float) -> tuple[float, float]:
        r = round(share * guesses)
        bound = one_run_bound(m=max(r, round(share * m)), r=r, v=min(r, int(share * right)), delta=delta, alpha=alpha)
        return bound.epsilon, bound.ceiling

    return max(_AUDITED, key=worth)


def _coins(
    runs: Sequence[MembershipRun], salt: int, calibration: bool, places: tuple[float, float]
) -> tuple[_Coins, ...]:
    """The records of one half at these places, for each run: those that share their coin with no other."""
    found = []
    for run in runs:
        sizes = Counter(run.units)
        audited = np.array([sizes[unit] == 1 and places[0] <= _place(salt, unit) < places[1] for unit in run.units])
        found.append(_ordered(run, audited & (calibration_half(run.units, salt) == calibration), salt))
    return tuple(found)


def _place(salt: int, unit: str) -> float:
    """A number in [0, 1) that depends on the unit alone, so that which records are audited says nothing of coins."""
    digest = hashlib.sha256(f"{salt}\x1faudited\x1f{unit}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def _ordered(run: MembershipRun, keep: NDArray[np.bool_], salt: int) -> _Coins:
    at = np.flatnonzero(keep)
    tie = [hashlib.sha256(f"{salt}\x1ftie\x1f{run.ids[i]}".encode()).hexdigest() for i in at]
    order = sorted(range(len(at)), key=lambda k: (-float(run.scores[at[k]]), tie[k]))
    if not order:
        return _Coins(np.zeros(0, dtype=np.bool_), np.zeros(0))
    member = run.is_member[at[order]]
    _, places, sizes = np.unique(run.scores[at[order]], return_inverse=True, return_counts=True)
    return _Coins(member, (np.bincount(places, weights=member) / sizes)[places])


def _best_plan(coins: Sequence[_Coins], alpha: float) -> _Plan:
    """By the accuracy that each plan promises, at a level divided by their number: the best of many is partly luck."""
    plans = [_Plan(top, bottom) for top, bottom in product(_SHARES, _SHARES) if top + bottom > 0]

    def promise(plan: _Plan) -> float:
        counts = [c.expected(plan) for c in coins]
        guesses, right = sum(c.guesses for c in counts), sum(c.right for c in counts)
        return 1 - upper_rate(guesses - right, guesses, alpha / len(plans)) if guesses else 0.0

    # The first of equals: where nothing promises anything, guess everything.
    return max([_Plan(0.5, 0.5), *plans], key=promise)
