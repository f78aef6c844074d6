"""Where an encoder's named positions are: which module's output is tapped, and what lies before it.

Names follow Du et al. 2023 (DP-Forward, Figure 1): ``embedding``; ``encoder.I.mha``, ``encoder.I.add_norm_1``,
``encoder.I.ffn``, ``encoder.I.add_norm_2`` for layer I from 0; ``output`` for the pooled vector. Any other name is a
module path inside the transformers model.

>>> BERT.sublayers["ffn"].source, BERT.sublayers["ffn"].sink
('output.dense', 'output.LayerNorm')
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from dpeval.errors import ModelError, near_miss

SUBLAYERS = ("mha", "add_norm_1", "ffn", "add_norm_2")
_NAMED = re.compile(r"encoder\.(\d+)\.(mha|add_norm_1|ffn|add_norm_2)")


@dataclass(frozen=True)
class Sublayer:
    """Paths in one layer: ``source`` gives the tensor, ``sink`` (the norm after it) takes it without the residual."""

    source: str
    sink: str | None = None
    idle: tuple[str, ...] = ()
    """Modules whose outputs nothing needs once the tensor is given; they keep the shape (B, rows, d) when left out."""
    idle_attention: str | None = None
    """The same for the attention, which returns its output and its weights."""


@dataclass(frozen=True)
class Family:
    """An architecture, told by the modules of its layers and not by its name."""

    stack: str
    embedding: str
    sublayers: Mapping[str, Sublayer]
    skippable: bool
    """Whether the layers before a tap can be left out without changing what follows it."""
    marks: tuple[str, ...]
    """Module paths that every layer of this family has."""


_BERT_ATTENTION = ("attention.output.dense",)
_BERT_FFN = Sublayer("output.dense", "output.LayerNorm", ("intermediate", "output.dense"), "attention")
_POST_NORM = {
    "mha": Sublayer("attention.output.dropout", "attention.output.LayerNorm", _BERT_ATTENTION, "attention.self"),
    "add_norm_1": Sublayer("attention.output.LayerNorm", None, _BERT_ATTENTION, "attention.self"),
    "ffn": _BERT_FFN,
    "add_norm_2": Sublayer("output.LayerNorm"),
}
BERT = Family("encoder.layer", "embeddings", _POST_NORM, True, ("attention.output.LayerNorm", "output.LayerNorm"))
MPNET = Family(
    "encoder.layer",
    "embeddings",
    {
        "mha": Sublayer("attention.dropout", "attention.LayerNorm", idle_attention="attention.attn"),
        "add_norm_1": Sublayer("attention.LayerNorm", idle_attention="attention.attn"),
        "ffn": _BERT_FFN,
        "add_norm_2": Sublayer("output.LayerNorm"),
    },
    True,
    ("attention.attn", "attention.LayerNorm", "output.LayerNorm"),
)
DISTILBERT = Family(
    "transformer.layer",
    "embeddings",
    {
        "mha": Sublayer("attention", "sa_layer_norm", idle_attention="attention"),
        "add_norm_1": Sublayer("sa_layer_norm", idle_attention="attention"),
        "ffn": Sublayer("ffn", "output_layer_norm", ("ffn",), "attention"),
        "add_norm_2": Sublayer("output_layer_norm"),
    },
    True,
    ("sa_layer_norm", "output_layer_norm"),
)
GPT2 = Family("h", "drop", {}, True, ("ln_1", "ln_2", "attn.c_attn"))
FAMILIES = (BERT, MPNET, DISTILBERT, GPT2)


@dataclass(frozen=True)
class TapPoint:
    """One position: module paths inside the transformers model (``None`` as source: the pooled vector)."""

    name: str
    source: str | None
    sink: str | None = None
    layer: int | None = None
    """The layer that holds the position; -1 for the embedding, the number of layers for the pooled vector."""
    idle: tuple[str, ...] = ()
    idle_attention: str | None = None


@dataclass(frozen=True, eq=False)
class Layout:
    """The positions of one encoder."""

    encoder: Any
    family: Family | None

    @classmethod
    def of(cls, encoder: nn.Module) -> Layout:
        """The layout of ``encoder``; a family is recognised only when all its modules are there."""
        return cls(encoder, next((f for f in FAMILIES if _fits(f, encoder)), None))

    @property
    def layers(self) -> nn.ModuleList:
        """The stack of layers; empty for an unknown family."""
        found: nn.ModuleList = self.encoder.get_submodule(self.family.stack) if self.family else nn.ModuleList()
        return found

    @property
    def parent(self) -> nn.Module:
        """The module that holds the stack."""
        path = self.family.stack.rpartition(".")[0] if self.family else ""
        found: nn.Module = self.encoder.get_submodule(path)
        return found

    @property
    def stack_name(self) -> str:
        """The attribute of :attr:`parent` that is the stack."""
        return self.family.stack.rpartition(".")[2] if self.family else ""

    @property
    def depth(self) -> int:
        """Number of layers in the stack."""
        return len(self.layers)

    @property
    def skippable(self) -> bool:
        """Whether layers before a tap may be left out: not where the stack counts layers or rereads the embeddings."""
        parent = self.parent
        counts = getattr(parent, "conv", None) is not None or bool(getattr(parent, "relative_attention", False))
        return self.family is not None and self.family.skippable and not counts

    def names(self) -> tuple[str, ...]:
        """All named positions, from the input to the output."""
        if self.family is None:
            return ("embedding", "output") if self._embedding() else ("output",)
        layers = [f"encoder.{i}.{sub}" for i in range(self.depth) for sub in SUBLAYERS if sub in self.family.sublayers]
        return ("embedding", *layers, "output")

    def point(self, name: str) -> TapPoint:
        """The position called ``name``, or the module path ``name``; ModelError names the nearest known ones."""
        if name == "output":
            return TapPoint(name, None, layer=self.depth)
        if name == "embedding" and self._embedding():
            return TapPoint(name, self._embedding(), layer=-1)
        named = _NAMED.fullmatch(name)
        if self.family and named and name in self.names():
            return self._sublayer(name, int(named[1]), self.family.sublayers[named[2]])
        if name and name in dict(self.encoder.named_modules()):
            return TapPoint(name, name, layer=self._layer_of(name))
        raise ModelError(
            f"unknown position {name!r} in {type(self.encoder).__name__}: {near_miss(name, self.names())}; "
            "any other position is given as a module path"
        )

    def _embedding(self) -> str | None:
        if self.family:
            return self.family.embedding
        return "embeddings" if "embeddings" in dict(self.encoder.named_children()) else None

    def _sublayer(self, name: str, index: int, sub: Sublayer) -> TapPoint:
        assert self.family is not None  # noqa: S101 - narrows the type; named positions exist only in a family
        path = f"{self.family.stack}.{index}"

        def full(part: str | None) -> str | None:
            return None if part is None else f"{path}.{part}"

        idle = tuple(f"{path}.{part}" for part in sub.idle)
        return TapPoint(name, f"{path}.{sub.source}", full(sub.sink), index, idle, full(sub.idle_attention))

    def _layer_of(self, path: str) -> int | None:
        if self.family is None:
            return None
        inside = re.match(re.escape(self.family.stack) + r"\.(\d+)(\.|$)", path)
        return int(inside[1]) if inside else None


def _fits(family: Family, encoder: nn.Module) -> bool:
    paths = dict(encoder.named_modules())
    layers = paths.get(family.stack)
    if not isinstance(layers, nn.ModuleList) or len(layers) == 0 or family.embedding not in paths:
        return False
    wanted = [sub for s in family.sublayers.values() for sub in (s.source, s.sink) if sub] + list(family.marks)
    return all(f"{family.stack}.{i}.{path}" in paths for i in range(len(layers)) for path in wanted)
