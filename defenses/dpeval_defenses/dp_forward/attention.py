"""Token-level noise in the attention: rows are bounded before the maps to queries, keys and values, noise comes after.

A softmax over the text has no useful Lipschitz constant, so the noise is put on what is linear in one token: the joint
map x ↦ (xW_Q, xW_K, xW_V) (Du et al. 2023, section 3.2). Replacing a token moves one bounded row by at most 2C, and its
three images together by at most 2C·σ_max of the stacked matrix. One joint calibration for the three releases.

>>> double = torch.nn.Linear(3, 3, bias=False)
>>> _ = torch.nn.init.eye_(double.weight).requires_grad_(False).mul_(2)
>>> round(joint_stretch([double, double]) / (1 + ROUNDING), 6)
2.828427
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dpeval.errors import LeakError, ModelError
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import Batch, to_device
from dpeval.models.joined import largest_singular_value, side_by_side
from dpeval.models.layout import Layout
from dpeval.models.taps import capture

# A float32 product of a row and a matrix is off by far less than this.
ROUNDING = 1e-4


def joint_maps(model: TextClassifier, tap: str) -> list[nn.Module]:
    """The maps to queries, keys and values that ``tap`` joins; ModelError for any other position."""
    point = Layout.of(model.encoder).point(tap)
    if not point.joined:
        raise ModelError(f"{tap!r} does not join queries, keys and values; expected encoder.I.qkv")
    return [model.encoder.get_submodule(path) for path in point.joined]


def joint_stretch(maps: Sequence[nn.Module]) -> float:
    """By how much the joint map can stretch the distance of two inputs, rounding included."""
    return largest_singular_value(maps) * (1 + ROUNDING)


def joint_input(model: TextClassifier, batch: Batch, tap: str) -> Tensor:
    """What the joint maps of ``tap`` get for ``batch``, shape (B, L, d); nothing after it is computed."""
    handles = [each.register_forward_pre_hook(_stop) for each in joint_maps(model, tap)]
    try:
        model(**batch)
    except _ReachedError as reached:
        return reached.tensor
    finally:
        for handle in handles:
            handle.remove()
    raise ModelError(f"{tap}: none of its maps ran")


def joint_output(model: TextClassifier, tap: str, x: Tensor) -> Tensor:
    """Queries, keys and values of ``x`` (B, n, d), side by side: (B, n, 3d)."""
    return side_by_side(joint_maps(model, tap), x)


class _ReachedError(Exception):
    def __init__(self, tensor: Tensor) -> None:
        super().__init__("the maps are reached")
        self.tensor = tensor


def _stop(_module: nn.Module, args: tuple[Any, ...]) -> None:
    raise _ReachedError(args[0])


def check_rows_are_local(model: TextClassifier, tap: str, checkpoint: Checkpoint) -> None:
    """Raise LeakError unless each row at ``tap`` depends on its own token alone, as token-level claims need.

    Tokens of a random text are replaced one at a time; every other row must stay the same to the bit.
    """
    draw = torch.Generator().manual_seed(0)
    length = min(12, checkpoint.max_length)
    ordinary = [i for i in range(checkpoint.vocab_size) if i not in checkpoint.special_ids]
    choice = torch.tensor(ordinary)[torch.randint(0, len(ordinary), (length + 1,), generator=draw)]
    with torch.no_grad():
        first = _rows_of(model, tap, choice[:length])
        for place in range(length):
            other = choice[:length].clone()
            other[place] = choice[length]
            second = _rows_of(model, tap, other)
            moved = [row for row in range(first.shape[0]) if not torch.equal(first[row], second[row])]
            if first.shape[0] != length or not set(moved) <= {place}:
                raise LeakError(
                    f"token level at position {tap!r}: replacing token {place} changes "
                    f"{'the pooled row' if first.shape[0] != length else f'rows {moved}'}, so bounding each row does "
                    "not bound what one token can do; expected a position where a row is made of its own token: "
                    'embedding, or level = "token-attention" with position = "encoder.0.qkv"'
                )


def _rows_of(model: TextClassifier, tap: str, ids: Tensor) -> Tensor:
    batch = {"input_ids": ids.unsqueeze(0), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    return capture(model, to_device(batch, model.device), tap)[0]
