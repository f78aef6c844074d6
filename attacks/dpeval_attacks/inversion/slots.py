"""A bag of tokens as slots: the first "the" of a text, the second "the", and so on; each is there or not.

A bag answers the slots that are likelier than a threshold, which is chosen for the best F1 on held-out texts. Where
nothing is known of a text but that it is a text, these are the commonest slots: what anybody would guess.

>>> found = occupied(np.array([1.9, 0.1]), np.array([7, 8]), most=3)
>>> [(slot, round(p, 2)) for slot, p in found]
[((7, 0), 0.85), ((7, 1), 0.57), ((7, 2), 0.3), ((8, 0), 0.1)]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from scipy.stats import poisson

from dpeval.types import Floats, Ints

Slot: TypeAlias = tuple[int, int]
"""A token, and which of its occurrences in the text is meant; the first is 0."""
Occupied: TypeAlias = Sequence[tuple[Slot, float]]
"""Slots with the probability that a text has them."""
THRESHOLDS = (0.02, 0.05, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6)
_LEAST = 0.02


def slots_of(tokens: Iterable[int]) -> list[Slot]:
    """The slots that a text has."""
    seen, found = Counter[int](), []
    for token in tokens:
        found.append((token, seen[token]))
        seen[token] += 1
    return found


def occupied(expected: Floats, tokens: Ints, *, most: int = 12) -> Occupied:
    """Slots of tokens of which a text holds ``expected`` many on average, as if counts were Poisson's."""
    likely = np.flatnonzero(expected > _LEAST / 2)
    deep = range(most)
    table = np.asarray(poisson.sf(np.arange(most)[None, :], expected[likely][:, None]))
    pairs = [((int(tokens[i]), j), float(row[j])) for i, row in zip(likely, table, strict=True) for j in deep]
    return sorted((p for p in pairs if p[1] > _LEAST / 2), key=lambda pair: -pair[1])


def answer(found: Occupied, threshold: float) -> tuple[int, ...]:
    """The tokens of the slots above the threshold, likeliest first; of the likeliest alone where none is."""
    said = [slot[0] for slot, p in found if p > threshold]
    return tuple(said) if said or not found else (found[0][0][0],)


def best_threshold(found: Sequence[Occupied], truth: Sequence[Sequence[int]]) -> float:
    """The threshold of the best F1 over these texts."""

    def f1(threshold: float) -> float:
        right = said = asked = 0
        for slots, tokens in zip(found, truth, strict=True):
            bag = answer(slots, threshold)
            right += (Counter(bag) & Counter(tokens)).total()
            said, asked = said + len(bag), asked + len(tokens)
        return 2 * right / max(1, said + asked)

    return max(THRESHOLDS, key=f1)
