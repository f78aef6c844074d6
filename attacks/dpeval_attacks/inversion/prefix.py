"""The public model up to the tap as a function of word embeddings: what a gradient attack differentiates.

A release may also scale: to a fixed Frobenius norm, as DP-Forward does, or by one factor. What it does the adversary
finds out on texts of its own. With a public checkpoint and own texts at hand::

    prefix = fit_prefix(checkpoint, "encoder.0.add_norm_2", own, device)
    rows = prefix.rows(word_embeddings, ids, mask)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.layout import Layout
from dpeval.models.taps import capture
from dpeval_attacks.inversion.own import OwnTexts

_FIT_TEXTS = 64
_EXACT = 1e-3
"""A factor this close to one is one."""


@dataclass(frozen=True, eq=False)
class Prefix:
    """The public layers before the tap, and how the release scales what they give."""

    classifier: TextClassifier
    tap: str
    kind: Literal["factor", "norm"] = "factor"
    scale: float = 1.0
    """The factor, or the Frobenius norm that every text is scaled to."""
    spread: float = 0.0
    """Root mean square of what the scaled public rows leave unexplained of released ones, per entry."""

    def rows(self, words: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """The clear rows (B, L, d) that would be released for word embeddings ``words`` (B, L, e).

        What stands in rows of padding is left as it comes.
        """
        clear = self.unscaled(words, ids, mask)
        if self.kind == "factor":
            return clear if self.scale == 1.0 else clear * self.scale
        clear = clear * mask.to(clear.dtype).unsqueeze(-1)
        norms: Tensor = clear.flatten(1).norm(dim=1)
        scaled: Tensor = clear * (self.scale / norms.clamp(min=1e-12)).view(-1, 1, 1)
        return scaled

    def unscaled(self, words: Tensor | None, ids: Tensor, mask: Tensor) -> Tensor:
        """The public rows as they are; without ``words`` those of ``ids``."""
        batch = {"input_ids": ids, "attention_mask": mask.long()}
        with _words_given(self.classifier.encoder, words):
            return capture(self.classifier, batch, self.tap)

    def embed(self, ids: Tensor) -> Tensor:
        """The public word embeddings of ``ids``."""
        found: Tensor = _table(self.classifier.encoder)(ids)
        return found


def depth_of(checkpoint: Checkpoint, tap: str) -> int | None:
    """How many whole or partial layers lie before ``tap``; ``None`` where the model does not tell."""
    layer = Layout.of(checkpoint.build(2, seed=0).encoder).point(tap).layer
    return None if layer is None else layer + 1


def fit_prefix(checkpoint: Checkpoint, tap: str, own: OwnTexts, device: torch.device) -> Prefix | None:
    """The public prefix with the scaling that explains the released own texts best.

    ``None`` where the public model has no such tap, rows of another width there, or no row per token.
    """
    if checkpoint.lacks(tap) is not None:
        return None
    classifier = checkpoint.build(2, seed=0).to(device).requires_grad_(False)
    prefix = Prefix(classifier, tap)
    pairs = list(_pairs(prefix, own, checkpoint.pad_id))
    if not pairs or pairs[0][0].shape != pairs[0][1].shape:
        return None
    found = [_fitted(prefix, "factor", pairs), _fitted(prefix, "norm", pairs)]
    best = min(found, key=lambda one: one.spread)
    if best.kind == "factor" and abs(best.scale - 1) <= _EXACT:
        return _spread(replace(best, scale=1.0), pairs)
    return best


Pair = tuple[np.ndarray, np.ndarray]


def _pairs(prefix: Prefix, own: OwnTexts, pad_id: int) -> Iterator[Pair]:
    """(public rows, released rows) of some own texts, float64."""
    sample, texts = own.study.sample, own.study.texts
    for number in range(min(_FIT_TEXTS, len(own.tokens))):
        tokens, mine = own.tokens[number], texts == number
        if int(mine.sum()) != len(tokens) or len(tokens) < 2:
            continue
        ids, mask = padded([tokens], pad_id)
        device = prefix.classifier.device
        with torch.no_grad():
            clear = prefix.unscaled(None, ids.to(device), mask.to(device))[0, : len(tokens)]
        yield clear.double().cpu().numpy(), sample.rows[mine].astype(np.float64)


def _fitted(prefix: Prefix, kind: Literal["factor", "norm"], pairs: Sequence[Pair]) -> Prefix:
    norms = [float(np.linalg.norm(clear)) or 1.0 if kind == "norm" else 1.0 for clear, _ in pairs]
    along = sum(float(np.sum(clear * seen)) / norm for (clear, seen), norm in zip(pairs, norms, strict=True))
    across = sum(float(np.sum(clear * clear)) / norm**2 for (clear, _), norm in zip(pairs, norms, strict=True))
    scale = along / across if across > 0 else 1.0
    return _spread(replace(prefix, kind=kind, scale=scale), pairs)


def _spread(prefix: Prefix, pairs: Sequence[Pair]) -> Prefix:
    total = entries = 0.0
    for clear, seen in pairs:
        norm = float(np.linalg.norm(clear)) or 1.0
        factor = prefix.scale / norm if prefix.kind == "norm" else prefix.scale
        total += float(np.sum(np.square(seen - factor * clear)))
        entries += seen.size
    return replace(prefix, spread=float(np.sqrt(total / max(entries, 1.0))))


def padded(texts: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Ids (B, L) and mask (B, L) of texts, padded on the right; at least two columns."""
    width = max(2, *(len(text) for text in texts)) if texts else 2
    ids = torch.full((len(texts), width), pad_id, dtype=torch.long)
    mask = torch.zeros(len(texts), width, dtype=torch.bool)
    for i, text in enumerate(texts):
        ids[i, : len(text)] = torch.tensor(list(text), dtype=torch.long)
        mask[i, : len(text)] = True
    return ids, mask


def _table(encoder: Any) -> nn.Module:
    found: nn.Module = encoder.get_input_embeddings()
    return found


@contextmanager
def _words_given(encoder: Any, words: Tensor | None) -> Iterator[None]:
    """For one pass, the word embeddings are ``words`` whatever the ids."""
    if words is None:
        yield
        return
    handle = _table(encoder).register_forward_hook(lambda _module, _args, _output: words)
    try:
        yield
    finally:
        handle.remove()
