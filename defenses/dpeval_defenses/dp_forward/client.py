"""The user's half of DP-Forward: from a text to the tensor that leaves the device.

>>> Client(tap="embedding").rows
'fixed'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import Batch, EncodedTexts, to_device
from dpeval.models.taps import capture, forward_from
from dpeval_defenses.dp_forward.attention import joint_input, joint_output
from dpeval_defenses.dp_forward.noise import NoisyRelease
from dpeval_defenses.dp_forward.reduction import reduction_of

Rows: TypeAlias = Literal["fixed", "public", "padded"]


@dataclass(frozen=True)
class Client:
    """Where the tensor is taken, which rows of it leave, and whether it goes through the joint maps of an attention."""

    tap: str
    rows: Rows = "fixed"
    """``fixed``: as many for every text, those of padding cleared before they are bounded; what follows treats all
    alike. ``public``: one for each token. ``padded``: bounded and noised with the rows of padding, which what follows
    leaves out by the clear mask, as the published code does: the number of tokens is as public."""
    joint: bool = False
    """The tensor is bounded before the maps to queries, keys and values, and noised after them."""

    def batch_of(self, texts: EncodedTexts, rows: Sequence[int], max_length: int) -> Batch:
        """The texts at ``rows`` as :meth:`clear` wants them."""
        return texts.batch(rows, max_length if self.rows == "padded" else None)

    def evaluation_batches(self, texts: EncodedTexts, max_length: int) -> Iterator[tuple[list[int], Batch]]:
        """Batches whose shape depends on each text alone, as :meth:`clear` wants them; see ``EncodedTexts``."""
        for rows, batch in texts.evaluation_batches(max_length):
            filled = rows + [rows[-1]] * (len(batch["input_ids"]) - len(rows))
            yield rows, self.batch_of(texts, filled, max_length) if self.rows == "padded" else batch

    def clear(self, model: TextClassifier, batch: Batch, lengths: Sequence[int]) -> list[Tensor]:
        """What is to be bounded, for the first ``len(lengths)`` texts: (tokens, d), or (1, d) for a pooled position."""
        take = joint_input if self.joint else capture
        tensor = take(model, to_device(batch, model.device), self.tap)
        reduction = reduction_of(model)
        tensor = tensor if reduction is None else reduction.reduce(tensor)
        if tensor.shape[1] == 1 or self.rows == "padded":
            return list(tensor[: len(lengths)])
        return [each[:length] for each, length in zip(tensor, lengths, strict=False)]

    def released(
        self, model: TextClassifier, clear: Sequence[Tensor], lengths: Sequence[int], rows: int,
        transform: NoisyRelease, generators: Sequence[torch.Generator],
    ) -> list[Tensor]:  # fmt: skip
        """What leaves for each clear tensor: ``rows`` rows if that number is fixed, else one for each token."""
        if self.rows == "fixed":
            return list(self._noised(model, torch.stack([padded(each, rows) for each in clear]), transform, generators))
        # One by one, so that no text's numbers depend on the lengths of others.
        alone = [
            self._noised(model, each.unsqueeze(0), transform, [g])[0] for each, g in zip(clear, generators, strict=True)
        ]
        return [each[:length] for each, length in zip(alone, lengths, strict=True)]

    def _noised(
        self, model: TextClassifier, clear: Tensor, transform: NoisyRelease, generators: Sequence[torch.Generator]
    ) -> Tensor:
        if not self.joint:
            return transform.apply(clear, generators)
        return transform.noised(joint_output(model, self.tap, transform.bound(clear)), generators)


def logits_of(model: TextClassifier, tap: str, released: Sequence[Tensor], width: int | None = None) -> Tensor:
    """Logits from released tensors (rows, d), and from nothing else.

    Tensors of several lengths are padded to ``width`` rows (by default those of the longest) and masked there.
    """
    reduction = reduction_of(model)
    released = released if reduction is None else [reduction.restore(each) for each in released]
    lengths = [len(each) for each in released]
    rows = max(lengths) if width is None else max(width, *lengths)
    if min(lengths) == rows or max(lengths) == 1:
        return forward_from(model, tap, _together(released))
    tensor = torch.stack([padded(each, rows) for each in released])
    counts = torch.tensor(lengths, device=tensor.device)
    mask = torch.arange(rows, device=tensor.device) < counts.unsqueeze(1)
    return forward_from(model, tap, tensor, mask.long())


def _together(parts: Sequence[Tensor]) -> Tensor:
    """``parts`` of one shape as one tensor; without a copy where they already lie one after the other in one."""
    first = parts[0]
    follow = all(
        each.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        and each.storage_offset() == first.storage_offset() + i * first.numel()
        and each.is_contiguous()
        for i, each in enumerate(parts)
    )
    if not follow or any(each.requires_grad for each in parts):
        return torch.stack(list(parts))
    return first.as_strided((len(parts), *first.shape), (first.numel(), *first.stride()))


def padded(tensor: Tensor, rows: int) -> Tensor:
    """``tensor`` (n, d) with zero rows added to make it ``rows`` long."""
    return torch.nn.functional.pad(tensor, (0, 0, 0, rows - len(tensor)))
