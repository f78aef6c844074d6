"""Perturbed non-members: what a published membership protocol does to the texts that were not trained on.

Du et al. (2023, §6.1) drop and replace random tokens of the test texts "to make the attack easier" and call the
unperturbed training texts members. What is then told apart is edited from unedited text: an attacker that never sees
the model does it as well. dpeval can run the protocol to show just that; it draws no conclusion from it.

>>> before = Records(("a",), ("the quick brown fox jumps over the lazy dog",), (0,))
>>> after = perturbed(before, seed=1)
>>> after.ids == before.ids and after.labels == before.labels
True
>>> after.texts[0] != before.texts[0]
True
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from dpeval import seeds
from dpeval.types import Records, Text

UNTOUCHED = 0.1
"""The share left as it was: one of ten variants, nine edited and the original, is taken."""
STRENGTH = 0.5
"""The share of words that an edit drops, or the number of edits for each word."""

Edit = Callable[[list[str], tuple[str, ...], np.random.Generator], list[str]]


def perturbed(records: Records, seed: int) -> Records:
    """``records`` with edited texts: words dropped, swapped, inserted or replaced; nothing else changes."""
    words = tuple(sorted({word for text in records.texts for part in _parts(text) for word in part.split()}))
    return dataclasses.replace(
        records,
        texts=tuple(
            _edited(text, words, seeds.rng(seed, "perturb", key))
            for key, text in zip(records.ids, records.texts, strict=True)
        ),
    )


def _edited(text: Text, words: tuple[str, ...], rng: np.random.Generator) -> Text:
    if rng.random() < UNTOUCHED:
        return text
    edit = EDITS[int(rng.integers(len(EDITS)))]
    done = tuple(" ".join(edit(part.split(), words, rng)) for part in _parts(text))
    return done[0] if isinstance(text, str) else (done[0], done[1])


def _parts(text: Text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text


def _drop(text: list[str], words: tuple[str, ...], rng: np.random.Generator) -> list[str]:
    del words
    kept = [word for word in text if rng.random() >= STRENGTH]
    return kept or text[:1]


def _swap(text: list[str], words: tuple[str, ...], rng: np.random.Generator) -> list[str]:
    del words
    out = list(text)
    for _ in range(_edits(text)):
        i, j = (int(k) for k in rng.integers(len(out), size=2))
        out[i], out[j] = out[j], out[i]
    return out


def _insert(text: list[str], words: tuple[str, ...], rng: np.random.Generator) -> list[str]:
    out = list(text)
    for _ in range(_edits(text)):
        out.insert(int(rng.integers(len(out) + 1)), words[int(rng.integers(len(words)))])
    return out


def _replace(text: list[str], words: tuple[str, ...], rng: np.random.Generator) -> list[str]:
    return [words[int(rng.integers(len(words)))] if rng.random() < STRENGTH else word for word in text]


def _edits(text: list[str]) -> int:
    return max(1, round(STRENGTH * len(text))) if text else 0


EDITS: tuple[Edit, ...] = (_drop, _swap, _insert, _replace)
