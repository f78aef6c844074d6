"""Counting recovered tokens of one record: what was asked, what was answered, what was right.

>>> scope = Scope(never=frozenset({0, 1}))
>>> count_bag((1, 7, 7, 0), (-1, 7, 9, -1), scope)
Tally(right=1, answered=2, asked=2)
>>> count_positions((7, 9, 9, 0), (-1, 7, 9, -1), scope)
Tally(right=1, answered=3, asked=2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpeval.types import Ints

NO_ANSWER = -1
"""In guesses: no answer. In the truth: a row that does not count (special token or padding)."""


@dataclass(frozen=True)
class Scope:
    """Which tokens count: never the ``never`` ids, and if ``only`` is given no others than those."""

    never: frozenset[int]
    only: frozenset[int] | None = None

    def counts(self, token: int) -> bool:
        """Whether this token counts, as a truth or as an answer."""
        return token != NO_ANSWER and token not in self.never and (self.only is None or token in self.only)

    def kept(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that count, in order."""
        never, only = self.never, self.only
        if only is None:
            return [t for t in tokens if t != NO_ANSWER and t not in never]
        return [t for t in tokens if t in only and t != NO_ANSWER and t not in never]


@dataclass(frozen=True)
class Tally:
    """Right answers, answers given and tokens to be found, of one record."""

    right: int
    answered: int
    asked: int


def count_bag(guess: Sequence[int], truth: Sequence[int], scope: Scope) -> Tally:
    """Multisets: order and position do not matter, how often a token was said does."""
    said, true = scope.kept(guess), scope.kept(truth)
    return Tally((Counter(said) & Counter(true)).total(), len(said), len(true))


def count_ranked(table: Ints, truth: Sequence[int], k: int, scope: Scope) -> Tally:
    """Row by row: right where the true token is among the first ``k`` of ``table`` (rows, k or more), best first."""
    rows = [i for i, token in enumerate(truth) if scope.counts(token)]
    right = sum(bool(np.any(table[i, :k] == truth[i])) for i in rows)
    return Tally(right, len(rows), len(rows))


def count_positions(guess: Sequence[int], truth: Sequence[int], scope: Scope) -> Tally:
    """Row by row; an answer on a row that does not count is a false one."""
    right = sum(g == t and scope.counts(t) for g, t in zip(guess, truth, strict=True))
    return Tally(right, len(scope.kept(guess)), len(scope.kept(truth)))
