"""The ``[model]`` table of a matrix: which public checkpoint to start from and how texts enter it.

>>> ModelConfig(source="hub:sentence-transformers/all-MiniLM-L6-v2", max_length=64).pooling is None
True
>>> ModelConfig(source="models/minilm", max_length=0)
Traceback (most recent call last):
    ...
ValueError: max_length: expected at least 4 tokens, got 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A pretrained transformers checkpoint and the form in which texts are given to it."""

    source: str
    """``hub:ID`` or ``hub:ID@REVISION``, or a local folder (relative to the matrix file)."""
    max_length: int = 128
    """Longest text in tokens, special tokens included; lowered to what tokenizer and positions allow."""
    pooling: Literal["mean", "cls", "last"] | None = None
    """One vector per text: the mean of its tokens, the first token, or the last; by default mean, last for decoders."""
    attention: Literal["sdpa", "eager"] | None = None
    """Which attention code runs; by default the one transformers chooses."""

    def __post_init__(self) -> None:
        if not self.source.removeprefix("hub:"):
            raise ValueError(f"source: expected hub:ID or a folder, got {self.source!r}")
        if self.max_length < 4:
            raise ValueError(f"max_length: expected at least 4 tokens, got {self.max_length}")
