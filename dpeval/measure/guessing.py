"""The best guess of a text's tokens without its embedding: what a language's habits give away for nothing.

An adversary sees how many rows were released, and nothing else; it knows texts of the same kind.

>>> scope = Scope(never=frozenset({0}))
>>> guesser = fit_guesser([(-1, 5, 6, -1), (-1, 5, 7, -1), (-1, 5, 6, -1)], scope)
>>> guesser.by_position(4), guesser.by_bag(4, share=0.5)
((-1, 5, 6, -1), (5, 6))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dpeval.measure.recovery import NO_ANSWER, Scope, Tally, count_bag, count_positions

_SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Guesser:
    """Fixed answers fitted on auxiliary texts: the commonest token of each row, and tokens by how many texts hold them.

    A token that often occurs twice stands twice in ``common``, at the rank of its second occurrence.
    """

    rows: tuple[int, ...]
    common: tuple[int, ...]

    def by_position(self, length: int) -> tuple[int, ...]:
        """The commonest token of each row; no answer beyond the longest text seen."""
        return self.rows[:length] + (NO_ANSWER,) * (length - len(self.rows))

    def by_bag(self, length: int, share: float) -> tuple[int, ...]:
        """The commonest tokens, ``share * length`` of them."""
        return self.common[: max(1, round(share * length))]


def fit_guesser(auxiliary: Sequence[Sequence[int]], scope: Scope) -> Guesser:
    """Count tokens of texts of the same population, ``-1`` on rows that do not count."""
    width = max((len(text) for text in auxiliary), default=0)
    columns = [Counter[int]() for _ in range(width)]
    slots = Counter[tuple[int, int]]()
    for text in auxiliary:
        for column, token in zip(columns, text, strict=False):
            column[token if scope.counts(token) else NO_ANSWER] += 1
        for token, times in Counter(t for t in text if scope.counts(t)).items():
            slots.update((token, copy) for copy in range(times))
    ranked = sorted(slots, key=lambda slot: (-slots[slot], slot))
    return Guesser(tuple(_commonest(column) for column in columns), tuple(token for token, _ in ranked))


def _commonest(column: Counter[int]) -> int:
    return min(column, key=lambda token: (-column[token], token))


@dataclass(frozen=True)
class Strategy:
    """One way of answering with a :class:`Guesser`; ``share`` None answers row by row."""

    share: float | None

    def answer(self, guesser: Guesser, length: int) -> tuple[int, ...]:
        """The tokens said for a text of ``length`` rows."""
        return guesser.by_position(length) if self.share is None else guesser.by_bag(length, self.share)


STRATEGIES = (Strategy(None), *map(Strategy, _SHARES))


def best_strategy(guesser: Guesser, texts: Sequence[Sequence[int]], scope: Scope, metric: str) -> Strategy:
    """The strategy with the best value of ``metric`` (recall, precision or f1) on auxiliary texts."""
    return max(STRATEGIES, key=lambda s: _value(s, guesser, texts, scope, metric))


def _value(strategy: Strategy, guesser: Guesser, texts: Sequence[Sequence[int]], scope: Scope, metric: str) -> float:
    tallies = [count_bag(strategy.answer(guesser, len(text)), text, scope) for text in texts]
    right, answered, asked = (sum(getattr(t, k) for t in tallies) for k in ("right", "answered", "asked"))
    over = {"recall": asked, "precision": answered, "f1": (answered + asked) / 2}[metric]
    return right / over if over else 0.0


def guess_tallies(
    guesser: Guesser, strategy: Strategy, texts: Sequence[Sequence[int]], scope: Scope, *, positions: bool
) -> list[Tally]:
    """What the guess is worth on each text, counted as bags or row by row."""
    if positions:
        return [count_positions(guesser.by_position(len(text)), text, scope) for text in texts]
    return [count_bag(strategy.answer(guesser, len(text)), text, scope) for text in texts]
