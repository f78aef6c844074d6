"""A public checkpoint: tokenizer, pretrained encoder, limits, and an identity made of its content.

Everything that can go wrong with a model is found here, before anything is trained: ids without an embedding row, a
missing padding token, fewer positions than asked for, missing weights.

A checkpoint in use looks like this (not run here: it needs model files)::

    checkpoint = load_checkpoint(ModelConfig(source="models/minilm", max_length=64), base=Path("."))
    classifier = checkpoint.build(num_labels=2, seed=0)
    logits = classifier(**checkpoint.encode(records).batch([0, 1, 2]))
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from dpeval.errors import ModelError
from dpeval.models.classifier import Pooling, TextClassifier
from dpeval.models.config import ModelConfig
from dpeval.models.encoding import EncodedTexts
from dpeval.models.fingerprint import fingerprint
from dpeval.models.layout import Layout
from dpeval.models.loading import Loaded, load_files
from dpeval.models.sources import find_checkpoint
from dpeval.models.text_encoding import TextEncoding
from dpeval.types import Note, Records, Rows


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A pretrained encoder with its tokenizer. Pickles as its config and is loaded again where it arrives."""

    config: ModelConfig
    base: Path
    max_length: int
    """Longest text in tokens that is really used: the least of config, tokenizer and position table."""
    pooling: Pooling
    tokenizer: Any
    pad_id: int
    notes: tuple[str, ...]
    """What a reader of the report should know: a chosen padding token, upcast weights, a lowered limit."""
    takes_types: bool
    """Whether the model distinguishes the two texts of a pair by token types."""
    _encoder: Any = field(repr=False)

    def __reduce__(self) -> tuple[Callable[[ModelConfig, Path], Checkpoint], tuple[ModelConfig, Path]]:
        return load_checkpoint, (self.config, self.base)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over weights, config, tokenizer, length limit and pooling; independent of file format and place."""
        return fingerprint(self._encoder, self.tokenizer, (self.max_length, self.pooling, self.config.attention))

    @property
    def hidden_size(self) -> int:
        """Width of the last hidden state."""
        return int(self._encoder.config.hidden_size)

    @property
    def num_layers(self) -> int:
        """Number of encoder layers."""
        return int(self._encoder.config.num_hidden_layers)

    @property
    def vocab_size(self) -> int:
        """Rows of the input embedding table."""
        return int(self._encoder.get_input_embeddings().weight.shape[0])

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids of special tokens, padding among them."""
        return frozenset(int(i) for i in (*self.tokenizer.all_special_ids, self.pad_id))

    @cached_property
    def text_encoding(self) -> TextEncoding:
        """How texts become tokens here; a release states its own, and an attack compares."""
        return TextEncoding.of(self.tokenizer, self.max_length, self.special_ids)

    def positions(self) -> tuple[str, ...]:
        """The named taps of this model, from the input to the output."""
        return Layout.of(self._encoder).names()

    def is_sure(self, position: str) -> bool:
        """Whether ``position`` is a named one of a known architecture; any other is tried before it is used."""
        return Layout.of(self._encoder).is_sure(position)

    def lacks(self, position: str) -> str | None:
        """Why this model has no such position (a named one or a module path), or ``None`` if it has."""
        try:
            Layout.of(self._encoder).point(position)
        except ModelError as error:
            return str(error)
        return None

    def tokens(self, records: Records) -> list[list[int]]:
        """Token ids of each record as the model gets them: special tokens included, truncated, without padding."""
        return [list(ids) for ids in self.encode(records).ids]

    def encode(self, records: Records) -> EncodedTexts:
        """The records as token ids; a text without any token is given one special token instead."""
        rows = [self._encode(text) for text in records.texts]
        types = [row.types for row in rows] if self.takes_types else None
        return EncodedTexts(ids=[row.ids for row in rows], types=types, pad_id=self.pad_id)

    def truncation(self, records: Records) -> Note | None:
        """How many records are longer than the limit, or ``None`` when all fit."""
        cut = [key for key, text in zip(records.ids, records.texts, strict=True) if self._encode(text).cut]
        if not cut:
            return None
        what = f"{len(cut)} of {len(records)} texts truncated to {self.max_length} tokens"
        return Note(what, len(cut), tuple(cut[:20]))

    def input_embeddings(self) -> Rows:
        """The public input embedding table, float32 of shape (vocabulary, d)."""
        table: Rows = self._encoder.get_input_embeddings().weight.detach().float().cpu().numpy().astype(np.float32)
        return table

    def build(self, num_labels: int, seed: int) -> TextClassifier:
        """A fresh classifier in evaluation mode: a copy of the pretrained encoder, and a head drawn from ``seed``."""
        encoder: nn.Module = copy.deepcopy(self._encoder)
        return TextClassifier(encoder, self.pooling, num_labels, torch.Generator().manual_seed(seed)).eval()

    def _encode(self, text: str | tuple[str, str]) -> _Row:
        first, second = (encodable(text), None) if isinstance(text, str) else map(encodable, text)
        out = self.tokenizer(
            first, second, truncation=True, max_length=self.max_length, return_attention_mask=False,
            return_token_type_ids=self.takes_types, return_overflowing_tokens=False, verbose=False,
        )  # fmt: skip
        ids = list(out["input_ids"]) or [self._filler()]
        types = list(out.get("token_type_ids", ())) if self.takes_types else []
        return _Row(ids, types or [0] * len(ids), cut=len(ids) >= self.max_length and self._longer(first, second))

    def _longer(self, first: str, second: str | None) -> bool:
        return len(self.tokenizer(first, second, verbose=False)["input_ids"]) > self.max_length

    def _filler(self) -> int:
        found = [i for i in (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id) if i is not None]
        return int(found[0]) if found else self.pad_id


def encodable(text: str) -> str:
    """The text with half surrogate pairs, which no tokenizer takes, as U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True)
class _Row:
    ids: list[int]
    types: list[int]
    cut: bool


def load_checkpoint(config: ModelConfig, base: Path) -> Checkpoint:
    """The checkpoint that ``config`` names; a relative folder is looked up in ``base``.

    Raises ModelError, with what to do, when it is missing, incomplete, needs code of its own, or does not fit its
    tokenizer.
    """
    folder = find_checkpoint(config.source, base)
    loaded = load_files(folder, config)
    return Checkpoint(
        config=config,
        base=base,
        max_length=_limit(config, loaded),
        pooling=config.pooling or ("last" if loaded.is_decoder else "mean"),
        tokenizer=loaded.tokenizer,
        pad_id=loaded.pad_id,
        notes=(*loaded.notes, *_limit_note(config, loaded)),
        _encoder=loaded.encoder,
        takes_types=loaded.takes_types,
    )


def _limit(config: ModelConfig, loaded: Loaded) -> int:
    limit = min(config.max_length, loaded.limit)
    least = loaded.tokenizer.num_special_tokens_to_add(pair=True) + 1
    if limit < least:
        raise ModelError(
            f"{config.source}: {limit} tokens leave no room for text beside the special ones; expected at least {least}"
        )
    return limit


def _limit_note(config: ModelConfig, loaded: Loaded) -> tuple[str, ...]:
    if loaded.limit >= config.max_length:
        return ()
    return (f"max_length lowered from {config.max_length} to {loaded.limit} tokens: {loaded.limit_reason}",)
