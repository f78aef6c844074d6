"""Training what follows the noise: from cached tensors where the part before it is frozen, end to end where it is not.

>>> released_parameters({"a", "b", "shared"}, before={"a", "shared"}, after={"b", "shared"})
{'b'}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.dependence import parameters_after, parameters_before, released_shape
from dpeval.models.encoding import EncodedTexts
from dpeval.models.fit import Forward
from dpeval.models.layout import Layout
from dpeval.plugin import Context
from dpeval.types import Records
from dpeval_defenses.dp_forward.client import Client, logits_of
from dpeval_defenses.dp_forward.noise import NoisyRelease

KEPT_BYTES = 1 << 30


def released_parameters(names: set[str], *, before: set[str], after: set[str]) -> set[str]:
    """Parameters that only what follows the noise depends on; one that both halves share counts as before it."""
    return names & (after - before)


def freeze_before(classifier: TextClassifier, tap: str) -> None:
    """Let gradients reach only the parameters that come after the tap and take no part in making the tapped tensor."""
    names = {name for name, _ in classifier.named_parameters()}
    before, after = parameters_before(classifier, tap), parameters_after(classifier, tap)
    free = released_parameters(names, before=before, after=after)
    for name, parameter in classifier.named_parameters():
        parameter.requires_grad_(name in free)


def freeze_but_last(classifier: TextClassifier, tap: str, count: int) -> None:
    """Of what comes before the tap let gradients reach only the last ``count`` layers."""
    layout = Layout.of(classifier.encoder)
    layer = layout.point(tap).layer
    end = layout.depth if layer is None else min(layer + 1, layout.depth)
    learning = {id(p) for module in layout.layers[max(0, end - count) : end] for p in module.parameters()}
    after = parameters_after(classifier, tap)
    for name, parameter in classifier.named_parameters():
        parameter.requires_grad_(name in after or id(parameter) in learning)


@dataclass(frozen=True, eq=False)
class TrainingTexts:
    """The texts that are trained on, with all that turns them into released tensors but the noise."""

    classifier: TextClassifier
    client: Client
    records: Records
    texts: EncodedTexts
    checkpoint: Checkpoint
    rows: int
    """Rows of a released tensor where their number is fixed; one for a pooled position."""
    ctx: Context

    @classmethod
    def of(
        cls, classifier: TextClassifier, client: Client, records: Records, checkpoint: Checkpoint, ctx: Context
    ) -> TrainingTexts:
        """Of ``records``, as ``checkpoint`` reads them."""
        rows = released_shape(classifier, client.tap, checkpoint.max_length).rows
        return cls(classifier, client, records, checkpoint.encode(records), checkpoint, rows, ctx)

    def clear(self) -> list[Tensor]:
        """What the client bounds of each text, on the CPU; the frozen half runs once."""
        found: dict[int, Tensor] = {}
        with torch.no_grad():
            for rows, batch in self.client.evaluation_batches(self.texts, self.checkpoint.max_length):
                lengths = [self.texts.lengths[row] for row in rows]
                found.update(zip(rows, (c.cpu().clone() for c in self._clear(batch, lengths)), strict=True))
        return [found[row] for row in range(len(self.texts))]

    def _clear(self, batch: dict[str, Tensor], lengths: Sequence[int]) -> list[Tensor]:
        return self.client.clear(self.classifier, batch, lengths)

    def noised(self, clear: Sequence[Tensor], rows: Sequence[int], epoch: int, transform: NoisyRelease) -> list[Tensor]:
        """The released tensors for the ``clear`` ones of the texts at ``rows``.

        A draw comes from a generator named after record and epoch, so a tensor can be kept or made again: it is the
        same.
        """
        generators = [self.ctx.generator("training noise", self.records.ids[row], epoch) for row in rows]
        lengths = [self.texts.lengths[row] for row in rows]
        return self.client.released(self.classifier, clear, lengths, self.rows, transform, generators)

    def end_to_end(self, transform: Callable[[], NoisyRelease]) -> Forward:
        """Logits with the part before the noise run on the clear texts, so that gradients reach it too."""

        def forward(rows: Sequence[int], epoch: int) -> Tensor:
            batch = self.client.batch_of(self.texts, rows, self.checkpoint.max_length)
            clear = self._clear(batch, [self.texts.lengths[row] for row in rows])
            return logits_of(self.classifier, self.client.tap, self.noised(clear, rows, epoch, transform()))

        return forward

    def cached(self, clear: list[Tensor], transform: NoisyRelease, *, fresh: bool) -> Forward:
        """Logits of the released tensors: only what follows the noise is computed."""
        tensors = NoisyTensors(self, clear, transform, fresh)

        def forward(rows: Sequence[int], epoch: int) -> Tensor:
            return logits_of(self.classifier, self.client.tap, tensors.at(rows, epoch))

        return forward


@dataclass(eq=False)
class NoisyTensors:
    """The released training tensors: one draw of noise for each text, or one for each text and epoch."""

    training: TrainingTexts
    clear: list[Tensor]
    transform: NoisyRelease
    fresh: bool
    kept: dict[int, Tensor] = field(default_factory=dict)
    kept_bytes: int = 0

    def at(self, rows: Sequence[int], epoch: int) -> list[Tensor]:
        """The released tensors (rows, d) of the training texts at ``rows``."""
        if self.fresh:
            return self._draw(rows, epoch)
        missing = [row for row in rows if row not in self.kept]
        drawn = dict(zip(missing, self._draw(missing, 0), strict=True)) if missing else {}
        size = sum(each.numel() * each.element_size() for each in drawn.values())
        if self.kept_bytes + size <= KEPT_BYTES:
            # Parts of a batch are copied, so that what is kept is no larger than it says.
            drawn = {row: each.clone() for row, each in drawn.items()}
            self.kept |= drawn
            self.kept_bytes += size
        return [drawn[row] if row in drawn else self.kept[row] for row in rows]

    def _draw(self, rows: Sequence[int], epoch: int) -> list[Tensor]:
        device = self.training.classifier.device
        with torch.no_grad():
            return self.training.noised([self.clear[row].to(device) for row in rows], rows, epoch, self.transform)
