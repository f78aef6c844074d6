"""Where an encoder's positions are: which module's tensor is tapped, and what lies before it.

Names follow Du et al. 2023 (DP-Forward, Figure 1): ``embedding``; ``encoder.I.mha``, ``encoder.I.add_norm_1``,
``encoder.I.ffn``, ``encoder.I.add_norm_2`` for layer I from 0; ``output`` for the pooled vector. ``encoder.I.qkv`` is
queries, keys and values side by side, for noise at token level. Where one layer's
modules serve for several layers, I counts the calls. Any other name is a module path inside the transformers model.

>>> bool(_NAMED.fullmatch("encoder.11.add_norm_2")), bool(_NAMED.fullmatch("encoder.layer.11"))
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

from dpeval.errors import ModelError, near_miss
from dpeval.models.families import FAMILIES, LAYER_INPUT, LAYER_OUTPUT, STACKS, SUBLAYERS, Family, Sublayer

_NAMED = re.compile(r"encoder\.(\d+)\.(mha|add_norm_1|ffn|add_norm_2|qkv)")


@dataclass(frozen=True)
class TapPoint:
    """One position: in a call of a block (``at`` set), or at the output of a module of the transformers model."""

    name: str
    source: str | None
    """Path of the module whose output is tapped, from the model; ``None``: the pooled vector, or a place in a block."""
    layer: int | None = None
    """The call of a block that holds the position; -1 before the first, the number of calls after the last."""
    at: Sublayer | None = None
    joined: tuple[str, ...] = ()
    """Paths of the linear maps whose outputs are tapped side by side, from the model."""

    @property
    def drops_residual(self) -> bool:
        """Whether what follows goes without a sum that the whole model takes."""
        return self.at is not None and self.name.endswith((".mha", ".ffn", ".qkv"))


@dataclass(frozen=True, eq=False)
class Layout:
    """The positions of one encoder as it is now; make a new one after changing its modules."""

    encoder: Any
    family: Family | None
    """``None`` where only whole blocks have a name."""
    stack: str | None

    @classmethod
    def of(cls, encoder: nn.Module) -> Layout:
        """The layout of ``encoder``; a family is recognised only when all its modules are there."""
        family = next((f for f in FAMILIES if _fits(f, encoder)), None)
        if family is not None:
            return cls(encoder, family, family.stack)
        stacks = [s for s in STACKS if isinstance(_find(encoder, s), nn.ModuleList)]
        # A decoder that reads an encoder's answer is not all of the model.
        alone = [s for s in stacks if not (s.startswith("decoder.") and _find(encoder, "encoder"))]
        return cls(encoder, None, next(iter(alone), None))

    @cached_property
    def blocks(self) -> Mapping[str, nn.Module]:
        """Every block once, by its path."""
        if self.stack is None:
            return {}
        entries = enumerate(self.encoder.get_submodule(self.stack))
        paths = [f"{self.stack}.{i}" for i, _ in entries]
        if self.family is not None and self.family.inner is not None:
            inner = f"{{}}.{self.family.inner}"
            paths = [f"{at}.{j}" for at in map(inner.format, paths) for j in range(len(self.encoder.get_submodule(at)))]
        return {path: self.encoder.get_submodule(path) for path in paths}

    @property
    def shared(self) -> bool:
        """Whether one block's modules serve for several layers."""
        return self.family is not None and self.family.inner is not None

    @cached_property
    def layers(self) -> nn.ModuleList:
        """The blocks in the order in which they are called; a shared one as often as it is called."""
        blocks = list(self.blocks.values())
        if not self.shared:
            return nn.ModuleList(blocks)
        count = int(self.encoder.config.num_hidden_layers)
        groups = len(self.encoder.get_submodule(str(self.stack)))
        each = len(blocks) // groups
        return nn.ModuleList(blocks[int(i / (count / groups)) * each + j] for i in range(count) for j in range(each))

    @property
    def depth(self) -> int:
        """How many blocks are called."""
        return len(self.layers)

    def names(self) -> tuple[str, ...]:
        """All named positions, from the input to the output."""
        inside = [f"encoder.{i}.{sub}" for i in range(self.depth) for sub in SUBLAYERS if self._sublayer(i, sub)]
        before = ("embedding",) if self._embedding() or inside else ()
        return (*before, *inside, "output")

    def point(self, name: str) -> TapPoint:
        """The position called ``name``, or the module path ``name``; ModelError lists those that exist."""
        if name == "output":
            return TapPoint(name, None, layer=self.depth)
        if name == "embedding" and self._embedding():
            return TapPoint(name, self._embedding(), layer=-1)
        if name == "embedding" and self.depth:
            return TapPoint(name, None, layer=0, at=LAYER_INPUT)
        named = _NAMED.fullmatch(name)
        sub = self._sublayer(int(named[1]), named[2]) if named else None
        if named and sub:
            return self._in_block(name, int(named[1]), sub)
        if name and name in dict(self.encoder.named_modules()):
            return TapPoint(name, name, layer=self._layer_of(name))
        raise ModelError(self._unknown(name))

    def is_sure(self, name: str) -> bool:
        """Whether ``name`` is a named position of a known architecture; others are tried before they are used."""
        return self.family is not None and name in self.names()

    def _unknown(self, name: str) -> str:
        return (
            f"unknown position {name!r} in {type(self.encoder).__name__}: {near_miss(name, self.names())}; "
            "any other position is given as a module path"
        )

    def _in_block(self, name: str, index: int, sub: Sublayer) -> TapPoint:
        if sub is LAYER_OUTPUT and index == 0 and self.convolution:
            return TapPoint(name, self.convolution, layer=0)
        path = next(path for path, block in self.blocks.items() if block is self.layers[index])
        return TapPoint(name, None, layer=index, at=sub, joined=tuple(f"{path}.{part}" for part in sub.joined))

    @cached_property
    def convolution(self) -> str | None:
        """Path of a module that mixes the embeddings into the first block's output (DeBERTa-v2)."""
        path = f"{str(self.stack).rpartition('.')[0]}.conv"
        return path if self.stack and isinstance(_find(self.encoder, path), nn.Module) else None

    def _sublayer(self, index: int, name: str) -> Sublayer | None:
        if not 0 <= index < self.depth:
            return None
        if name == "add_norm_2":
            return LAYER_OUTPUT
        if self.family is None or (index == 0 and self.convolution):
            return None
        found = self.family.sublayers.get(name)
        missing = found is not None and any(_find(self.layers[index], part) is None for part in found.joined)
        return None if missing else found

    def _embedding(self) -> str | None:
        """The module whose output is the embedding; without one it is what the first block is called with."""
        found = _find(self.encoder, "embeddings")
        bare = isinstance(found, nn.Embedding) and self.depth > 0
        return None if found is None or bare else "embeddings"

    def _layer_of(self, path: str) -> int | None:
        if self.stack is None or self.shared:
            return None
        inside = re.match(re.escape(self.stack) + r"\.(\d+)(\.|$)", path)
        return int(inside[1]) if inside else None


def _find(module: nn.Module, path: str) -> nn.Module | None:
    found: Any = module
    for part in path.split(".") if path else ():
        found = getattr(found, "_modules", {}).get(part)
    return found if isinstance(found, nn.Module) else None


def _fits(family: Family, encoder: nn.Module) -> bool:
    stack = _find(encoder, family.stack)
    if not isinstance(stack, nn.ModuleList) or len(stack) == 0:
        return False
    if any(_find(encoder, path) is None for path in family.beside):
        return False
    config: Any = encoder.config
    if any(bool(getattr(config, name, value)) is not value for name, value in family.settings.items()):
        return False
    groups = [_find(entry, family.inner) if family.inner else [entry] for entry in stack]
    blocks = [block for group in groups if isinstance(group, (list, nn.ModuleList)) for block in group]
    return bool(blocks) and all(_has(block, family) for block in blocks)


def _has(block: nn.Module, family: Family) -> bool:
    return all(_find(block, path) is not None for path in family.marks) and not any(
        _find(block, path) is not None for path in family.lacks
    )
