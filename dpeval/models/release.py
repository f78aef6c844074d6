"""The standard release of a text classifier: predictions, embeddings at a tap, a claim, and exact saving.

A defense that trains a classifier ends with one line (not run here: it needs a trained model)::

    return TextRelease.of(classifier, task.checkpoint, claim=NoClaim())

A clear release (no tap) runs the model as it is. A release with a tap and a transform is *closed*: each text becomes a
tensor of fixed size, the transform changes it, and what follows sees only that tensor.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpeval.errors import ModelError, StoreError
from dpeval.models import transform as transforms
from dpeval.models.bypass import check_release_point
from dpeval.models.checkpoint import Checkpoint, load_checkpoint
from dpeval.models.claim_json import claim_from_json, claim_to_json
from dpeval.models.classifier import TextClassifier
from dpeval.models.config import ModelConfig
from dpeval.models.dependence import released_shape
from dpeval.models.encoding import Batch, to_device
from dpeval.models.taps import capture, closed, forward_from
from dpeval.models.text_encoding import TextEncoding, differences
from dpeval.models.transform import Transform
from dpeval.models.weights import Builder, load_changed, save_changed
from dpeval.plugin import Release
from dpeval.seeds import generator
from dpeval.types import Claim, Embeddings, NoClaim, Predictions, PrivacyClaim, Records, Text


@dataclass(frozen=True, eq=False)
class TextRelease(Release):
    """A classifier as an adversary meets it. Make it with :meth:`of`."""

    classifier: TextClassifier
    checkpoint: Checkpoint
    stated: PrivacyClaim
    tap: str | None = None
    """The position that this release fixes; ``None`` lets every position be asked, in the clear."""
    transform: Transform | None = None
    seed: int = 0
    """Root of the noise of each answer."""

    @classmethod
    def of(
        cls,
        classifier: TextClassifier,
        checkpoint: Checkpoint,
        *,
        claim: PrivacyClaim,
        tap: str | None = None,
        transform: Transform | None = None,
        seed: int = 0,
    ) -> TextRelease:
        """A release of ``classifier`` in evaluation mode; with a transform, one that nothing goes round.

        Raises LeakError when a privacy claim is made for a position that can be gone round.
        """
        if (tap is None) != (transform is None):
            raise ModelError(
                f"a release has a tap and a transform, or neither; got tap={tap!r}, transform={transform!r}"
            )
        release = cls(classifier.eval(), checkpoint, claim, tap, transform, seed)
        if isinstance(claim, Claim):
            release.check()
        return release

    def check(self) -> None:
        """Raise LeakError when something after the release point still depends on the clear text."""
        if self.tap is not None:
            check_release_point(self.classifier, self.tap, self.checkpoint)

    @property
    def claim(self) -> PrivacyClaim:
        """The guarantee that the defense states."""
        return self.stated

    @property
    def taps(self) -> tuple[str, ...] | None:
        """The one position of a closed release, or ``None``."""
        return None if self.tap is None else (self.tap,)

    @property
    def encoding(self) -> TextEncoding:
        """How texts become tokens here."""
        return self.checkpoint.text_encoding

    def noisier(self, factor: float) -> TextRelease | None:
        """The same release with its noise multiplied by ``factor``, if its transform has a noise scale; no claim."""
        louder = None if self.transform is None else self.transform.noisier(factor)
        if louder is None:
            return None
        return dataclasses.replace(self, transform=louder, stated=NoClaim("a test of the release, not a release"))

    @property
    def trained_parameters(self) -> int:
        """How many numbers training could change."""
        return sum(p.numel() for p in self.classifier.parameters() if p.requires_grad)

    def predict(self, records: Records, *, draw: int = 0) -> Predictions:
        """Class log-probabilities in float64; each row is the same to the bit whatever else is asked."""
        out = np.zeros((len(records), self.classifier.num_labels))
        with torch.inference_mode():
            for rows, batch in self._batches(records):
                logits = self._logits(records, rows, batch, draw)[: len(rows)]
                out[rows] = logits.double().log_softmax(dim=-1).cpu().numpy()
        return Predictions(records.ids, out)

    def embed(self, records: Records, tap: str, *, draw: int = 0) -> Embeddings:
        """What leaves the device at ``tap``.

        For a clear release a row per token, special tokens included (one row in all for a pooled tap); for a closed one
        the transformed tensor of ``max_length`` rows, at its own tap only.
        """
        if self.tap is not None and tap != self.tap:
            raise ModelError(f"this release lets nothing out but at {self.tap!r}; got tap {tap!r}")
        found: dict[int, Tensor] = {}
        with torch.inference_mode():
            for rows, batch in self._batches(records):
                tensors = self._tapped(records, rows, batch, tap, draw)
                found.update(zip(rows, tensors, strict=False))
        width = released_shape(self.classifier, tap, 1).width
        return _ragged(records.ids, [found[i] for i in range(len(records))], width)

    def predict_from(self, released: Embeddings) -> Predictions:
        """Class log-probabilities from what :meth:`embed` let out, and from nothing else; closed releases only."""
        if self.tap is None:
            raise ModelError("a clear release has no one tensor from which its predictions follow")
        out = np.zeros((len(released), self.classifier.num_labels))
        with torch.inference_mode():
            for i in range(len(released)):
                rows = torch.from_numpy(released.rows(i).copy()).to(self.classifier.device).unsqueeze(0)
                logits = forward_from(self.classifier, self.tap, rows)
                out[i] = logits[0].double().log_softmax(dim=-1).cpu().numpy()
        return Predictions(released.ids, out)

    def save(self, folder: Path) -> None:
        """Write ``release.json`` and the tensors that differ from the public checkpoint (``weights.safetensors``)."""
        described = {
            "format": 1,
            "model": vars(self.checkpoint.config),
            "base": str(self.checkpoint.base.resolve()),
            "fingerprint": self.checkpoint.fingerprint,
            "encoding": self.encoding.to_json(),
            "num_labels": self.classifier.num_labels,
            "claim": claim_to_json(self.stated),
            "tap": self.tap,
            "transform": None if self.transform is None else transforms.to_json(self.transform),
            "seed": self.seed,
        }
        save_changed(self.classifier, self._public(), folder / "weights.safetensors")
        (folder / "release.json").write_text(json.dumps(described, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, device: torch.device, *, checkpoint: Checkpoint | None = None) -> TextRelease:
        """The release that :meth:`save` wrote; pass the ``checkpoint`` if it is already in memory."""
        stored = json.loads((folder / "release.json").read_text(encoding="utf-8"))
        if checkpoint is None:
            checkpoint = load_checkpoint(ModelConfig(**stored["model"]), Path(stored["base"]))
        check_same_checkpoint(checkpoint, stored, folder)
        classifier = checkpoint.build(stored["num_labels"], seed=0)
        load_changed(classifier, folder / "weights.safetensors")
        transform = None if stored["transform"] is None else transforms.from_json(stored["transform"])
        claim = claim_from_json(stored["claim"])
        return cls(classifier.to(device).eval(), checkpoint, claim, stored["tap"], transform, stored["seed"])

    def _public(self) -> Builder:
        """What builds the classifier as it was before training."""
        return self.checkpoint

    def _batches(self, records: Records) -> Iterator[tuple[list[int], Batch]]:
        self.classifier.eval()
        for rows, batch in self.checkpoint.encode(records).evaluation_batches(self.checkpoint.max_length):
            yield rows, to_device(batch, self.classifier.device)

    def _logits(self, records: Records, rows: list[int], batch: Batch, draw: int) -> Tensor:
        if self.tap is None:
            logits: Tensor = self.classifier(**batch)
            return logits
        return forward_from(self.classifier, self.tap, self._released(records, rows, batch, draw))

    def _tapped(self, records: Records, rows: list[int], batch: Batch, tap: str, draw: int) -> list[Tensor]:
        if self.tap is not None:
            return list(self._released(records, rows, batch, draw).cpu())
        tensor, mask = capture(self.classifier, batch, tap).cpu(), batch["attention_mask"].cpu().bool()
        return [rows_ if len(rows_) == 1 else rows_[keep] for rows_, keep in zip(tensor, mask, strict=True)]

    def _released(self, records: Records, rows: list[int], batch: Batch, draw: int) -> Tensor:
        assert self.tap is not None  # noqa: S101 - narrows the types; `of` sets both or neither
        assert self.transform is not None  # noqa: S101
        tensor = closed(capture(self.classifier, batch, self.tap), batch["attention_mask"], self.checkpoint.max_length)
        filled = rows + [rows[-1]] * (len(tensor) - len(rows))
        return self.transform.apply(tensor, [self._noise(records.ids[i], records.texts[i], draw) for i in filled])

    def _noise(self, key: str, text: Text, draw: int) -> torch.Generator:
        # The text is part of the stream's name: asking for another text under a known id must not repeat the noise.
        words = (text,) if isinstance(text, str) else text
        return generator(self.seed, "release", draw, key, *words)


def check_same_checkpoint(checkpoint: Checkpoint, stored: Mapping[str, Any], folder: Path) -> None:
    """StoreError unless ``checkpoint`` is the one that the release of ``folder``, described by ``stored``, is of."""
    if checkpoint.fingerprint != stored["fingerprint"]:
        raise StoreError(
            f"{folder}: trained from checkpoint {stored['fingerprint'][:12]}, but {checkpoint.config.source} is "
            f"now {checkpoint.fingerprint[:12]}{_changed(stored, checkpoint)}; "
            "restore the model files or train again"
        )


def _changed(stored: Mapping[str, Any], checkpoint: Checkpoint) -> str:
    if "encoding" not in stored:
        return ""
    told = differences(TextEncoding.from_json(stored["encoding"]), checkpoint.text_encoding)
    return "".join(f", {name} was {then}, is {now}" for name, then, now in told)


def _ragged(ids: Sequence[str], rows: Sequence[Tensor], width: int) -> Embeddings:
    values = torch.cat(list(rows)).float().numpy() if rows else np.zeros((0, width), dtype=np.float32)
    offsets = np.cumsum([0, *(len(each) for each in rows)], dtype=np.int64)
    return Embeddings(tuple(ids), values, offsets)
