"""Canaries: texts that nobody wrote, each trained on by its own fair coin, to see what a model remembers of a text.

A canary says nothing about the task: its words and its label are drawn at random, so a model can only know it by heart.
Since dpeval makes the canaries and tosses the coins, what an attack finds out about them is due to training alone, and
the coins make a one-run audit valid (Steinke, Nasr and Jagielski 2023, Theorem 5.2).

>>> pool = Records(("a", "b"), ("a good film", "what a bore"), (0, 1))
>>> canaries = make_canaries(Dataset("films", pool, ("good", "bad")), CanaryConfig(count=4, length=3))
>>> canaries.ids
('canary-0', 'canary-1', 'canary-2', 'canary-3')
>>> parts = plant(Split(pool, pool, pool, pool), canaries, seed=0)
>>> len(parts.planted) + len(parts.withheld), len(parts.members)
(4, 2)
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpeval import seeds
from dpeval.data.errors import DataError
from dpeval.types import Dataset, Note, Records, Split, Text

DIGITS = tuple("0123456789")
TEMPLATE = "the secret number is {}"
_TRIES = 50
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, kw_only=True)
class CanaryConfig:
    """The ``[canaries]`` table: how many made-up texts are planted, each by its own fair coin, and what they say."""

    count: int = 200
    kind: Literal["random-words", "secret"] = "random-words"
    """Words of the data set in random order, or ``the secret number is`` with random digits (Carlini et al. 2019)."""
    length: int = 12
    """Words, or digits."""
    seed: int = 0
    """Another seed makes other texts; the coins follow the seeds of the matrix."""

    def __post_init__(self) -> None:
        if self.count < 2:
            raise ValueError(f"count: expected at least 2 canaries, one to plant and one to hold out, got {self.count}")
        if self.length < 1:
            raise ValueError(f"length: expected at least 1 word or digit, got {self.length}")


def make_canaries(dataset: Dataset, config: CanaryConfig) -> Records:
    """The canaries of a data set, the same for every seed and defense; no two alike, and none a text of the data.

    Each has a random label, a near-duplicate group of its own, no attribute, and as many parts as the data's texts.

    Raises:
        DataError: so many different texts of this length cannot be made.
    """
    rng = seeds.rng(config.seed, "canaries", dataset.name, config.kind, config.length)
    words = DIGITS if config.kind == "secret" else _vocabulary(dataset.records.texts)
    taken: set[Text] = set(dataset.records.texts)
    texts = tuple(_fresh(lambda: _text(words, config, dataset, rng), taken, config) for _ in range(config.count))
    labels = rng.integers(len(dataset.label_names), size=config.count)
    first = max(dataset.records.groups, default=-1) + 1
    return Records(
        ids=_ids(config.count, dataset.records.ids),
        texts=texts,
        labels=tuple(int(label) for label in labels),
        groups=tuple(range(first, first + config.count)),
    )


def plant(parts: Split, canaries: Records, seed: int) -> Split:
    """``parts`` with each canary planted or withheld by its own fair coin, which depends on ``seed`` alone."""
    heads = seeds.rng(seed, "canaries").integers(2, size=len(canaries)) == 1
    return dataclasses.replace(
        parts,
        planted=canaries.take(np.flatnonzero(heads).tolist()),
        withheld=canaries.take(np.flatnonzero(~heads).tolist()),
    )


def canary_notes(parts: Split) -> tuple[Note, ...]:
    """What a reader of the report should know of the canaries of a split."""
    count = len(parts.planted) + len(parts.withheld)
    if not count:
        return ()
    return (
        Note("canaries, each trained on by its own fair coin; they count neither in utility nor as members", count),
    )


def _vocabulary(texts: Sequence[Text]) -> tuple[str, ...]:
    parts = (part for text in texts for part in ((text,) if isinstance(text, str) else text))
    return tuple(sorted({word for part in parts for word in _WORD.findall(part.lower())}))


def _text(words: Sequence[str], config: CanaryConfig, dataset: Dataset, rng: np.random.Generator) -> Text:
    def one() -> str:
        drawn = " ".join(words[i] for i in rng.integers(len(words), size=config.length)) if words else ""
        return TEMPLATE.format(drawn) if config.kind == "secret" else drawn

    pair = any(not isinstance(text, str) for text in dataset.records.texts[:1])
    return (one(), one()) if pair else one()


def _fresh(draw: Callable[[], Text], taken: set[Text], config: CanaryConfig) -> Text:
    for _ in range(_TRIES):
        text = draw()
        if text and text not in taken:
            taken.add(text)
            return text
    raise DataError(
        f"[canaries] {config.count} different texts of length {config.length} cannot be made of this data's words; "
        "raise length, or lower count"
    )


def _ids(count: int, taken: Sequence[str]) -> tuple[str, ...]:
    prefix = "canary-"
    while any(key.startswith(prefix) for key in taken):
        prefix = f"_{prefix}"
    return tuple(f"{prefix}{i}" for i in range(count))
