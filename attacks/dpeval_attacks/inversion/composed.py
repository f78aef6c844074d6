"""Texts that the adversary makes up: pieces of its own texts, and any words of the vocabulary.

Whoever owns the public client may ask it about any text. Real texts are few and hold few words; made-up ones show the
rest.

>>> rng = np.random.default_rng(0)
>>> made = compose(["a warm and clever story", "it never says what it means"], ["zebra"], 3, rng)
>>> len(made), all(text.split() for text in made.texts)
(3, True)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpeval.models.checkpoint import Checkpoint
from dpeval.types import Records, Text

_CHANGED = 0.3
"""Of the words of every second made-up text, so many are changed."""
_LEAST, _MOST = 3, 15
"""Words of a piece."""


def compose(texts: Sequence[Text], words: Sequence[str], count: int, rng: np.random.Generator) -> Records:
    """``count`` texts of two pieces each, of other texts; in every second one some words are of ``words`` instead."""
    spoken = [parts for text in texts if (parts := (text if isinstance(text, str) else " ".join(text)).split())]
    made = [_composed(spoken, words if i % 2 else (), rng) for i in range(count)] if spoken else []
    return Records(tuple(f"composed-{i}" for i in range(len(made))), tuple(made), (0,) * len(made))


def whole_words(checkpoint: Checkpoint) -> list[str]:
    """Entries of the vocabulary that are words by themselves, without the marks of the tokenizer."""
    tokens = checkpoint.tokenizer.convert_ids_to_tokens(list(range(checkpoint.vocab_size)))
    bare = [t.lstrip("Ġ▁").removesuffix("</w>") for t in tokens if isinstance(t, str) and not t.startswith("##")]
    return sorted({word for word in bare if len(word) > 1 and word.isalpha()})


def _composed(spoken: Sequence[Sequence[str]], words: Sequence[str], rng: np.random.Generator) -> str:
    whole = [*_piece(spoken, rng), *_piece(spoken, rng)]
    if words:
        whole = [words[int(rng.integers(len(words)))] if rng.random() < _CHANGED else word for word in whole]
    return " ".join(whole)


def _piece(spoken: Sequence[Sequence[str]], rng: np.random.Generator) -> Sequence[str]:
    text = spoken[int(rng.integers(len(spoken)))]
    length = min(len(text), int(rng.integers(_LEAST, _MOST + 1)))
    start = int(rng.integers(0, len(text) - length + 1))
    return text[start : start + length]
