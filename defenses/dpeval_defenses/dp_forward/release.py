"""The finished model of DP-Forward, as an adversary meets it.

>>> issubclass(ForwardRelease, TextRelease)
True
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dpeval.errors import ModelError
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.dependence import Shape, released_shape
from dpeval.models.encoding import EVALUATION_ROWS
from dpeval.models.release import TextRelease
from dpeval.types import Embeddings, Predictions, Records, Text
from dpeval_defenses.dp_forward.client import Client, logits_of
from dpeval_defenses.dp_forward.noise import NoisyRelease
from dpeval_defenses.dp_forward.reduction import Reduction, load_reduction, reduction_of, save_reduction, set_apart


@dataclass(frozen=True, eq=False)
class ForwardRelease(TextRelease):
    """A closed release whose client may release fewer rows, or go through the maps of an attention first."""

    reads_once: ClassVar[bool] = True
    """Many answers about one text cost one pass to the noise; an audit may then ask more often."""

    client: Client = field(default_factory=lambda: Client(tap="output"))
    answers_covered: bool = True
    """Whether the claim covers what leaves for a text that is sent to the finished model."""

    @property
    def noise(self) -> NoisyRelease:
        """What is done to the tensor of a text that is sent for an answer."""
        if not isinstance(self.transform, NoisyRelease):
            raise TypeError(f"expected a NoisyRelease, got {self.transform!r}")
        return self.transform

    def noisier(self, factor: float) -> TextRelease | None:
        """See :meth:`Release.noisier`; ``None`` where answers are sent without noise."""
        return super().noisier(factor) if self.noise.sigma else None

    def predict(self, records: Records, *, draw: int = 0) -> Predictions:
        """Class log-probabilities in float64; each row is the same to the bit whatever else is asked."""
        out = np.zeros((len(records), self.classifier.num_labels))
        with torch.inference_mode():
            for at, released, width in self._answers(records, draw):
                logits = logits_of(self.classifier, self.client.tap, released, width)[: len(at)]
                out[at] = logits.double().log_softmax(dim=-1).cpu().numpy()
        return Predictions(records.ids, out)

    def embed(self, records: Records, tap: str, *, draw: int = 0) -> Embeddings:
        """What leaves the device: as many rows for every text, or one for each token where lengths are public."""
        if tap != self.tap:
            raise ModelError(f"this release lets nothing out but at {self.tap!r}; got tap {tap!r}")
        found: dict[int, Tensor] = {}
        with torch.inference_mode():
            for at, released, _ in self._answers(records, draw):
                found.update(zip(at, (each.float().cpu() for each in released), strict=False))
        rows = [found[i].numpy() for i in range(len(records))]
        values = np.concatenate(rows) if rows else np.zeros((0, self._shape.width), dtype=np.float32)
        offsets = np.cumsum([0, *(len(each) for each in rows)], dtype=np.int64)
        return Embeddings(records.ids, values, offsets)

    def predict_from(self, released: Embeddings) -> Predictions:
        """Class log-probabilities from what :meth:`embed` let out, and from nothing else."""
        out = np.zeros((len(released), self.classifier.num_labels))
        with torch.inference_mode():
            for i in range(len(released)):
                rows = torch.from_numpy(released.rows(i).copy()).to(self.classifier.device)
                logits = logits_of(self.classifier, self.client.tap, [rows])
                out[i] = logits[0].double().log_softmax(dim=-1).cpu().numpy()
        return Predictions(released.ids, out)

    def save(self, folder: Path) -> None:
        """As a :class:`TextRelease`, with the client beside it."""
        with set_apart(self.classifier) as reduction:
            super().save(folder)
        save_reduction(reduction, folder)
        described = {"client": dataclasses.asdict(self.client), "answers_covered": self.answers_covered}
        (folder / "client.json").write_text(json.dumps(described), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, device: torch.device, *, checkpoint: Checkpoint | None = None) -> ForwardRelease:
        """The release that :meth:`save` wrote."""
        plain = super().load(folder, device, checkpoint=checkpoint)
        load_reduction(plain.classifier, folder)
        stored = json.loads((folder / "client.json").read_text(encoding="utf-8"))
        client, covered = Client(**stored["client"]), bool(stored["answers_covered"])
        return cls(
            plain.classifier, plain.checkpoint, plain.stated, plain.tap, plain.transform, plain.seed, client, covered
        )

    @cached_property
    def _shape(self) -> Shape:
        shape, reduction = released_shape(self.classifier, self.client.tap, self.checkpoint.max_length), self._reduction
        return shape if reduction is None else Shape(shape.rows, reduction.reduced)

    @property
    def _reduction(self) -> Reduction | None:
        return reduction_of(self.classifier)

    def _answers(self, records: Records, draw: int) -> Iterator[tuple[list[int], list[Tensor], int]]:
        """``(record numbers, released tensors, rows to pad to)``; the last tensor is repeated to fill the batch.

        A text that is asked about under many names is read once.
        """
        places: dict[Text, list[int]] = {}
        for i, text in enumerate(records.texts):
            places.setdefault(text, []).append(i)
        texts = self.checkpoint.encode(records.take(group[0] for group in places.values()))
        groups = list(places.values())
        self.classifier.eval()
        for rows, batch in self.client.evaluation_batches(texts, self.checkpoint.max_length):
            lengths = [texts.lengths[row] for row in rows]
            clear = self.client.clear(self.classifier, batch, lengths)
            asked = [(i, k) for k, row in enumerate(rows) for i in groups[row]]
            for start in range(0, len(asked), EVALUATION_ROWS):
                some = asked[start : start + EVALUATION_ROWS]
                filled = some + [some[-1]] * (EVALUATION_ROWS - len(some))
                released = self.client.released(
                    self.classifier,
                    [clear[k] for _, k in filled],
                    [lengths[k] for _, k in filled],
                    self._shape.rows,
                    self.noise,
                    [self._noise(records.ids[i], records.texts[i], draw) for i, _ in filled],
                )
                yield [i for i, _ in some], released, batch["input_ids"].shape[1]
