"""Tiny randomly initialised transformers for the clipping tests, each as transformers ships it, with a batch for it."""

from __future__ import annotations

import torch
import transformers as hf
from torch import Tensor, nn

V, T, B = 31, 7, 5
SMALL = {"vocab_size": V, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 24, "max_position_embeddings": 24}  # fmt: skip
DISTIL = {"vocab_size": V, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 24}
GPT = {"vocab_size": V, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 24, "pad_token_id": 0}
T5 = {"vocab_size": V, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "pad_token_id": 0,
      "decoder_start_token_id": 0, "relative_attention_num_buckets": 8,
      "relative_attention_max_distance": 12}  # fmt: skip
OPT = {"vocab_size": V, "hidden_size": 16, "ffn_dim": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
       "max_position_embeddings": 24, "word_embed_proj_dim": 16, "pad_token_id": 1}  # fmt: skip
LLAMA = {**SMALL, "num_key_value_heads": 1, "head_dim": 8, "pad_token_id": 0}
ALBERT = {**SMALL, "embedding_size": 8, "num_hidden_layers": 3}
DEBERTA = {**SMALL, "relative_attention": True, "position_buckets": 4, "norm_rel_ebd": "layer_norm",
           "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}  # fmt: skip

BUILDERS = {
    "bert-cls": lambda a: hf.BertForSequenceClassification(hf.BertConfig(**SMALL, attn_implementation=a)),
    "bert-mlm": lambda a: hf.BertForMaskedLM(hf.BertConfig(**SMALL, attn_implementation=a)),
    "bert-mlm-untied": lambda a: hf.BertForMaskedLM(
        hf.BertConfig(**SMALL, attn_implementation=a, tie_word_embeddings=False)),
    "roberta-cls": lambda a: hf.RobertaForSequenceClassification(hf.RobertaConfig(**SMALL, attn_implementation=a)),
    "roberta-mlm": lambda a: hf.RobertaForMaskedLM(hf.RobertaConfig(**SMALL, attn_implementation=a)),
    "distilbert-cls": lambda a: hf.DistilBertForSequenceClassification(
        hf.DistilBertConfig(**DISTIL, attn_implementation=a)),
    "distilbert-mlm": lambda a: hf.DistilBertForMaskedLM(hf.DistilBertConfig(**DISTIL, attn_implementation=a)),
    "electra-cls": lambda a: hf.ElectraForSequenceClassification(
        hf.ElectraConfig(**SMALL, embedding_size=8, attn_implementation=a)),
    "albert-cls": lambda a: hf.AlbertForSequenceClassification(hf.AlbertConfig(**ALBERT, attn_implementation=a)),
    "albert-mlm": lambda a: hf.AlbertForMaskedLM(hf.AlbertConfig(**ALBERT, attn_implementation=a)),
    "mpnet-cls": lambda a: hf.MPNetForSequenceClassification(hf.MPNetConfig(**SMALL)),
    "mpnet-mlm": lambda a: hf.MPNetForMaskedLM(hf.MPNetConfig(**SMALL)),
    "deberta-v2-cls": lambda a: hf.DebertaV2ForSequenceClassification(hf.DebertaV2Config(**DEBERTA)),
    "deberta-v2-unshared-cls": lambda a: hf.DebertaV2ForSequenceClassification(
        hf.DebertaV2Config(**{**DEBERTA, "share_att_key": False})),
    "deberta-v2-mlm": lambda a: hf.DebertaV2ForMaskedLM(hf.DebertaV2Config(**DEBERTA)),
    "gpt2-lm": lambda a: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT, attn_implementation=a)),
    "gpt2-lm-untied": lambda a: hf.GPT2LMHeadModel(
        hf.GPT2Config(**GPT, attn_implementation=a, tie_word_embeddings=False)),
    "gpt2-cls": lambda a: hf.GPT2ForSequenceClassification(hf.GPT2Config(**GPT, attn_implementation=a)),
    "opt-lm": lambda a: hf.OPTForCausalLM(hf.OPTConfig(**OPT, attn_implementation=a)),
    "llama-lm": lambda a: hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, attn_implementation=a)),
    "llama-lm-tied": lambda a: hf.LlamaForCausalLM(
        hf.LlamaConfig(**LLAMA, attn_implementation=a, tie_word_embeddings=True)),
    "llama-cls": lambda a: hf.LlamaForSequenceClassification(hf.LlamaConfig(**LLAMA, attn_implementation=a)),
    "t5-lm": lambda a: hf.T5ForConditionalGeneration(hf.T5Config(**T5)),
    "t5-lm-untied": lambda a: hf.T5ForConditionalGeneration(hf.T5Config(**T5, tie_word_embeddings=False)),
}  # fmt: skip


def build(name: str, attention: str = "eager", seed: int = 0) -> nn.Module:
    """The named model in float64 and evaluation mode, its weights large enough for every path to matter."""
    torch.manual_seed(seed)
    model = BUILDERS[name](attention).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def batch(name: str, rows: int = B, steps: int = T, seed: int = 1, padded: bool = True) -> dict[str, Tensor]:
    """Random tokens; every row but the first is padded on the right to its own length."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, V, (rows, steps), generator=generator)
    mask = torch.ones(rows, steps, dtype=torch.long)
    if padded:
        for i in range(1, rows):
            mask[i, steps - i % (steps - 2) :] = 0
    pad = 1 if name.split("-")[0] in ("roberta", "mpnet", "opt") else 0
    ids[mask == 0] = pad
    inputs = {"input_ids": ids, "attention_mask": mask}
    if name.startswith("t5"):
        inputs["decoder_input_ids"] = torch.randint(3, V, (rows, steps - 2), generator=generator)
    return inputs


def targets(name: str, inputs: dict[str, Tensor], seed: int = 2) -> Tensor:
    """Class labels, or tokens of which half and all padding are ignored."""
    generator = torch.Generator().manual_seed(seed)
    rows = len(inputs["input_ids"])
    if name.endswith("cls"):
        return torch.randint(0, 2, (rows,), generator=generator)
    like = inputs.get("decoder_input_ids", inputs["input_ids"])
    labels = torch.randint(0, V, like.shape, generator=generator)
    labels[torch.rand(like.shape, generator=generator) < 0.5] = -100
    labels[:, 1] = 3
    if "decoder_input_ids" not in inputs:
        labels[inputs["attention_mask"] == 0] = -100
    return labels


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """One cross-entropy for each example; for tokens, the mean over the example's own targets."""
    if labels.ndim == 1:
        return nn.functional.cross_entropy(logits, labels, reduction="none")
    each = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape)
    return each.sum(1) / (labels != -100).sum(1).clamp(min=1)
