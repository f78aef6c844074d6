"""Tables that are looked up: ``F.embedding``, and rows of a bare parameter by index.

>>> [f.__name__ for f in RULES.values()]
['embedding', 'rows']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from dpeval_defenses.dp_adam.clipping.functions import Lookup
from dpeval_defenses.dp_adam.clipping.layout import Use
from dpeval_defenses.dp_adam.clipping.placing import placed

if TYPE_CHECKING:
    from dpeval_defenses.dp_adam.clipping.tape import Tape


def embedding(
    tape: Tape,
    use: Use,
    input: Tensor,  # noqa: A002
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """``F.embedding`` of examples' ids, or of ids that all examples share (relative positions)."""
    del norm_type, sparse
    if max_norm is not None or scale_grad_by_freq or not tape.tracks(weight):
        return NotImplemented
    if padding_idx is not None and padding_idx < 0:
        padding_idx += len(weight)
    ids, axis, free = placed(tape, use, input, weight)
    out = Lookup.apply(ids, tape.data(weight), padding_idx, tape.anchor, tape.site(axis, weight, None))  # type: ignore[no-untyped-call]
    return tape.share(out, use.key) if free else out


def rows(tape: Tape, use: Use, input: Tensor, index: Any) -> Any:  # noqa: A002
    """``table[ids]`` with one tensor of ids into a table of parameters."""
    if not tape.tracks(input) or not isinstance(index, Tensor) or index.dtype not in (torch.int64, torch.int32):
        return NotImplemented
    ids, axis, free = placed(tape, use, index, input)
    site = tape.site(axis, input, None)
    out = Lookup.apply(ids % len(input), tape.data(input), None, tape.anchor, site)  # type: ignore[no-untyped-call]
    return tape.share(out, use.key) if free else out


RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    functional.embedding: embedding,
    torch.Tensor.__getitem__: rows,
}
