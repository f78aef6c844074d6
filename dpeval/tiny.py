"""A checkpoint of a few kilobytes and a data set of a few dozen texts, made on the spot: what plug-ins are checked on.

>>> import tempfile
>>> from pathlib import Path
>>> checkpoint = tiny_checkpoint(Path(tempfile.mkdtemp()))
>>> checkpoint.hidden_size, checkpoint.num_layers
(16, 2)
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from dpeval.data.config import DataConfig
from dpeval.data.load import load_dataset
from dpeval.models.checkpoint import Checkpoint, load_checkpoint
from dpeval.models.config import ModelConfig
from dpeval.types import Dataset

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
LENGTH = 24


def tiny_dataset(rows: int = 80) -> Dataset:
    """Generated reviews with a label and a genre as the sensitive attribute."""
    config = DataConfig(source=f"synthetic:reviews?n={rows}", text="text", label="label", attribute="genre")
    return load_dataset(config, Path())


def tiny_checkpoint(folder: Path, max_length: int = LENGTH) -> Checkpoint:
    """A randomly initialised BERT of two layers over the words of :func:`tiny_dataset`, saved in ``folder``."""
    tokenizer = _tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=LENGTH, **SIZES))
    save_file(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    model.config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return load_checkpoint(ModelConfig(source=str(folder.resolve()), max_length=max_length), folder)


def _tokenizer() -> PreTrainedTokenizerFast:
    texts = tiny_dataset().records.texts
    words = sorted({word for text in texts for word in str(text).lower().replace(".", " . ").split()})
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[1]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LENGTH, **names)
