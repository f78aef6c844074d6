"""Finds groups of texts that are equal or nearly so; a split that divides a group lets an attack win by copying.

Texts are compared by their words: without case, punctuation and spacing. Equal texts form a group. So do texts whose
*shingles* (words and pairs of neighbouring words) have a Jaccard similarity of at least the threshold, and whatever is
linked through such pairs. Candidate pairs come from banded MinHash (Broder 1997; Leskovec, Rajaraman and Ullman,
*Mining of Massive Datasets*, section 3.4), which overlooks a pair at the threshold with a probability below 1e-4; each
candidate is then compared exactly, so no pair below the threshold is ever linked.

>>> group(["A fine film!", "a fine  film", "a fine film indeed"], threshold=None)
Groups(equal=(0, 0, 1), near=(0, 0, 1))
>>> group(["one two three four five six seven", "one two three four five six seven eight"], threshold=0.8)
Groups(equal=(0, 1), near=(0, 0))
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from datasketch import MinHash, MinHashLSH
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from dpeval.types import Ints, Text

PERMUTATIONS = 128
OVERLOOKED = 1e-4
"""The largest probability of overlooking a pair whose similarity is exactly the threshold."""

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
    pairs = near_pairs([shingles(key) for key in distinct], threshold)
    merged = _components(len(distinct), pairs)
    numbers: dict[int, int] = {}
    return Groups(equal, tuple(numbers.setdefault(int(merged[i]), len(numbers)) for i in equal))


def shingles(key: Sequence[str]) -> frozenset[str]:
    """The words of a text and its pairs of neighbouring words."""
    return frozenset((*key, *(f"{a} {b}" for a, b in pairwise(key))))


def near_pairs(sets: Sequence[frozenset[str]], threshold: float) -> list[tuple[int, int]]:
    """Pairs ``(i, j)``, i > j, whose Jaccard similarity is at least ``threshold``."""
    index = MinHashLSH(num_perm=PERMUTATIONS, params=bands(threshold))
    pairs: list[tuple[int, int]] = []
    for i, sketch in enumerate(_sketches(sets)):
        pairs += ((i, j) for j in index.query(sketch) if jaccard(sets[i], sets[j]) >= threshold)
        index.insert(i, sketch, check_duplication=False)
    return pairs


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """The size of the intersection over the size of the union; two empty sets are equal."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if a or b else 1.0


def bands(threshold: float) -> tuple[int, int]:
    """The number of bands and of rows in each: as many rows as keep ``(1 - threshold**rows)**bands`` small enough."""
    rows = max(
        (r for r in range(1, 17) if (1 - threshold**r) ** (PERMUTATIONS // r) <= OVERLOOKED),
        default=1,
    )
    return PERMUTATIONS // rows, rows


def _sketches(sets: Iterable[frozenset[str]]) -> Iterable[Any]:
    hashed = ([zlib.crc32(shingle.encode("utf-8", "surrogatepass")) for shingle in shingle_set] for shingle_set in sets)
    sketches: Iterable[Any] = MinHash.generator(hashed, num_perm=PERMUTATIONS, seed=1, hashfunc=int)
    return sketches


def _components(n: int, pairs: Sequence[tuple[int, int]]) -> Ints:
    """The connected component of each of n nodes, shape ``(n,)``."""
    ends = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    graph = coo_array((np.ones(len(ends), dtype=np.int8), (ends[:, 0], ends[:, 1])), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)
