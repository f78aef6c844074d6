"""Positions of many architectures: by name where the position exists, and refused, never passed round, where not."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf

from dpeval.errors import LeakError, ModelError
from dpeval.models.bypass import check_release_point
from dpeval.models.checkpoint import load_checkpoint
from dpeval.models.config import ModelConfig
from dpeval.models.release import TextRelease
from dpeval.models.transform import Transform
from dpeval.types import NoClaim, Records

TINY = runpy.run_path(str(Path(__file__).parents[2] / "tiny_models.py"))
SIZE = TINY["SIZE"] | {"vocab_size": 48, "max_position_embeddings": 40}
KEYS = {"num_key_value_heads": 2, "head_dim": 8}
MARKERS = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
NAMED = {
    "camembert": SIZE,
    "data2vec-text": SIZE,
    "roformer": SIZE | {"embedding_size": 16},
    "convbert": SIZE | {"embedding_size": 16, "head_ratio": 1, "conv_kernel_size": 3},
    "nystromformer": SIZE | {"num_landmarks": 4, "segment_means_seq_len": 4},
    "fnet": SIZE,
    "ibert": SIZE,
    "megatron-bert": SIZE,
    "roberta-prelayernorm": SIZE,
    "modernbert": SIZE | MARKERS | {"local_attention": 8},
    "nomic_bert": SIZE,
    "openai-gpt": {"vocab_size": 48, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40},
    "gpt_neox": SIZE | {"use_parallel_residual": False, "bos_token_id": 0, "eos_token_id": 0},
    "opt": SIZE | {"ffn_dim": 32, "word_embed_proj_dim": 16},
    "llama": SIZE | KEYS,
    "gemma2": SIZE | KEYS | {"layer_types": ["sliding_attention", "full_attention"]},
    "bloom": {"vocab_size": 48, "hidden_size": 16, "n_layer": 2, "n_head": 2},
    "albert": SIZE | {"embedding_size": 8, "num_hidden_layers": 2, "num_hidden_groups": 2, "inner_group_num": 2},
}  # fmt: skip
WHOLE_LAYERS = {
    "mobilebert": SIZE | {"embedding_size": 16, "intra_bottleneck_size": 8, "true_hidden_size": 8},
    "gptj": {"vocab_size": 48, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40, "rotary_dim": 4,
             "bos_token_id": 0, "eos_token_id": 0},
    "olmo2": SIZE | KEYS | {"eos_token_id": 0},
    "opt": SIZE | {"ffn_dim": 32, "word_embed_proj_dim": 16, "do_layer_norm_before": False},
}  # fmt: skip
CONVOLVED = SIZE | {
    "relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"], "conv_kernel_size": 3,
    "type_vocab_size": 0,
}  # fmt: skip
SUBS = ("mha", "add_norm_1", "ffn", "add_norm_2")
ROBERTA = ("camembert", "data2vec-text", "ibert", "roberta-prelayernorm", "opt", "longformer")


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A tiny checkpoint of an architecture by its name in transformers."""

    def make(kind, options, max_length=16):
        folder = tmp_path_factory.mktemp(kind)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = hf.AutoModel.from_config(hf.AutoConfig.for_model(kind, **options))
        TINY["_lively"](model)
        tokenizer = TINY["roberta_tokenizer"](32) if kind in ROBERTA else TINY["bert_tokenizer"]()
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return load_checkpoint(ModelConfig(source=str(folder), max_length=max_length), folder)

    return make


@pytest.mark.parametrize("kind", NAMED)
def test_every_sublayer_has_a_name_and_nothing_goes_round_it(made, kind):
    checkpoint = made(kind, NAMED[kind])
    layers = 4 if kind == "albert" else 2
    assert checkpoint.positions() == ("embedding", *(f"encoder.{i}.{s}" for i in range(layers) for s in SUBS), "output")
    model = checkpoint.build(2, 0)
    for tap in checkpoint.positions():
        check_release_point(model, tap, checkpoint)


def test_an_answer_of_big_bird_does_not_depend_on_the_texts_before_it(made):
    """Its sparse attention is for long texts only, and the first short one would put an end to it."""
    options = {"attention_type": "block_sparse", "block_size": 1, "num_random_blocks": 1}
    checkpoint = made("big_bird", SIZE | options, max_length=24)
    model = checkpoint.build(2, 0)
    encoded = checkpoint.encode(Records(("0", "1"), ("one two three four " * 9, "tea"), (0, 0)))
    long, short = (encoded.batch([row]) for row in (0, 1))
    with torch.no_grad():
        before = model(**long)
        model(**short)
        assert torch.equal(model(**long), before)


@pytest.mark.parametrize("kind", WHOLE_LAYERS)
def test_where_sublayers_do_not_follow_each_other_whole_layers_have_names(made, kind):
    checkpoint = made(kind, WHOLE_LAYERS[kind])
    names = ("embedding", "encoder.0.add_norm_2", "encoder.1.add_norm_2", "output")
    assert checkpoint.positions() == names
    model = checkpoint.build(2, 0)
    for tap in names:
        check_release_point(model, tap, checkpoint)
    assert f"Known: {', '.join(sorted(names))}" in checkpoint.lacks("encoder.0.mha")


def test_a_convolution_over_the_embeddings_takes_the_first_layers_inner_positions_away(made):
    """DeBERTa-v2 mixes the embeddings into the first layer's answer: what is noised inside that layer is gone round."""
    checkpoint = made("deberta-v2", CONVOLVED)
    assert checkpoint.positions()[:3] == ("embedding", "encoder.0.add_norm_2", "encoder.1.mha")
    model = checkpoint.build(2, 0)
    for tap in checkpoint.positions():
        check_release_point(model, tap, checkpoint)
    assert "unknown position" in checkpoint.lacks("encoder.0.ffn")
    with pytest.raises(LeakError, match="conv"):
        check_release_point(model, "encoder.layer.0.output.LayerNorm", checkpoint)


@pytest.mark.parametrize(
    ("kind", "options", "tap"),
    [
        ("longformer", SIZE | {"attention_window": [32, 32]}, "encoder.0.add_norm_2"),
        ("xlnet", {"vocab_size": 48, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32}, "encoder.0.add_norm_2"),
        ("squeezebert", SIZE | {"embedding_size": 16}, "encoder.0.add_norm_2"),
        ("llama", SIZE | KEYS, "layers.0.mlp"),
        ("openai-gpt", NAMED["openai-gpt"], "h.0.attn"),
        ("fnet", SIZE, "encoder.layer.0.fourier.self"),
    ],
)
def test_what_cannot_be_cut_is_refused(made, kind, options, tap):
    """Rows of another order or number, channels first, answers that are no tensor, and residual sums round a path."""
    checkpoint = made(kind, options)
    with pytest.raises((LeakError, ModelError)):
        check_release_point(checkpoint.build(2, 0), tap, checkpoint)
    check_release_point(checkpoint.build(2, 0), "output", checkpoint)


@dataclass(frozen=True)
class Constant(Transform):
    """Releases the same for every text."""

    def apply(self, x, generators):
        return torch.linspace(-1, 1, x[0].numel(), dtype=x.dtype).view(x[0].shape).expand_as(x).clone()


@pytest.mark.parametrize("kind", ["camembert", "modernbert", "gpt_neox", "albert", "mobilebert", "fnet"])
def test_answers_to_all_texts_are_equal_when_their_tensors_are(made, kind):
    """Through a release: texts of equal and of different length, one and two parts, short and cut."""
    checkpoint = made(kind, (NAMED | WHOLE_LAYERS)[kind])
    texts = (
        "a good day",
        "bad old road",
        "tea",
        ("a warm day", "the rain"),
        "one two three four five six seven " * 4,
        "",
    )
    records = Records(tuple(map(str, range(6))), texts, (0,) * 6)
    for tap in checkpoint.positions():
        release = TextRelease.of(
            checkpoint.build(2, 0), checkpoint, claim=NoClaim(), tap=tap, transform=Constant()
        )  # fmt: skip
        answers = release.predict(records).log_probs
        assert np.array_equal(answers, np.broadcast_to(answers[0], answers.shape)), tap
