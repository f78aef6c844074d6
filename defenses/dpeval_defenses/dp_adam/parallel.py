"""The processes that share one training run: one draw, each its part, one noise.

>>> world = World()
>>> world.share(np.arange(5)).tolist()
[0, 1, 2, 3, 4]
>>> World(rank=1, size=2).share(np.arange(5)).tolist()
[1, 3]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist

from dpeval.types import Floats, Ints


@dataclass(frozen=True)
class World:
    """This process's place among those that train together; by default it is alone."""

    rank: int = 0
    size: int = 1

    @classmethod
    def current(cls) -> World:
        """The place in torch's default process group (gloo, nccl), which must have been set up."""
        if not (dist.is_available() and dist.is_initialized()):
            raise RuntimeError("no torch.distributed process group: call init_process_group() first, or use World()")
        return cls(rank=dist.get_rank(), size=dist.get_world_size())

    def share(self, draw: Ints) -> Ints:
        """The part of the common draw that this process works on."""
        return draw[self.rank :: self.size]

    def add_up(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replace each tensor, in place, by its sum over all processes."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def agree(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replace each tensor, in place, by that of the first process."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)

    def total(self, values: Floats) -> Floats:
        """The sum of ``values`` over all processes."""
        if self.size == 1:
            return values
        summed = torch.from_numpy(np.asarray(values, dtype=np.float64).copy())
        if dist.get_backend() == "nccl":
            summed = summed.cuda()
        dist.all_reduce(summed)
        return summed.cpu().numpy()
