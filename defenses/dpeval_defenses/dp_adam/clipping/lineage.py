"""Whether the rows of a tensor still belong to the examples in order, read off the autograd graph behind it.

Rows that were picked by an index (tokens routed to an expert, targets picked by a mask) may belong to any example even
where their number looks right. The walk goes from an operand back to the operations with rules before it.

>>> kept_in_order(torch.zeros(4, 3, requires_grad=True) * 2, 4)
True
>>> kept_in_order(torch.zeros(4, 3, requires_grad=True)[torch.tensor([1, 0, 3, 2])] * 2, 4)
False
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

VIEWS = frozenset(("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0"))
PICKING = frozenset(("IndexSelectBackward0", "GatherBackward0", "SortBackward0", "TopkBackward0"))
MASKING = frozenset(("MaskedSelectBackward0", "TakeBackward0"))


def kept_in_order(tensor: Tensor, batch: int, *, flattened: bool | None = None) -> bool:
    """Whether the first dimension of ``tensor`` is ``batch`` examples, or those flattened with whole dimensions.

    ``flattened=False``: how dimensions were flattened is known to be right, and only picked rows are looked for.
    """
    lead = tensor.shape[0]
    flattened = lead != batch if flattened is None else flattened
    stack, seen = [tensor.grad_fn], set()
    while stack:
        node: Any = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        name = node.name()
        site = getattr(node, "site", None)
        if site is not None:
            flattened = flattened and node.lead != lead
            continue
        if name in VIEWS:
            sizes = node._saved_self_sym_sizes  # noqa: SLF001 - how autograd names what a view was taken of
            flattened = flattened and not (len(sizes) > 1 and sizes[0] == batch)
        elif name == "IndexBackward0" and (first := node._saved_indices[0]) is not None:  # noqa: SLF001
            if not _in_order(first, batch):
                return False
            flattened = False
        elif name in MASKING or (name in PICKING and node._saved_dim == 0):  # noqa: SLF001
            return False
        stack.extend(parent for parent, _ in node.next_functions)
    return not flattened


def _in_order(index: Tensor, batch: int) -> bool:
    """Whether ``index`` (or a mask) picks each example's rows in turn, equally many of each."""
    if index.dtype in (torch.bool, torch.uint8):
        index = index.nonzero()[:, 0]
    lead = index.shape[0] if index.ndim else 0
    if not lead or lead % batch:
        return False
    order = torch.arange(batch, device=index.device).repeat_interleave(lead // batch)
    return bool((index.flatten(1) if index.ndim > 1 else index[:, None]).eq(order[:, None]).all())
