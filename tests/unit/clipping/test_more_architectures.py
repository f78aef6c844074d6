"""Forty more architectures of transformers, none of which the engine knows by name: exact, or refused; never wrong."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from dpeval_defenses.dp_adam.clipping import ClippedGradients, ClippingError

V, H = 37, 16
BASE = {"vocab_size": V, "hidden_size": H, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
        "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
GROUPED = {**BASE, "num_key_value_heads": 1, "head_dim": 8}
NARROW = {"vocab_size": V, "hidden_size": H, "n_layer": 2, "n_head": 2, "pad_token_id": 0}
GPT = {"vocab_size": V, "n_embd": H, "n_layer": 2, "n_head": 2, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}
BART = {"vocab_size": V, "d_model": H, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
        "forced_eos_token_id": None}  # fmt: skip
T5 = {"vocab_size": V, "d_model": H, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2,
      "decoder_start_token_id": 0, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12,
      "pad_token_id": 0}  # fmt: skip
XLM = {"vocab_size": V, "emb_dim": H, "n_layers": 2, "n_heads": 2, "pad_index": 0, "max_position_embeddings": 64}
FALCON = {"vocab_size": V, "hidden_size": H, "num_hidden_layers": 2, "num_attention_heads": 2, "bos_token_id": 1,
          "eos_token_id": 2}  # fmt: skip
LOCAL = {**BASE, "local_attention": 4, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2}
SQUEEZE = {f"{part}_groups": 1 for part in ("q", "k", "v", "post_attention", "intermediate", "output")}

CAUSAL: dict[str, dict[str, Any]] = {
    "GPTNeoX": BASE, "Bloom": NARROW, "GPTJ": {**GPT, "rotary_dim": 4},
    "CodeGen": {**GPT, "rotary_dim": 4, "n_head": 4},
    "GPTNeo": {"vocab_size": V, "hidden_size": H, "num_layers": 2, "num_heads": 2, "window_size": 4,
               "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64, "intermediate_size": 24},
    "Qwen2": GROUPED, "Qwen3": GROUPED, "Mistral": {**GROUPED, "sliding_window": 4}, "Gemma": GROUPED,
    "Gemma2": GROUPED, "Phi": BASE, "Phi3": {**BASE, "num_key_value_heads": 2}, "Falcon": {**FALCON, "alibi": True},
    "Olmo2": BASE, "StableLm": {**BASE, "num_key_value_heads": 2}, "SmolLM3": GROUPED, "Cohere": BASE,
    "Mpt": {"vocab_size": V, "d_model": H, "n_layers": 2, "n_heads": 2, "max_seq_len": 64}, "Granite": BASE,
    "Nemotron": GROUPED, "Persimmon": BASE, "BioGpt": BASE,
    "Mamba": {"vocab_size": V, "hidden_size": H, "num_hidden_layers": 2, "state_size": 4},
}  # fmt: skip
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "XLNet": {"vocab_size": V, "d_model": H, "n_layer": 2, "n_head": 2, "d_inner": 24}, "ModernBert": LOCAL,
    "Deberta": {**BASE, "relative_attention": True, "max_relative_positions": 8, "pos_att_type": ["p2c", "c2p"],
                "position_biased_input": False},
    "ConvBert": {**BASE, "embedding_size": H, "head_ratio": 1, "conv_kernel_size": 3},
    "SqueezeBert": {**BASE, "embedding_size": H, **SQUEEZE},
    "MobileBert": {**BASE, "embedding_size": 8, "intra_bottleneck_size": 8, "true_hidden_size": 8},
    "RemBert": {**BASE, "input_embedding_size": 8, "output_embedding_size": 8}, "XLM": XLM, "Flaubert": XLM,
    "XLMRoberta": BASE, "Camembert": BASE, "FNet": BASE, "MegatronBert": BASE, "Ernie": BASE, "IBert": BASE,
    "Funnel": {"vocab_size": V, "block_sizes": [1, 1], "d_model": H, "n_head": 2, "d_head": 8, "d_inner": 24},
    "Longformer": {**BASE, "attention_window": 4}, "BigBird": {**BASE, "attention_type": "original_full"},
    "RoFormer": {**BASE, "embedding_size": H}, "Bart": BART,
}  # fmt: skip
SEQUENCE: dict[str, dict[str, Any]] = {
    "Bart": BART, "Pegasus": BART, "MBart": BART, "MT5": T5, "UMT5": T5, "LongT5": {**T5, "local_radius": 3},
    "T5": {**T5, "feed_forward_proj": "gated-gelu"},
}  # fmt: skip
ROUTED = ("Mixtral", "Qwen2Moe")
ALL = (
    [("ForCausalLM", name, options) for name, options in CAUSAL.items()]
    + [("ForSequenceClassification", name, options) for name, options in CLASSIFIERS.items()]
    + [("ForConditionalGeneration", name, options) for name, options in SEQUENCE.items()]
)


def build(head: str, name: str, options: dict[str, Any]) -> nn.Module:
    """A tiny model of the kind, in float64, with weights large enough for every path to matter."""
    torch.manual_seed(0)
    model: nn.Module = getattr(hf, name + head)(getattr(hf, name + "Config")(**options)).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.2)
    return model


def inputs(head: str, name: str, rows: int) -> dict[str, Tensor]:
    """Token ids and a mask; each classifier's row ends with its end token."""
    ids = torch.randint(3, 30, (rows, 6), generator=torch.Generator().manual_seed(1))
    ids[:, -1] = 2
    found = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if head == "ForConditionalGeneration":
        found["decoder_input_ids"] = ids[:, :4]
    if name == "FNet":
        del found["attention_mask"]
    return found


def losses(out: Any) -> Tensor:
    """A smooth function of all logits of an example."""
    weights = torch.linspace(0.5, 1.5, out.logits[0].numel(), dtype=torch.float64).view(out.logits.shape[1:])
    return (out.logits.double().tanh() * weights).flatten(1).sum(1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows", [4, 6])
@pytest.mark.parametrize(("head", "name", "options"), ALL, ids=lambda v: v if isinstance(v, str) else "")
def test_exact(rows: int, head: str, name: str, options: dict[str, Any], oracle: SimpleNamespace) -> None:
    """Norms and clipped sum to 1e-10 against each example alone, also where batch and sequence length coincide."""
    model, batch = build(head, name, options), inputs(head, name, rows)

    def one(i: int) -> Tensor:
        return losses(model(**{key: value[i : i + 1] for key, value in batch.items()}))[0]

    norms, expected = oracle.alone(model, rows, one, 0.5)
    clip = ClippedGradients(model, 0.5)
    found = clip.backward(losses(model(**batch)))
    clip.detach()
    assert max(oracle.compare(model, found, norms, expected)) < 1e-10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROUTED)
def test_mixtures_of_experts_are_refused(name: str) -> None:
    """Tokens are routed by content: whose token an expert sees cannot be told from its shape."""
    options = {**BASE, "num_key_value_heads": 2, "num_experts_per_tok": 2, "experts_implementation": "eager"}
    experts = {"num_local_experts": 4} if name == "Mixtral" else {"num_experts": 4, "moe_intermediate_size": 8}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build("ForCausalLM", name, {**options, **experts})
    with pytest.raises(ClippingError):
        ClippedGradients(model, 0.5).backward(losses(model(**inputs("ForCausalLM", name, 4))))
