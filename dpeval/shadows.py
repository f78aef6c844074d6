"""Shadow releases: what an adversary trains itself, with the target's own defense, to learn how such models answer.

Shadow ``i`` of a defense is trained on what a matrix with another seed would have trained on: drawn from the same pool
by the same law, one fair coin for each near-duplicate group. Shadows come in pairs; the second is trained on just those
candidates that the first was not, so that no record is far more often in than out. A shadow depends on its number, the
pool, the model and the defense, and on nothing else: more shadows extend the pool of them, other seeds of the matrix
and every attack share them. The shadows of a control are trained on halves of the control's own few candidates.

>>> from dpeval.types import Records
>>> some = Records(tuple("abcdef"), tuple("abcdef"), (0, 1) * 3)
>>> law = halves_of(Split(some.take([0, 1, 2]), some.take([3, 4, 5]), some.take([0]), some.take([0])))
>>> first, second = (set(shadow_split(law, number).members.ids) for number in (0, 1))
>>> first | second == set("abcdef") and not first & second
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpeval import seeds
from dpeval.plugin import Release, Shadow
from dpeval.types import Records, Split
from dpeval.views import GrantedPredictions, Memo

Law = Callable[[int], Split]
"""The split of a pair of shadows, by the number of the pair."""

CONTROL_SHADOWS = 4
"""What a control has at most: it asks whether an attack works at all, on a model that has memorised its members."""
SMOKE_SHADOWS = 4
"""What a run with ``--limit`` has at most."""
_NOTHING = Records((), (), ())


def shadow_seed(number: int) -> int:
    """The training seed of a shadow: below zero, where no seed of a matrix lies."""
    return -(number + 1)


def pair_seed(pair: int) -> int:
    """What the split of a pair of shadows is drawn from."""
    return seeds.derive(0, "shadow", pair)


def shadow_split(law: Law, number: int) -> Split:
    """What shadow ``number`` is trained on, and nothing else."""
    pair, second = divmod(number, 2)
    parts = law(pair)
    members, planted = (parts.nonmembers, parts.withheld) if second else (parts.members, parts.planted)
    return Split(members, _NOTHING, _NOTHING, _NOTHING, parts.independent_coins, planted=planted)


def halves_of(parts: Split) -> Law:
    """The law of the controls: a fair coin for each group of these candidates, and for each canary."""

    def draw(pair: int) -> Split:
        members, nonmembers = _halves(parts.members + parts.nonmembers, pair, "candidates")
        planted, withheld = _halves(parts.planted + parts.withheld, pair, "canaries")
        return Split(members, nonmembers, _NOTHING, _NOTHING, planted=planted, withheld=withheld)

    return draw


def _halves(records: Records, pair: int, what: str) -> tuple[Records, Records]:
    groups = sorted(set(records.groups))
    coins = seeds.rng(pair_seed(pair), what).integers(2, size=len(groups))
    heads = {group for group, coin in zip(groups, coins, strict=True) if coin}
    inside = [i for i, group in enumerate(records.groups) if group in heads]
    outside = [i for i, group in enumerate(records.groups) if group not in heads]
    if not inside or not outside:  # a handful of records: the model still needs something to train on
        inside, outside = list(range(0, len(records), 2)), list(range(1, len(records), 2))
    return records.take(inside), records.take(outside)


class Shelf:
    """The shadow releases of one job, opened one at a time; their answers are kept for every attack that asks.

    ``find(i)`` makes sure that shadow ``i`` exists and returns how to open it; it raises what keeps it from existing.
    """

    def __init__(
        self, trained: Sequence[Records], find: Callable[[int], Callable[[], Release]], pools: Sequence[Records] = ()
    ) -> None:
        self._trained, self._find, self._pools = trained, find, pools
        self._shadows: dict[int, Shadow] = {}
        self._memos: list[Memo] = []
        self._open: tuple[int, Release] | None = None

    def shadows(self, count: int, declared: int) -> tuple[Shadow, ...]:
        """The first ``count`` shadows, or as many as there are; see :meth:`dpeval.plugin.Context.shadows`."""
        if not 0 <= count <= declared:
            raise ValueError(
                f"asked for {count} shadow releases, but the attack declares {declared}; give it `shadows` of that many"
            )
        return tuple(self._shadow(i) for i in range(min(count, len(self._trained))))

    def forget(self) -> None:
        """Drop what is held."""
        self._open = None
        for memo in self._memos:
            memo.forget()

    def _shadow(self, i: int) -> Shadow:
        if i not in self._shadows:
            opener = self._find(i)
            memo = Memo(lambda: self._opened(i, opener), self._pools)
            self._memos.append(memo)
            self._shadows[i] = Shadow(frozenset(self._trained[i].ids), GrantedPredictions(memo.predict))
        return self._shadows[i]

    def _opened(self, i: int, opener: Callable[[], Release]) -> Release:
        if self._open is None or self._open[0] != i:
            self._open = None  # one model at a time in memory: let go of the last before the next is loaded
            self._open = (i, opener())
        return self._open[1]
