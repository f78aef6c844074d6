"""The public model up to the tap as a function of word embeddings: what a gradient attack differentiates.

A release may also scale: to a fixed Frobenius norm, as DP-Forward does, or by one factor. What it does the adversary
finds out on texts of its own. With a public checkpoint and own texts at hand::

    prefix = fit_prefix(classifier, "encoder.0.add_norm_2", own, checkpoint.pad_id)
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

from dpeval.models.classifier import TextClassifier
from dpeval.models.layout import Layout
from dpeval.models.taps import capture
from dpeval.types import Floats
from dpeval_attacks.inversion.own import OwnTexts

_FIT_TEXTS = 64
_EXACT = 1e-3
"""A factor this close to one is one; what is left of this share of a row is rounding."""
_AS_NOISE = 1.02


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
    strength: float = 0.0
    """Root mean square of released rows, per entry."""

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

    @property
    def left(self) -> float:
        """What these layers leave unexplained of released rows, per entry; 0 where it is rounding."""
        return self.spread if self.spread > _EXACT * self.strength else 0.0

    def explains(self, noise: float) -> bool:
        """Whether noise of this scale is all that they leave unexplained."""
        return self.left <= _AS_NOISE * noise

    def embed(self, ids: Tensor) -> Tensor:
        """The public word embeddings of ``ids``."""
        found: Tensor = _table(self.classifier.encoder)(ids)
        return found


def depth_of(classifier: TextClassifier, tap: str) -> int | None:
    """How many whole or partial layers lie before ``tap``; ``None`` where the model does not tell."""
    layer = Layout.of(classifier.encoder).point(tap).layer
    return None if layer is None else layer + 1


def fit_prefix(classifier: TextClassifier, tap: str, own: OwnTexts, pad_id: int) -> Prefix | None:
    """The public prefix with the scaling that explains the released own texts best.

    ``None`` where the public model gives rows of another width at this tap, or no row per token.
    """
    prefix = Prefix(classifier.requires_grad_(False), tap)
    pairs = public_pairs(prefix, own, pad_id)
    if pairs is None:
        return None
    found = [_fitted(prefix, "factor", pairs), _fitted(prefix, "norm", pairs)]
    best = min(found, key=lambda one: one.spread)
    if best.kind == "factor" and abs(best.scale - 1) <= _EXACT:
        return _spread(replace(best, scale=1.0), pairs)
    return best


@dataclass(frozen=True, eq=False)
class Pair:
    """One own text as the public layers give it and as it was released, (n, d) each, float64."""

    number: int
    clear: Floats
    seen: Floats


def public_pairs(prefix: Prefix, own: OwnTexts, pad_id: int) -> list[Pair] | None:
    """Some own texts in the clear and as released; ``None`` where there is none, or shapes differ."""
    sample, texts = own.study.sample, own.study.texts
    whole = np.bincount(texts, minlength=len(own.tokens))
    some = [i for i, ids in enumerate(own.tokens[:_FIT_TEXTS]) if len(ids) >= 2 and whole[i] == len(ids)]
    if not some:
        return None
    ids, mask = (x.to(prefix.classifier.device) for x in padded([own.tokens[i] for i in some], pad_id))
    with torch.no_grad():
        clear = prefix.unscaled(None, ids, mask).double().cpu().numpy()
    if clear.shape[1:] != (ids.shape[1], own.width):
        return None
    return [
        Pair(i, rows[: len(own.tokens[i])], sample.rows[texts == i].astype(np.float64))
        for i, rows in zip(some, clear, strict=True)
    ]


def _fitted(prefix: Prefix, kind: Literal["factor", "norm"], pairs: Sequence[Pair]) -> Prefix:
    norms = [float(np.linalg.norm(pair.clear)) or 1.0 if kind == "norm" else 1.0 for pair in pairs]
    along = sum(float(np.sum(pair.clear * pair.seen)) / norm for pair, norm in zip(pairs, norms, strict=True))
    across = sum(float(np.sum(pair.clear**2)) / norm**2 for pair, norm in zip(pairs, norms, strict=True))
    scale = along / across if across > 0 else 1.0
    return _spread(replace(prefix, kind=kind, scale=scale), pairs)


def _spread(prefix: Prefix, pairs: Sequence[Pair]) -> Prefix:
    total = power = entries = 0.0
    for pair in pairs:
        norm = float(np.linalg.norm(pair.clear)) or 1.0
        factor = prefix.scale / norm if prefix.kind == "norm" else prefix.scale
        total += float(np.sum(np.square(pair.seen - factor * pair.clear)))
        power += float(np.sum(np.square(pair.seen)))
        entries += pair.seen.size
    return replace(prefix, spread=float(np.sqrt(total / entries)), strength=float(np.sqrt(power / entries)))


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
