"""Training what follows the noise: from cached tensors where the part before it is frozen, end to end where it is not.

>>> released_parameters({"a", "b", "shared"}, before={"a", "shared"}, after={"b", "shared"})
{'b'}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.dependence import parameters_after, parameters_before
from dpeval.models.encoding import EncodedTexts, to_device
from dpeval.models.layout import Layout
from dpeval.models.taps import capture, closed, forward_from
from dpeval.models.transform import Transform
from dpeval.plugin import Context
from dpeval.types import Records

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


def clear_tensors(classifier: TextClassifier, texts: EncodedTexts, tap: str, length: int) -> list[Tensor]:
    """The tapped tensor of each text without padding rows, on the CPU; the frozen half runs once."""
    found: dict[int, Tensor] = {}
    with torch.no_grad():
        for rows, batch in texts.evaluation_batches(length):
            tensor = capture(classifier, to_device(batch, classifier.device), tap).cpu()
            for row, values in zip(rows, tensor, strict=False):
                found[row] = values[: len(texts.ids[row])].clone()
    return [found[row] for row in range(len(texts))]


@dataclass(eq=False)
class NoisyTensors:
    """The released training tensors: one draw of noise for each text, or one for each text and epoch.

    A draw comes from a generator named after record and epoch, so a tensor can be kept or made again: it is the same.
    """

    records: Records
    clear: list[Tensor]
    transform: Transform
    rows: int
    """Rows of a released tensor: the fixed length, or one for a pooled position."""
    fresh: bool
    ctx: Context
    kept: dict[int, Tensor] = field(default_factory=dict)

    def at(self, rows: Sequence[int], epoch: int) -> Tensor:
        """The released tensors (B, rows, d) of the training texts at ``rows``."""
        if self.fresh:
            return self._draw(rows, epoch)
        missing = [row for row in rows if row not in self.kept]
        drawn = dict(zip(missing, self._draw(missing, 0), strict=True)) if missing else {}
        if self._size(len(self.kept) + len(drawn)) <= KEPT_BYTES:
            self.kept |= drawn
        return torch.stack([drawn[row] if row in drawn else self.kept[row] for row in rows])

    def _draw(self, rows: Sequence[int], epoch: int) -> Tensor:
        padded = [self._padded(self.clear[row]) for row in rows]
        generators = [self.ctx.generator("training noise", self.records.ids[row], epoch) for row in rows]
        return self.transform.apply(torch.stack(padded), generators).to(self.ctx.device)

    def _padded(self, x: Tensor) -> Tensor:
        return torch.nn.functional.pad(x, (0, 0, 0, self.rows - x.shape[0]))

    def _size(self, count: int) -> int:
        return count * self.rows * self.clear[0].shape[1] * self.clear[0].element_size()


def cached_forward(
    classifier: TextClassifier, tap: str, tensors: NoisyTensors, rows: Sequence[int], epoch: int
) -> Tensor:
    """Logits of the released training tensors at ``rows``: only what follows the tap is computed."""
    return forward_from(classifier, tap, tensors.at(rows, epoch))


def clear_forward(
    classifier: TextClassifier, tap: str, texts: EncodedTexts, transform: Transform, checkpoint: Checkpoint,
    generators: Sequence[torch.Generator], rows: Sequence[int],
) -> Tensor:  # fmt: skip
    """Logits with the part before the tap run on the clear texts, so that gradients reach it too."""
    batch = to_device(texts.batch(rows), classifier.device)
    tensor = closed(capture(classifier, batch, tap), batch["attention_mask"], checkpoint.max_length)
    return forward_from(classifier, tap, transform.apply(tensor, generators))
