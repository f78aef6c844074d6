"""Token ids of a template's pieces and of the words that stand for classes, as they read in the middle of a text.

>>> import tempfile
>>> from pathlib import Path
>>> from dpeval.tiny import tiny_checkpoint
>>> tokenizer = tiny_checkpoint(Path(tempfile.mkdtemp())).tokenizer
>>> tokenizer.convert_ids_to_tokens(inner_ids(tokenizer, " Film and face", follows=True))
['film', 'and', 'face']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpeval.errors import ModelError

_BEFORE = "a"
"""A word to stand before a piece: tokenizers treat the first word of a text in ways of their own."""


def inner_ids(tokenizer: Any, piece: str, *, follows: bool) -> list[int]:
    """Ids of ``piece`` alone, without special tokens; ``follows`` says whether something stands before it."""
    alone: list[int] = tokenizer(piece, add_special_tokens=False, verbose=False)["input_ids"]
    if not follows:
        return alone
    before: list[int] = tokenizer(_BEFORE, add_special_tokens=False, verbose=False)["input_ids"]
    both: list[int] = tokenizer(_BEFORE + piece, add_special_tokens=False, verbose=False)["input_ids"]
    return both[len(before) :] if both[: len(before)] == before else alone


def word_ids(tokenizer: Any, words: Sequence[str], *, spaced: bool) -> list[int]:
    """One id for each label word; ModelError for a word of more tokens, an unknown one, or two words of one id."""
    found: list[int] = []
    for word in words:
        ids = inner_ids(tokenizer, " " + word if spaced else word, follows=spaced)
        if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
            tokens = tokenizer.convert_ids_to_tokens(ids)
            raise ModelError(
                f"label_words: {word!r} is {tokens} to this tokenizer; each label word must be one token that it knows"
            )
        if ids[0] in found:
            raise ModelError(f"label_words: {word!r} and {words[found.index(ids[0])]!r} are the same token")
        found.append(ids[0])
    return found


@dataclass(frozen=True)
class Frame:
    """The special tokens that this tokenizer puts before and after a single text."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Any) -> Frame:
        """Found by encoding a word; ModelError for a tokenizer that does not say which tokens are the text's."""
        if not tokenizer.is_fast:
            raise ModelError("objective = 'infilling' needs a fast tokenizer (one with a tokenizer.json)")
        out = tokenizer(_BEFORE, verbose=False)
        inside = [i for i, sequence in enumerate(out.sequence_ids()) if sequence == 0]
        ids = out["input_ids"]
        return cls(tuple(ids[: inside[0]]), tuple(ids[inside[-1] + 1 :]))
