"""The architectures whose sub-layers have names: told by the modules of their layers, not by their names.

A block (layer) is described by which module gives the tensor of each sub-layer, and by what the rest of the block must
be given so that it goes on from that tensor alone: which modules are *given* the tensor, which fall *silent* (give
zeros, so that a residual sum keeps only the tensor) and which are *idle* (nobody uses what they say).

>>> BERT.sublayers["mha"].given, BERT.sublayers["mha"].silent
(('attention.output.dropout',), ('<input>',))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

INPUT = "<input>"
"""Stands for what a block is called with, where a module path is expected."""
BLOCK = ""
"""The block itself."""
SUBLAYERS = ("mha", "add_norm_1", "ffn", "add_norm_2")


@dataclass(frozen=True)
class Sublayer:
    """One position in a block; all paths are relative to the block."""

    source: str
    """Whose output the tensor is."""
    before: bool = False
    """Whether the tensor is what goes *into* ``source`` instead."""
    given: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    """Linear maps of one input whose outputs are tapped side by side, instead of ``source``."""


def _with_maps(sublayers: dict[str, Sublayer], maps: tuple[str, ...]) -> dict[str, Sublayer]:
    """Adds ``qkv``: the queries, keys and values of an attention, from which the block goes on without its input."""
    return sublayers | ({"qkv": Sublayer(maps[0], silent=(INPUT,), joined=maps)} if maps else {})


LAYER_OUTPUT = Sublayer(BLOCK, given=(BLOCK,))
LAYER_INPUT = Sublayer(BLOCK, before=True, given=(INPUT,))


@dataclass(frozen=True)
class Family:
    """An architecture: the list of its blocks, and the sub-layers of a block."""

    stack: str
    sublayers: Mapping[str, Sublayer]
    marks: tuple[str, ...] = ()
    """Module paths that every block of this family has."""
    lacks: tuple[str, ...] = ()
    """Module paths that no block of this family has."""
    beside: tuple[str, ...] = ()
    """Module paths of the model outside its blocks that tell this family from one with like blocks."""
    inner: str | None = None
    """Where one entry of the stack is itself a list of blocks: its path (ALBERT's groups)."""
    settings: Mapping[str, bool] = field(default_factory=dict)
    """What the config must say where it says anything: parallel blocks, or norms elsewhere, are another family."""


def post_norm(
    stack: str, *, attention: tuple[str, ...], summed: str, norm_1: str, feed: tuple[str, ...], fed: str, norm_2: str,
    marks: tuple[str, ...] = (), inner: str | None = None, maps: tuple[str, ...] = (),
) -> Family:  # fmt: skip
    """Blocks that add, then normalise: norm_1(x + summed), norm_2(y + fed). ``attention`` and ``feed`` lead there."""
    early = (*attention, summed)
    sublayers = {
        "mha": Sublayer(summed, given=(summed,), silent=(INPUT,), idle=attention),
        "add_norm_1": Sublayer(norm_1, given=(norm_1,), idle=early),
        "ffn": Sublayer(fed, given=(fed,), silent=(norm_1,), idle=(*early, *feed)),
        "add_norm_2": LAYER_OUTPUT,
    }
    return Family(stack, _with_maps(sublayers, maps), (summed, norm_1, fed, norm_2, *marks), inner=inner)


def pre_norm(
    stack: str, *, summed: str, norm_2: str, fed: str, attention: tuple[str, ...] = (), feed: tuple[str, ...] = (),
    marks: tuple[str, ...] = (), lacks: tuple[str, ...] = (), beside: tuple[str, ...] = (),
    settings: Mapping[str, bool] | None = None, maps: tuple[str, ...] = (),
) -> Family:  # fmt: skip
    """Blocks that normalise, then add: y = x + summed, z = y + fed, where ``norm_2`` reads y.

    The stream that goes on is not normalised, so ``add_norm_1`` and ``add_norm_2`` are the sums y and z.
    """
    sublayers = {
        "mha": Sublayer(summed, given=(summed,), silent=(INPUT,), idle=attention),
        "add_norm_1": Sublayer(norm_2, before=True, given=(INPUT,), silent=(summed,), idle=attention),
        "ffn": Sublayer(fed, given=(fed,), silent=(INPUT, summed), idle=(*attention, *feed)),
        "add_norm_2": LAYER_OUTPUT,
    }
    marks = (summed, norm_2, fed, *marks)
    return Family(stack, _with_maps(sublayers, maps), marks, lacks, beside, settings=settings or {})


_SELF = ("attention.self.query", "attention.self.key", "attention.self.value")
_PROJECTED = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
BERT = post_norm(
    "encoder.layer",
    attention=("attention.self", "attention.output.dense"),
    summed="attention.output.dropout",
    norm_1="attention.output.LayerNorm",
    feed=("intermediate",),
    fed="output.dense",
    norm_2="output.LayerNorm",
    maps=_SELF,
)
FNET = post_norm(
    "encoder.layer",
    attention=(),
    summed="fourier.self",
    norm_1="fourier.output.LayerNorm",
    feed=("intermediate",),
    fed="output.dense",
    norm_2="output.LayerNorm",
)
MPNET = post_norm(
    "encoder.layer",
    attention=("attention.attn",),
    summed="attention.dropout",
    norm_1="attention.LayerNorm",
    feed=("intermediate",),
    fed="output.dense",
    norm_2="output.LayerNorm",
    marks=("attention.attn",),
    maps=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
)
DISTILBERT = post_norm(
    "transformer.layer",
    attention=(),
    summed="attention",
    norm_1="sa_layer_norm",
    feed=(),
    fed="ffn",
    norm_2="output_layer_norm",
    maps=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
)
ALBERT = post_norm(
    "encoder.albert_layer_groups",
    attention=("attention.query", "attention.key", "attention.value", "attention.dense"),
    summed="attention.output_dropout",
    norm_1="attention.LayerNorm",
    feed=("ffn", "activation"),
    fed="ffn_output",
    norm_2="full_layer_layer_norm",
    inner="albert_layers",
    maps=("attention.query", "attention.key", "attention.value"),
)
NOMIC = post_norm(
    "layers",
    attention=("self_attn",),
    summed="post_attention_dropout",
    norm_1="post_attention_layernorm",
    feed=("mlp",),
    fed="post_mlp_dropout",
    norm_2="post_mlp_layernorm",
    maps=_PROJECTED,
)
GPT1 = post_norm(
    "h", attention=(), summed="attn", norm_1="ln_1", feed=(), fed="mlp", norm_2="ln_2", marks=("attn.c_attn",)
)
GPT2 = pre_norm("h", summed="attn", norm_2="ln_2", fed="mlp", marks=("ln_1",), beside=("ln_f",), maps=("attn.c_attn",))
LLAMA = pre_norm(
    "layers",
    summed="self_attn",
    norm_2="post_attention_layernorm",
    fed="mlp",
    marks=("input_layernorm",),
    lacks=("pre_feedforward_layernorm", "post_feedforward_layernorm"),
    settings={"use_parallel_residual": False},
    maps=_PROJECTED,
)
SANDWICH = pre_norm(
    "layers",
    attention=("self_attn",),
    summed="post_attention_layernorm",
    norm_2="pre_feedforward_layernorm",
    feed=("mlp",),
    fed="post_feedforward_layernorm",
    marks=("input_layernorm",),
    maps=_PROJECTED,
)
NEOX = pre_norm(
    "layers",
    summed="attention",
    norm_2="post_attention_layernorm",
    fed="mlp",
    marks=("input_layernorm",),
    settings={"use_parallel_residual": False},
    maps=("attention.query_key_value",),
)
OPT = pre_norm(
    "decoder.layers",
    summed="self_attn",
    norm_2="final_layer_norm",
    fed="fc2",
    feed=("fc1",),
    marks=("self_attn_layer_norm",),
    settings={"do_layer_norm_before": True},
    maps=_PROJECTED,
)
BIOGPT = pre_norm(
    "layers",
    summed="self_attn",
    norm_2="final_layer_norm",
    fed="fc2",
    feed=("fc1",),
    marks=("self_attn_layer_norm",),
    maps=_PROJECTED,
)
BLOOM = pre_norm(
    "h",
    summed="self_attention.dense",
    norm_2="post_attention_layernorm",
    fed="mlp.dense_4h_to_h",
    marks=("input_layernorm",),
    settings={"apply_residual_connection_post_layernorm": False},
    maps=("self_attention.query_key_value",),
)
MODERNBERT = pre_norm("layers", summed="attn", norm_2="mlp_norm", fed="mlp", marks=("attn_norm",), maps=("attn.Wqkv",))
MEGATRON = pre_norm(
    "encoder.layer",
    attention=("attention.self", "attention.output.dense"),
    summed="attention.output.dropout",
    norm_2="ln",
    feed=("intermediate", "output.dense"),
    fed="output.dropout",
    marks=("attention.ln",),
    maps=_SELF,
)
ROBERTA_XL = pre_norm(
    "encoder.layer",
    attention=("attention.self", "attention.output.dense"),
    summed="attention.output.dropout",
    norm_2="LayerNorm",
    feed=("intermediate",),
    fed="output.dense",
    lacks=("output.LayerNorm",),
    maps=_SELF,
)
ROBERTA_PRE = pre_norm(
    "encoder.layer",
    attention=("attention.self", "attention.output.dense"),
    summed="attention.output.dropout",
    norm_2="intermediate",
    feed=("output.dense",),
    fed="output.dropout",
    marks=("attention.LayerNorm", "intermediate.LayerNorm"),
    maps=_SELF,
)
FAMILIES = (
    BERT, FNET, MPNET, DISTILBERT, ALBERT, NOMIC, GPT2, GPT1, SANDWICH, LLAMA, NEOX, OPT, BIOGPT, BLOOM, MODERNBERT,
    MEGATRON, ROBERTA_PRE, ROBERTA_XL,
)  # fmt: skip

STACKS = (
    "encoder.layer", "encoder.layers", "transformer.layer", "encoder.block", "decoder.layers", "layers", "layer", "h",
    "blocks",
)  # fmt: skip
"""Where other transformers keep their blocks; there only the output of a whole block has a name."""
