"""Tiny, randomly initialised checkpoints of many architectures: a few kilobytes each, made where they are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

_TEXT = """a the good bad warm cold soup tea room day night light dark old new red blue car bus road rain sun we you
they is was very never again one two three four five six seven"""
WORDS = _TEXT.split()
BERT = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
GPT = {"unk_token": "<unk>", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
ROBERTA = {
    "unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>",
    "sep_token": "</s>",
}  # fmt: skip
SIZE: dict[str, int] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
LENGTH = 32


def bert_tokenizer(extra: tuple[str, ...] = (), **options: Any) -> Any:
    """Word-level, with [CLS] text [SEP] and pairs."""
    vocabulary = {t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *extra])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=BERT["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    options.setdefault("model_max_length", LENGTH)
    options.setdefault("model_input_names", ["input_ids", "token_type_ids", "attention_mask"])
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **BERT, **options)


def gpt_tokenizer() -> Any:
    """Word-level, without special tokens around the text and without a padding token."""
    vocabulary = {t: i for i, t in enumerate(["<|endoftext|>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=GPT["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LENGTH, **GPT)


def roberta_tokenizer(limit: int) -> Any:
    """Word-level, padding id 1 as in RoBERTa."""
    vocabulary = {t: i for i, t in enumerate(["<s>", "<pad>", "</s>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=GPT["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=limit, **ROBERTA)


def _roberta(positions: int, rows: int) -> Any:
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    return hf.RobertaForSequenceClassification(
        hf.RobertaConfig(vocab_size=rows, max_position_embeddings=positions, type_vocab_size=1, **ids, **SIZE)
    )


def _mpnet(rows: int) -> Any:
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    return hf.MPNetModel(hf.MPNetConfig(vocab_size=rows, max_position_embeddings=LENGTH + 2, **ids, **SIZE))


def _bert(rows: int) -> Any:
    return hf.BertForSequenceClassification(hf.BertConfig(vocab_size=rows, max_position_embeddings=LENGTH, **SIZE))


def _distilbert(rows: int) -> Any:
    return hf.DistilBertForSequenceClassification(
        hf.DistilBertConfig(
            vocab_size=rows, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=LENGTH
        )
    )


def _gpt2(rows: int, head: Any = hf.GPT2ForSequenceClassification) -> Any:
    return head(
        hf.GPT2Config(
            vocab_size=rows, n_embd=16, n_layer=2, n_head=2, n_positions=LENGTH, bos_token_id=0, eos_token_id=0
        )
    )


def _electra(rows: int) -> Any:
    return hf.ElectraModel(hf.ElectraConfig(vocab_size=rows, embedding_size=8, max_position_embeddings=LENGTH, **SIZE))


def _albert(rows: int) -> Any:
    return hf.AlbertModel(hf.AlbertConfig(vocab_size=rows, embedding_size=8, max_position_embeddings=LENGTH, **SIZE))


def _deberta(rows: int) -> Any:
    options = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}
    return hf.DebertaV2Model(
        hf.DebertaV2Config(vocab_size=rows, max_position_embeddings=LENGTH, type_vocab_size=0, **options, **SIZE)
    )


def build_all(folder: Path) -> dict[str, Path]:
    """Every checkpoint in a folder of its own, by name."""
    bert, gpt, plenty = bert_tokenizer(), gpt_tokenizer(), bert_tokenizer(extra=("galaxy", "planet", "comet", "meteor"))
    rows, roberta = len(bert), roberta_tokenizer(LENGTH)
    plain = bert_tokenizer(model_input_names=["input_ids", "attention_mask"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = {
            "bert": (_bert(rows), bert),
            "bert_bf16": (_bert(rows).bfloat16(), bert),
            "bert_tokenizer_bigger": (_bert(rows), plenty),
            "roberta": (_roberta(LENGTH + 2, len(roberta)), roberta),
            "roberta_16": (_roberta(16, len(roberta)), roberta_tokenizer(16)),
            "distilbert": (_distilbert(rows), bert),
            "electra": (_electra(rows), bert),
            "mpnet": (_mpnet(len(roberta)), roberta),
            "gpt2_no_pad": (_gpt2(len(gpt)), gpt),
            "gpt2_lm": (_gpt2(len(gpt), hf.GPT2LMHeadModel), gpt),
            "albert": (_albert(rows), bert),
            "deberta": (_deberta(rows), plain),
        }
        return {name: _saved(folder / name, model, tokenizer) for name, (model, tokenizer) in made.items()}


def _saved(folder: Path, model: Any, tokenizer: Any) -> Path:
    _lively(model)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _lively(model: torch.nn.Module) -> None:
    """Weights large enough that every sub-layer matters: with the usual 0.02 all texts look alike."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(8)
