"""Which token ids are content words.

>>> vocabulary = ["[CLS]", "the", "film", "##s", "Ġloved", "▁and", "!"]
>>> sorted(content_tokens(vocabulary, specials={0}))
[2, 4]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

_MARKS = ("##", "Ġ", "▁")


def content_tokens(vocabulary: Sequence[str], specials: Collection[int]) -> frozenset[int]:
    """Ids whose token, without word-piece marks, is a word of two letters or more and no English stop word.

    ``vocabulary[i]`` is the token of id i, of any tokenizer; ``specials`` never count. Pieces of words count by their
    own letters. Stop words are scikit-learn's list.
    """
    barred = set(specials)
    return frozenset(i for i, token in enumerate(vocabulary) if i not in barred and _is_content(token))


def _is_content(token: str) -> bool:
    bare = token
    for mark in _MARKS:
        bare = bare.removeprefix(mark)
    bare = bare.casefold()
    return len(bare) > 1 and any(c.isalpha() for c in bare) and bare not in ENGLISH_STOP_WORDS
