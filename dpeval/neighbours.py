"""Two inputs that a local claim makes indistinguishable, as far apart in what is released as can be found.

Any such pair may refute a claim; the further apart, the better it can be tested. Where a release can be asked almost
without noise (:meth:`~dpeval.plugin.Release.noisier`), the pair is chosen by that; the pool is public, so that choosing
costs nothing.

>>> replaced("a good day", 1, "bad"), replaced(("a good day", "b"), 0, "the")
('a bad day', ('the good day', 'b'))
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpeval.plugin import Release
from dpeval.types import Claim, Floats, Records, Text, Unit

Pair: TypeAlias = tuple[Text, Text]
Tokens: TypeAlias = Callable[[Records], list[list[int]]]

QUIET = 1e-9
"""Factor on the noise that leaves only the noiseless tensor, to float32 rounding."""
TEXTS, WORDS, PAIRS = 24, 40, 60


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The pair, and the difference of what is released for it but for noise, flattened; ``None`` where not known."""

    one: Text
    other: Text
    difference: Floats | None = None


def hides_length(claim: Claim) -> bool:
    """Whether the claim says nothing to the contrary: that the number of tokens of a text is not covered."""
    return not any("number of tokens" in part for part in claim.excludes)


def neighbours(release: Release, claim: Claim, pool: Records, tap: str, tokens: Tokens | None = None) -> Neighbours:
    """Two texts, or one text and the same with one token replaced; of one length where the claim does not hide it.

    ``tokens`` tells the token ids of texts; without it every word counts as one token.
    """
    if len(pool) < 2:
        raise ValueError(f"expected at least two auxiliary texts to tell apart, got {len(pool)}")
    pairs = list(_token_pairs(pool, tokens) if claim.unit is Unit.TOKEN else _text_pairs(pool, claim, tokens))
    if not pairs:
        what = "differ in one token" if claim.unit is Unit.TOKEN else "have as many tokens as each other"
        raise ValueError(f"expected auxiliary texts of which two {what}, found none among {len(pool)}")
    quiet = release.noisier(QUIET)
    return Neighbours(*pairs[0]) if quiet is None else _furthest(quiet, pairs, tap)


def _furthest(quiet: Release, pairs: Sequence[Pair], tap: str) -> Neighbours:
    texts = list(dict.fromkeys(itertools.chain.from_iterable(pairs)))
    asked = Records(tuple(f"neighbours/{i}" for i in range(len(texts))), tuple(texts), (0,) * len(texts))
    answer = quiet.embed(asked, tap)
    rows = {text: answer.rows(i).astype(np.float64) for i, text in enumerate(texts)}
    differing = next((pair for pair in pairs if rows[pair[0]].shape != rows[pair[1]].shape), None)
    if differing is not None:
        return Neighbours(*differing)
    one, other = max(pairs, key=lambda pair: float(np.linalg.norm(rows[pair[0]] - rows[pair[1]])))
    return Neighbours(one, other, (rows[one] - rows[other]).ravel())


def _text_pairs(pool: Records, claim: Claim, tokens: Tokens | None) -> Iterator[Pair]:
    """A short and a long text first, then all pairs of a few texts spread over the lengths."""
    texts = sorted(set(pool.texts), key=lambda t: (len(" ".join(t) if isinstance(t, tuple) else t), str(t)))
    if hides_length(claim) and len(texts) > 1:
        yield texts[len(texts) // 10], texts[-max(1, len(texts) // 10)]
    few = [texts[i] for i in np.unique(np.linspace(0, len(texts) - 1, TEXTS).astype(int))]
    if hides_length(claim) or tokens is None:
        yield from itertools.combinations(few, 2)
        return
    length = dict(zip(texts, (len(ids) for ids in tokens(_records(texts))), strict=True))
    same = [list(group) for _, group in itertools.groupby(sorted(texts, key=lambda t: length[t]), lambda t: length[t])]
    yield from itertools.islice(
        itertools.chain.from_iterable(itertools.combinations(group[:TEXTS], 2) for group in same[::-1]), 4 * PAIRS
    )


def _token_pairs(pool: Records, tokens: Tokens | None) -> Iterator[Pair]:
    """Texts with one word replaced by a word of the pool, where that changes one token and no other."""
    texts = sorted(set(pool.texts), key=str)[:TEXTS]
    words = sorted({word for text in texts for word in _first_part(text).split()})
    step = max(1, len(words) // WORDS)
    tried = [
        (text, replaced(text, place, word))
        for word in words[::step]
        for text in texts[:6]
        for place in range(min(2, len(_first_part(text).split())))
    ]
    tried = [pair for pair in tried if pair[0] != pair[1]]
    if tokens is None:
        yield from tried[:PAIRS]
        return
    ids = tokens(_records([text for pair in tried for text in pair]))
    good = [pair for pair, a, b in zip(tried, ids[::2], ids[1::2], strict=True) if _one_apart(a, b)]
    yield from good[:PAIRS]


def _one_apart(one: Sequence[int], other: Sequence[int]) -> bool:
    return len(one) == len(other) and sum(a != b for a, b in zip(one, other, strict=True)) == 1


def replaced(text: Text, place: int, word: str) -> Text:
    """``text`` with the word at ``place`` of its first part replaced."""
    words = _first_part(text).split()
    changed = " ".join([*words[:place], word, *words[place + 1 :]])
    return (changed, text[1]) if isinstance(text, tuple) else changed


def _first_part(text: Text) -> str:
    return text[0] if isinstance(text, tuple) else text


def _records(texts: Sequence[Text]) -> Records:
    return Records(tuple(map(str, range(len(texts)))), tuple(texts), (0,) * len(texts))
