"""Reads tokenizer and encoder from a folder and checks that they fit each other.

Files are read with ``local_files_only`` and without code of the checkpoint's own; transformers' own progress bars and
reports are silenced for the duration, and what they would say is checked here instead.

>>> issubclass(ModelError, Exception)
True
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dpeval.errors import ModelError
from dpeval.models.classifier import forward_names
from dpeval.models.config import ModelConfig


@dataclass(frozen=True, eq=False)
class Loaded:
    """What a folder holds, checked: the encoder in float32 and evaluation mode, without a pooler."""

    encoder: Any
    tokenizer: Any
    pad_id: int
    limit: int
    limit_reason: str
    is_decoder: bool
    takes_types: bool
    notes: tuple[str, ...]


def load_files(folder: Path, config: ModelConfig) -> Loaded:
    """Tokenizer and encoder of ``folder``; ModelError when they are incomplete or do not fit each other."""
    with quiet():
        encoder, stored = _encoder(folder, config)
        tokenizer = _tokenizer(folder)
    _check_rows(folder, encoder, tokenizer)
    pad_note = _ensure_pad(folder, encoder, tokenizer)
    limit, reason = length_limit(encoder, tokenizer)
    upcast = () if stored is torch.float32 else (f"weights stored as {_dtype(stored)}, computed in float32",)
    return Loaded(
        encoder=encoder,
        tokenizer=tokenizer,
        pad_id=int(tokenizer.pad_token_id),
        limit=limit,
        limit_reason=reason,
        is_decoder=_is_decoder(encoder.config),
        takes_types=_takes_types(encoder, tokenizer),
        notes=(*pad_note, *upcast),
    )


def _encoder(folder: Path, config: ModelConfig) -> tuple[Any, torch.dtype]:
    from transformers import AutoConfig, AutoModel

    options = {} if config.attention is None else {"attn_implementation": config.attention}
    try:
        settings = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if settings.is_encoder_decoder:
            raise ModelError(
                f"{folder}: an encoder-decoder model ({settings.model_type}); expected an encoder or a decoder"
            )
        # Weights that are missing from the files are drawn from the global generator, which is put back.
        with torch.random.fork_rng(devices=[]):
            model, report = AutoModel.from_pretrained(
                folder,
                dtype=torch.float32,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                **options,
            )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise ModelError(f"{folder}: cannot be loaded as a transformers encoder: {error}") from error
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler"))
    if missing:
        raise ModelError(
            f"{folder}: {len(missing)} weights of {type(model).__name__} are not in the files, such as {missing[0]}"
        )
    if getattr(model.config, "attention_type", None) == "block_sparse":
        # BigBird gives up sparse attention at the first short text and never takes it up again: answers would depend on
        # the texts before.
        model.set_attention_type("original_full")
    if "pooler" in dict(model.named_children()):
        # Models that offer to be built without a pooler ask whether they have one; the others call what is there.
        can_do_without = "add_pooling_layer" in inspect.signature(type(model).__init__).parameters
        model.pooler = None if can_do_without else nn.Identity()
    return model.eval(), settings.dtype or torch.float32


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError, TypeError) as error:
        raise ModelError(f"{folder}: no usable tokenizer: {error}") from error


def _check_rows(folder: Path, encoder: Any, tokenizer: Any) -> None:
    ids = max(tokenizer.get_vocab().values()) + 1
    try:
        rows = encoder.get_input_embeddings().weight.shape[0]
    except (NotImplementedError, AttributeError) as error:
        raise ModelError(
            f"{folder}: {type(encoder).__name__} has no table of token embeddings; expected a model of tokens, such as "
            "BERT, RoBERTa, DeBERTa, GPT-2 or Llama"
        ) from error
    if ids > rows:
        raise ModelError(
            f"{folder}: the tokenizer has {ids} ids but the model only {rows} embedding rows; use the tokenizer that "
            "the model was trained with, or resize the model's embeddings and save it again"
        )


def _ensure_pad(folder: Path, encoder: Any, tokenizer: Any) -> tuple[str, ...]:
    note: tuple[str, ...] = ()
    if tokenizer.pad_token_id is None:
        token = tokenizer.eos_token or tokenizer.unk_token
        if token is None:
            raise ModelError(
                f"{folder}: the tokenizer has no padding, end or unknown token to pad with; add a pad_token"
            )
        tokenizer.pad_token = token
        note = (f"no padding token: {token!r} is used as padding, masked everywhere",)
    encoder.config.pad_token_id = tokenizer.pad_token_id
    return note


def length_limit(encoder: Any, tokenizer: Any) -> tuple[int, str]:
    """The most tokens that tokenizer and position table allow, and which of them says so."""
    limits = [(int(tokenizer.model_max_length), "the tokenizer's limit")]
    positions = getattr(encoder.config, "max_position_embeddings", None)
    if positions and int(positions) > 0:
        limits.append((int(positions), "the model's positions"))
    for name, module in encoder.named_modules():
        # Tables with a padding row number their positions from padding_idx + 1 (RoBERTa, MPNet).
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            usable = module.num_embeddings - module.padding_idx - 1
            limits.append((usable, f"{module.num_embeddings} positions of which {usable} are usable"))
    return min(limits)


def _is_decoder(config: Any) -> bool:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind = config.model_type
    return kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES


def _takes_types(encoder: Any, tokenizer: Any) -> bool:
    enough = getattr(encoder.config, "type_vocab_size", 0) >= 2
    return enough and "token_type_ids" in forward_names(encoder) and "token_type_ids" in tokenizer.model_input_names


def _dtype(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


@contextmanager
def quiet() -> Iterator[None]:
    """transformers without progress bars and reports, for the duration."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
