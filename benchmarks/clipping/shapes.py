"""The models that are trained: BERT-, MiniLM-, GPT-2- and Llama-like, randomly initialised, with mock sequences.

Language-model losses are flattened and label-shifted, as a training script writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Shape:
    """A model and the batch that it is trained on."""

    title: str
    build: Callable[[], nn.Module]
    rows: int
    steps: int


def _bert(**sizes: int) -> nn.Module:
    return hf.BertForSequenceClassification(hf.BertConfig(vocab_size=30522, **sizes))


def _bert_like() -> nn.Module:
    return _bert(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)


def _minilm() -> nn.Module:
    return _bert(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)


def _gpt2(*, tied: bool) -> nn.Module:
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=50257, n_embd=512, n_layer=4, n_head=8, tie_word_embeddings=tied, use_cache=False)
    )


def _llama() -> nn.Module:
    sizes = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 1376}
    return hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=32000, use_cache=False, **sizes))


SHAPES = {
    "bert16": Shape("BERT, 4 layers, d 512, batch 16 × 128", _bert_like, 16, 128),
    "bert64": Shape("BERT, 4 layers, d 512, batch 64 × 128", _bert_like, 64, 128),
    "gpt2-untied16": Shape("GPT-2, 4 layers, d 512, untied, batch 16 × 100", lambda: _gpt2(tied=False), 16, 100),
    "gpt2-tied16": Shape("GPT-2, 4 layers, d 512, tied, batch 16 × 100", lambda: _gpt2(tied=True), 16, 100),
    "minilm32": Shape("MiniLM, 6 layers, d 384, batch 32 × 64", _minilm, 32, 64),
    "llama8": Shape("Llama-like, 4 layers, d 512, batch 8 × 256", _llama, 8, 256),
}
PAPER = {"bert": "bert16", "minilm": "minilm32", "gpt2": "gpt2-untied16", "llama": "llama8"}
"""The models of the second protocol (sequences of length 100), by the shape that has them."""


@dataclass(frozen=True)
class Task:
    """A model with mock sequences for it."""

    model: nn.Module
    steps: int
    positions: bool
    """Whether position ids are passed, as Opacus needs them."""

    def batch(self, rows: int) -> tuple[Batch, Tensor]:
        """Random tokens, ``rows`` × ``steps``, and the targets: classes, or the tokens shifted by one."""
        ids = torch.randint(5, self.model.config.vocab_size, (rows, self.steps))
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if self.positions:
            inputs["position_ids"] = torch.arange(self.steps).repeat(rows, 1)
        if not self.generates:
            return inputs, torch.randint(0, 2, (rows,))
        return inputs, torch.cat([ids[:, 1:], torch.full((rows, 1), -100)], 1)

    @property
    def generates(self) -> bool:
        """Whether the model is a language model."""
        return hasattr(self.model, "lm_head")

    def losses(self, model: nn.Module, inputs: Batch, targets: Tensor) -> Tensor:
        """One loss for each row, of ``model`` (the task's, or a wrapper of it)."""
        logits: Tensor = model(**inputs).logits
        if not self.generates:
            return functional.cross_entropy(logits, targets, reduction="none")
        each = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none", ignore_index=-100)
        return each.view(targets.shape).sum(1) / (self.steps - 1)


def counted_floor(model: nn.Module, steps: int, method: str) -> float:
    """Multiplications of an exact private step over those of a plain one: linear layers and attention.

    A matrix (d, p) that meets T rows costs 2Tdp three times; its norm min(2T²(d + p), 2Tdp); a second backward pass
    4Tdp once more. Opacus is not counted.
    """
    if method == "non-private":
        return 1.0
    plain = norm = 0.0
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, Conv1D)):
            p, d = module.weight.shape
            t = 1 if "pooler" in name or "classifier" in name else steps
            plain += 6 * t * p * d
            norm += min(2 * t * t * (p + d), 2 * t * p * d)
    config: Any = model.config
    attention = 12 * steps**2 * config.hidden_size * config.num_hidden_layers
    again = (plain + attention) * 2 / 3 if method == "two-pass" else 0.0
    return (plain + attention + norm + again) / (plain + attention)
