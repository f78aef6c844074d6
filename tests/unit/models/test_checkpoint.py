"""What a checkpoint promises: limits, padding, identity, and errors before anything is trained."""

from __future__ import annotations

import pickle
import shutil
import time

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from dpeval.errors import ModelError
from dpeval.models.checkpoint import load_checkpoint
from dpeval.models.config import ModelConfig

ENCODERS = ["bert", "roberta", "distilbert", "electra", "mpnet", "albert", "deberta", "gpt2_no_pad"]


@pytest.mark.parametrize("name", ENCODERS)
def test_sizes_are_those_of_the_model(checkpoint_of, name):
    checkpoint = checkpoint_of(name)
    assert (checkpoint.hidden_size, checkpoint.num_layers) == (16, 2)
    assert checkpoint.input_embeddings().shape[0] == checkpoint.vocab_size
    assert checkpoint.input_embeddings().dtype == np.float32


def test_tokens_hold_special_tokens_and_are_truncated(checkpoint_of, records_of):
    checkpoint = checkpoint_of("bert", max_length=5)
    assert checkpoint.tokens(records_of(["a good", "a good bad warm cold soup"])) == [[2, 5, 7, 3], [2, 5, 7, 8, 3]]


def test_pairs_are_encoded_with_token_types(checkpoint_of, records_of):
    checkpoint = checkpoint_of("bert")
    batch = checkpoint.encode(records_of([("a good", "day"), "a"])).batch([0, 1])
    assert batch["input_ids"].tolist() == [[2, 5, 7, 3, 14, 3], [2, 5, 3, 0, 0, 0]]
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1], [0] * 6]
    assert batch["attention_mask"].tolist() == [[1] * 6, [1, 1, 1, 0, 0, 0]]


def test_token_types_are_left_out_where_the_model_takes_none(checkpoint_of, records_of):
    for name in ("distilbert", "deberta", "roberta"):
        assert "token_type_ids" not in checkpoint_of(name).encode(records_of(["a good day"])).batch([0])


def test_special_ids_are_those_of_the_tokenizer(checkpoint_of, tiny_models):
    tokenizer = AutoTokenizer.from_pretrained(tiny_models["bert"])
    assert checkpoint_of("bert").special_ids == frozenset(tokenizer.all_special_ids)


def test_truncated_texts_are_counted_with_their_ids(checkpoint_of, records_of):
    checkpoint = checkpoint_of("bert", max_length=5)
    note = checkpoint.truncation(records_of(["a good", "a good day", "a good bad day"]))
    assert (note.what, note.count, note.ids) == ("1 of 3 texts truncated to 5 tokens", 1, ("r2",))
    assert checkpoint.truncation(records_of(["a", "good day"])) is None


def test_a_lowered_limit_is_noted_with_both_numbers(checkpoint_of):
    checkpoint = checkpoint_of("bert", max_length=500)
    assert checkpoint.max_length == 32
    assert any("500" in note and "32" in note for note in checkpoint.notes)


def test_the_fingerprint_does_not_depend_on_the_place(tiny_models, checkpoint_of, tmp_path):
    shutil.copytree(tiny_models["bert"], tmp_path / "elsewhere")
    moved = load_checkpoint(ModelConfig(source="elsewhere", max_length=16), tmp_path)
    assert moved.fingerprint == checkpoint_of("bert").fingerprint


def test_the_fingerprint_changes_with_weights_tokenizer_length_and_pooling(tiny_models, checkpoint_of, tmp_path):
    base = checkpoint_of("bert").fingerprint
    assert base != checkpoint_of("bert", max_length=8).fingerprint
    assert base != checkpoint_of("bert", pooling="cls").fingerprint
    assert base != checkpoint_of("bert_bf16").fingerprint
    shutil.copytree(tiny_models["bert"], tmp_path / "other")
    file = tmp_path / "other" / "tokenizer.json"
    file.write_text(file.read_text().replace('"lowercase": true', '"lowercase": false'))
    assert base != load_checkpoint(ModelConfig(source="other", max_length=16), tmp_path).fingerprint


def test_using_a_checkpoint_leaves_its_fingerprint_alone(checkpoint_of, records_of):
    """Fast tokenizers keep the truncation of the last call as state."""
    fresh, used = checkpoint_of("bert"), checkpoint_of("bert")
    used.tokens(records_of(["a good day again and again"]))
    assert used.fingerprint == fresh.fingerprint


def test_a_pickled_checkpoint_is_its_config(checkpoint_of):
    checkpoint = checkpoint_of("bert")
    sent = pickle.dumps(checkpoint)
    assert len(sent) < 1000
    assert pickle.loads(sent).fingerprint == checkpoint.fingerprint  # noqa: S301 - made two lines above


def test_build_gives_equal_fresh_copies_for_one_seed(checkpoint_of):
    checkpoint = checkpoint_of("bert")
    one, two, other = checkpoint.build(3, 0), checkpoint.build(3, 0), checkpoint.build(3, 1)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(one.head.weight, other.head.weight)
    assert torch.equal(one.encoder.embeddings.word_embeddings.weight, other.encoder.embeddings.word_embeddings.weight)
    assert not one.training
    with torch.no_grad():
        one.head.weight.zero_()
    assert two.head.weight.abs().sum() > 0


def test_loading_and_building_leave_the_global_generator_alone(checkpoint_of):
    before = torch.get_rng_state()
    checkpoint_of("bert").build(2, 0)
    assert torch.equal(before, torch.get_rng_state())


def test_missing_weights_are_an_error_not_a_random_layer(tiny_models, tmp_path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(tiny_models["bert"], tmp_path / "holes")
    file = tmp_path / "holes" / "model.safetensors"
    tensors = load_file(file)
    del tensors["bert.encoder.layer.1.output.dense.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"1 weights of BertModel .*encoder\.layer\.1\.output\.dense\.weight"):
        load_checkpoint(ModelConfig(source="holes"), tmp_path)


def test_errors_name_the_folder(tmp_path):
    with pytest.raises(ModelError, match=r"nowhere: not found; give a folder with config\.json"):
        load_checkpoint(ModelConfig(source="nowhere"), tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"no config\.json"):
        load_checkpoint(ModelConfig(source="empty"), tmp_path)


def test_an_unreachable_hub_is_said_within_ten_seconds(tmp_path, monkeypatch):
    """The message names the model and the way out."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for name in ("HF_HUB_OFFLINE", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    start = time.monotonic()
    with pytest.raises(ModelError, match=r"hub:some-org/absent-model: .*source = \"path/to/folder\""):
        load_checkpoint(ModelConfig(source="hub:some-org/absent-model@v1"), tmp_path)
    assert time.monotonic() - start < 10


def test_positions_are_named_from_input_to_output(checkpoint_of):
    names = checkpoint_of("distilbert").positions()
    subs = ("mha", "add_norm_1", "ffn", "add_norm_2")
    assert names == ("embedding", *(f"encoder.{i}.{s}" for i in range(2) for s in subs), "output")
    for name in ("gpt2_no_pad", "albert", "deberta"):
        assert checkpoint_of(name).positions() == names
    assert checkpoint_of("bert").lacks("encoder.1.ffn") is None
    assert "Known:" in checkpoint_of("bert").lacks("encoder.2.ffn")
