"""The best guess of a text's tokens without its embedding: what a language's habits give away for nothing.

An adversary sees how many rows were released, and nothing else; it knows texts of the same kind.

>>> scope = Scope(never=frozenset({0}))
>>> guesser = fit_guesser([(-1, 5, 6, -1), (-1, 5, 7, -1), (-1, 5, 6, -1)], scope)
>>> guesser.by_position(4), guesser.by_bag(4, share=0.5)
((-1, 5, 6, -1), (5, 6))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from dpeval.measure.recovery import NO_ANSWER, Scope, Tally, count_bag, count_positions

Slot: TypeAlias = tuple[int, int]
"""A token and which of its occurrences in the text is meant: the first is 0."""

_SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 0.25, 0.5, 0.75, 1.0)
"""Small ones too: where every text is released with the same number of rows, most rows hold no word."""


@dataclass(frozen=True)
class Guesser:
    """Fitted on auxiliary texts: the commonest token of each row, and slots by how many texts hold them."""

    scope: Scope
    rows: tuple[int, ...]
    common: tuple[Slot, ...]

    def by_position(self, length: int) -> tuple[int, ...]:
        """The commonest token of each row; no answer beyond the longest text seen."""
        return self.rows[:length] + (NO_ANSWER,) * (length - len(self.rows))

    def commonest(self, k: int) -> frozenset[int]:
        """The ``k`` tokens that most texts hold."""
        return frozenset([token for token, occurrence in self.common if occurrence == 0][:k])

    def by_bag(self, length: int, share: float) -> tuple[int, ...]:
        """The commonest tokens, ``share * length`` of them."""
        return tuple(token for token, _ in self.common[: _said(length, share)])

    @cached_property
    def rank(self) -> Mapping[Slot, int]:
        """The place of each slot in ``common``."""
        return {slot: place for place, slot in enumerate(self.common)}


def _said(length: int, share: float) -> int:
    return max(1, round(share * length))


def _slots(tokens: Sequence[int]) -> Iterator[Slot]:
    seen = Counter[int]()
    for token in tokens:
        yield token, seen[token]
        seen[token] += 1


def fit_guesser(auxiliary: Sequence[Sequence[int]], scope: Scope) -> Guesser:
    """Count tokens of texts of the same population, ``-1`` on rows that do not count."""
    columns = [Counter[int]() for _ in range(max(map(len, auxiliary), default=0))]
    slots = Counter[Slot]()
    for text in auxiliary:
        for column, token in zip(columns, text, strict=False):
            column[token if scope.counts(token) else NO_ANSWER] += 1
        slots.update(_slots(scope.kept(text)))
    ranked = sorted(slots, key=lambda slot: (-slots[slot], slot))
    return Guesser(scope, tuple(map(_commonest, columns)), tuple(ranked))


def _commonest(column: Counter[int]) -> int:
    return min(column, key=lambda token: (-column[token], token))


@dataclass(frozen=True)
class Strategy:
    """One way of answering with a :class:`Guesser`: row by row, or (``share``) the commonest tokens as a bag."""

    share: float | None


STRATEGIES = (Strategy(None), *map(Strategy, _SHARES))


def bag_tallies(guesser: Guesser, texts: Sequence[Sequence[int]]) -> Mapping[Strategy, list[Tally]]:
    """What each strategy is worth on each text, compared as bags."""
    found: dict[Strategy, list[Tally]] = {strategy: [] for strategy in STRATEGIES}
    for text in texts:
        found[STRATEGIES[0]].append(count_bag(guesser.by_position(len(text)), text, guesser.scope))
        # A bag of the k commonest slots holds those of the text whose rank is below k.
        unknown = len(guesser.common)
        ranks = [guesser.rank.get(slot, unknown) for slot in _slots(guesser.scope.kept(text))]
        for strategy in STRATEGIES[1:]:
            said = min(_said(len(text), strategy.share or 0.0), unknown)
            found[strategy].append(Tally(sum(rank < said for rank in ranks), said, len(ranks)))
    return found


def position_tallies(guesser: Guesser, texts: Sequence[Sequence[int]]) -> list[Tally]:
    """What the commonest token of each row is worth on each text, compared row by row."""
    return [count_positions(guesser.by_position(len(text)), text, guesser.scope) for text in texts]


def ranked_tallies(guesser: Guesser, texts: Sequence[Sequence[int]], k: int) -> list[Tally]:
    """What the ``k`` commonest tokens, named for every row, are worth on each text."""
    common, found = guesser.commonest(k), []
    for text in texts:
        true = guesser.scope.kept(text)
        found.append(Tally(sum(token in common for token in true), len(true), len(true)))
    return found


def best_strategies(tallies: Mapping[Strategy, Sequence[Tally]], metrics: Sequence[str]) -> Mapping[str, Strategy]:
    """For each metric (recall, precision, f1) the strategy with the best value; the first of equals."""
    return {metric: max(STRATEGIES, key=lambda s: _value(tallies[s], metric)) for metric in metrics}


def _value(tallies: Sequence[Tally], metric: str) -> float:
    right, answered, asked = (sum(getattr(t, k) for t in tallies) for k in ("right", "answered", "asked"))
    over = {"recall": asked, "precision": answered, "f1": (answered + asked) / 2}[metric]
    return right / over if over else 0.0
