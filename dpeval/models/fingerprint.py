"""The identity of a checkpoint's content: the same wherever the files lie and however they are packed.

>>> fingerprint_of_weights({"b": torch.zeros(1), "a": torch.ones(1)}) == fingerprint_of_weights(
...     {"a": torch.ones(1), "b": torch.zeros(1)})
True
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

VOLATILE = {
    "_name_or_path",
    "transformers_version",
    "dtype",
    "torch_dtype",
    "pad_token_id",
    "architectures",
    "_commit_hash",
}


def fingerprint(encoder: Any, tokenizer: Any, extra: tuple[object, ...]) -> str:
    """SHA-256 over weights, config, tokenizer and ``extra``, as hexadecimal digits."""
    config = {k: v for k, v in encoder.config.to_dict().items() if k not in VOLATILE}
    parts = [
        fingerprint_of_weights(encoder.state_dict()),
        json.dumps(config, sort_keys=True, default=str),
        tokenizer_text(tokenizer),
        json.dumps([tokenizer.pad_token_id, *extra]),
    ]
    return hashlib.sha256("\x1e".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def fingerprint_of_weights(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and contents, in the order of the names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return digest.hexdigest()


def tokenizer_text(tokenizer: Any) -> str:
    """What a tokenizer is, as text: vocabulary, normalisation, template; not how its last call padded."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return json.dumps([type(tokenizer).__name__, sorted(tokenizer.get_vocab().items())])
    described = json.loads(backend.to_str())
    # How a call pads and truncates is set on the tokenizer at call time; it is no part of what the tokenizer is.
    for transient in ("truncation", "padding"):
        described.pop(transient, None)
    return json.dumps(described, sort_keys=True)
