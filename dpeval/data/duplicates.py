"""Finds groups of texts that are equal or nearly so; a split that divides a group lets an attack win by copying.

Texts are compared by their words: without case, punctuation and spacing. Equal texts form a group. So do texts whose
*shingles* (words and pairs of neighbouring words) have a Jaccard similarity of at least the threshold, and whatever is
linked through such pairs. The search is exact: it overlooks no pair. It compares only texts that share one of their
rarest shingles, which pairs above the threshold always do (prefix filtering: Chaudhuri, Ganti and Kaushik 2006;
Bayardo, Ma and Srikant 2007). Texts from one template stay fast, where buckets of MinHash signatures fill up.

>>> group(["A fine film!", "a fine  film", "a fine film indeed"], threshold=None)
Groups(equal=(0, 0, 1), near=(0, 0, 1))
>>> group(["one two three four five six seven", "one two three four five six seven eight"], threshold=0.8)
Groups(equal=(0, 1), near=(0, 0))
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from dpeval.types import Text

# Scripts that put no space between words are compared letter by letter.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W{_UNSPACED}]+")


def words(text: Text) -> tuple[str, ...]:
    """What is compared: the words of a text in order; its letters where it has no words, as in ``":-)"``.

    The two parts of a pair are kept apart by a mark, so ``("a", "b c")`` differs from ``("a b", "c")``.
    """
    if isinstance(text, tuple):
        return (*words(text[0]), "\x1e", *words(text[1]))
    plain = unicodedata.normalize("NFKC", text).casefold()
    return tuple(_WORD.findall(plain)) or tuple("".join(plain.split()))


class Groups(NamedTuple):
    """A number for each text, given in order of first appearance: the same number, the same group."""

    equal: tuple[int, ...]
    """Texts with the same words."""
    near: tuple[int, ...]
    """Texts that are linked through near-duplicates; these groups are unions of the equal ones."""


def group(texts: Sequence[Text], *, threshold: float | None) -> Groups:
    """The groups of ``texts``; near-duplicates have at least the Jaccard similarity ``threshold`` (None: equal)."""
    distinct: dict[tuple[str, ...], int] = {}
    equal = tuple(distinct.setdefault(words(text), len(distinct)) for text in texts)
    if threshold is None:
        return Groups(equal, equal)
    linked = link([shingles(key) for key in distinct], threshold)
    numbers: dict[int, int] = {}
    return Groups(equal, tuple(numbers.setdefault(linked[i], len(numbers)) for i in equal))


def shingles(key: Sequence[str]) -> frozenset[str]:
    """The words of a text and its pairs of neighbouring words."""
    return frozenset((*key, *(f"{a} {b}" for a, b in pairwise(key))))


def jaccard(a: frozenset[int] | frozenset[str], b: frozenset[int] | frozenset[str]) -> float:
    """The size of the intersection over the size of the union; two empty sets are equal."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if a or b else 1.0


def link(sets: Sequence[frozenset[str]], threshold: float) -> list[int]:
    """A label for each set, the same for sets that a chain of pairs with a similarity >= ``threshold`` connects."""
    ranked = _by_rarity(sets)
    labels = list(range(len(ranked)))
    inside = {i: [i] for i in labels}
    holders: defaultdict[int, list[int]] = defaultdict(list)
    for i in sorted(labels, key=lambda i: len(ranked[i])):
        prefix = sorted(ranked[i])[: prefix_length(len(ranked[i]), threshold)]
        for j in {j for shingle in prefix for j in holders[shingle]}:
            if labels[j] != labels[i] and jaccard(ranked[i], ranked[j]) >= threshold:
                _merge(labels, inside, labels[j], labels[i])
        for shingle in prefix:
            holders[shingle].append(i)
    return labels


def prefix_length(size: int, threshold: float) -> int:
    """How many of its rarest shingles a set of ``size`` has to be looked up by.

    A partner shares at least ``threshold * size`` of the shingles, so it lacks at most
    ``size - ceil(threshold * size)``, and one more than that holds a shared one (Bayardo, Ma and Srikant 2007,
    section 4). Both sets have to be sorted in the same order.
    """
    # The margin keeps a rounding error in the product from shortening the prefix by one.
    return size - math.ceil(threshold * size - 1e-9) + 1


def _by_rarity(sets: Sequence[frozenset[str]]) -> list[frozenset[int]]:
    """The sets with each shingle as its rank, the rarest first; ties in alphabetical order."""
    counts = Counter(shingle for one in sets for shingle in one)
    rank = {shingle: i for i, shingle in enumerate(sorted(counts, key=lambda shingle: (counts[shingle], shingle)))}
    return [frozenset(rank[shingle] for shingle in one) for one in sets]


def _merge(labels: list[int], inside: dict[int, list[int]], one: int, other: int) -> None:
    """Give the members of the smaller of two groups the label of the larger."""
    small, large = sorted((one, other), key=lambda label: len(inside[label]))
    moved = inside.pop(small)
    for i in moved:
        labels[i] = large
    inside[large] += moved
