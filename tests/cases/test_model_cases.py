"""Cases B01 to B18, C18, C20, A13 and A18: known faults of tools that load transformers models.

The checkpoints are those of the cases, made anew by ``tests/tiny_models.py``; inputs come from the case files.
"""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest
import torch

from dpeval.context import RunContext
from dpeval.errors import LeakError, ModelError
from dpeval.models.bypass import check_release_point
from dpeval.models.checkpoint import load_checkpoint
from dpeval.models.config import ModelConfig
from dpeval.models.release import TextRelease
from dpeval.models.taps import capture, forward_from
from dpeval.plugin import Task
from dpeval.types import NoClaim, Records
from dpeval_defenses.dp_forward import DPForward, NoisyRelease, bounded
from dpeval_defenses.none import Undefended

MIXED = ["a warm day", "tea", "the old red car is cold", "we", "rain again", "you they", "sun " * 9, "a"]


def test_b01_a_decoder_without_padding_token(checkpoint_of, records_of):
    """Trains with batch 8 on texts of different length; the chosen token is said; alone equals in a batch."""
    checkpoint, records = checkpoint_of("gpt2_no_pad"), records_of(MIXED)
    assert checkpoint.notes == ("no padding token: '<|endoftext|>' is used as padding, masked everywhere",)
    assert checkpoint.pooling == "last"
    model = Undefended(epochs=1, batch_size=8).train(Task(records, 2, checkpoint), RunContext(0)).classifier
    assert model.encoder.config.pad_token_id == checkpoint.tokenizer.pad_token_id == checkpoint.pad_id
    texts = checkpoint.encode(records)
    with torch.no_grad():
        alone = torch.cat([model(**texts.batch([i])) for i in range(8)])
        assert (model(**texts.batch(range(8))) - alone).abs().max() <= 1e-5


def test_b05_roberta_serves_two_positions_fewer(checkpoint_of, records_of):
    checkpoint = checkpoint_of("roberta_16", max_length=16)
    assert checkpoint.max_length == 14
    assert any("16 positions of which 14 are usable" in note for note in checkpoint.notes)
    model = TextRelease.of(checkpoint.build(2, 0), checkpoint, claim=NoClaim())
    assert np.isfinite(model.predict(records_of(["rain " * 40])).log_probs).all()


def test_b07_ids_without_a_row_are_found_when_loading(tiny_models, tmp_path):
    with pytest.raises(ModelError, match="the tokenizer has 46 ids but the model only 42 embedding rows"):
        load_checkpoint(ModelConfig(source=str(tiny_models["bert_tokenizer_bigger"])), tmp_path)


@pytest.mark.parametrize("name", ["gpt2_lm", "bert"])
def test_b09_a_head_that_the_classifier_does_not_use_may_be_absent(checkpoint_of, records_of, tmp_path, name):
    checkpoint, records = checkpoint_of(name), records_of(MIXED)
    model = TextRelease.of(checkpoint.build(2, 0), checkpoint, claim=NoClaim())
    model.save(tmp_path)
    again = TextRelease.load(tmp_path, torch.device("cpu"))
    assert np.array_equal(again.predict(records).log_probs, model.predict(records).log_probs)


def test_b12_noise_of_the_right_shape_at_every_position(checkpoint_of, records_of):
    """(3, 7, 16) at each point; sample i depends on sample i only; noise 0 equals normalising only."""
    checkpoint = checkpoint_of("bert")
    model, batch = checkpoint.build(2, 0), checkpoint.encode(records_of(MIXED)).batch([0, 1, 3], length=7)
    for tap in checkpoint.positions():
        with torch.no_grad():
            x = capture(model, batch, tap)
            assert x.shape == ((3, 1, 16) if tap == "output" else (3, 7, 16)), tap
            generators = [torch.Generator().manual_seed(i) for i in range(3)]
            silent = NoisyRelease(clip=1.0, sigma=0.0).apply(x, generators)
            assert torch.equal(silent, bounded(x, clip=1.0, normalise=True))
            noisy = silent.clone()
            noisy[2] += torch.randn(noisy[2].shape, generator=generators[0])
            assert torch.equal(forward_from(model, tap, noisy)[:2], forward_from(model, tap, silent)[:2]), tap


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_b14_pooled_vectors_do_not_depend_on_neighbours(checkpoint_of, records_of, pooling):
    checkpoint = checkpoint_of("bert", max_length=32, pooling=pooling)
    model = checkpoint.build(2, 0)
    texts = checkpoint.encode(records_of(["a warm day", "rain " * 30, *MIXED]))
    with torch.no_grad():
        alone = capture(model, texts.batch([0]), "output")[0]
        for size in (2, 8):
            assert (capture(model, texts.batch(range(size)), "output")[0] - alone).abs().max() <= 1e-5


def test_b16_bfloat16_is_computed_and_stored_in_float32(checkpoint_of, records_of):
    checkpoint = checkpoint_of("bert_bf16")
    assert checkpoint.notes == ("weights stored as bfloat16, computed in float32",)
    model = Undefended(epochs=1).train(Task(records_of(MIXED), 2, checkpoint), RunContext(0))
    assert model.embed(records_of(MIXED), "embedding").values.dtype == np.float32
    assert checkpoint.input_embeddings().dtype == np.float32
    assert {p.dtype for p in model.classifier.parameters()} == {torch.float32}


def test_b18_token_types_that_the_model_does_not_take(checkpoint_of, records_of):
    checkpoint, records = checkpoint_of("distilbert"), records_of(MIXED)
    assert "token_type_ids" in checkpoint.tokenizer.model_input_names
    for defense in (Undefended(epochs=1), DPForward(position="encoder.0.ffn", epochs=1)):
        assert np.isfinite(defense.train(Task(records, 2, checkpoint), RunContext(0)).predict(records).log_probs).all()


@pytest.mark.parametrize(
    ("path", "closed"),
    [
        ("embeddings", True),
        ("encoder.layer.0.attention", True),
        ("encoder.layer.0", True),
        ("encoder.layer.1", True),
        ("encoder.layer.0.attention.self", False),
        ("encoder.layer.0.attention.output.dense", False),
        ("encoder.layer.0.intermediate", False),
        ("encoder.layer.0.output.dense", False),
    ],
)
def test_c18_a_residual_path_round_the_noise_is_refused(checkpoint_of, path, closed):
    """The points of the case, found by forcing the same tensor for two texts."""
    checkpoint = checkpoint_of("bert")
    if closed:
        check_release_point(checkpoint.build(2, 0), path, checkpoint)
        return
    with pytest.raises(LeakError, match="can be gone round"):
        check_release_point(checkpoint.build(2, 0), path, checkpoint)


def test_c20_normalising_a_zero_row():
    x = torch.zeros(2, 1, 4)
    x[1] = 2.0
    x.requires_grad_(True)
    out = bounded(x, clip=1.0, normalise=True)
    out.square().sum().backward()
    assert torch.equal(out[0], torch.zeros(1, 4))
    assert torch.isfinite(x.grad).all()
    assert x.grad[0].abs().max() <= 1


@pytest.mark.parametrize("name", ["bert", "gpt2_no_pad"])
@pytest.mark.parametrize("tap", ["embedding", "output"])
def test_a13_texts_without_tokens_have_finite_vectors_of_their_own(case_file, checkpoint_of, name, tap):
    """The layer below the data cleaning: whatever text arrives, ids stay aligned and nothing is NaN."""
    lines = case_file("a13_empty_texts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    texts = tuple(row["text"] if isinstance(row.get("text"), str) else "" for row in rows)
    records = Records(tuple(str(i) for i in range(len(rows))), texts, (0,) * len(rows))
    checkpoint = checkpoint_of(name)
    model = TextRelease.of(checkpoint.build(2, 0), checkpoint, claim=NoClaim())
    found = model.embed(records, tap)
    assert found.ids == records.ids
    assert np.isfinite(found.values).all()
    assert all(len(found.rows(i)) >= 1 for i in range(len(rows)))
    last = model.embed(records.take([len(rows) - 1]), tap)
    assert np.array_equal(last.rows(0), found.rows(len(rows) - 1))
    assert np.isfinite(model.predict(records).log_probs).all()


def test_a18_a_field_longer_than_131072_characters(case_file, checkpoint_of):
    limit = csv.field_size_limit(sys.maxsize)
    try:
        with case_file("a18_long_field.csv").open(encoding="utf-8", newline="") as file:
            texts = tuple(row["text"] for row in csv.DictReader(file))
    finally:
        csv.field_size_limit(limit)
    records = Records(("0", "1", "2"), texts, (0, 1, 0))
    checkpoint = checkpoint_of("bert")
    assert checkpoint.truncation(records).what == "1 of 3 texts truncated to 16 tokens"
    model = TextRelease.of(checkpoint.build(2, 0), checkpoint, claim=NoClaim())
    assert len(model.embed(records, "embedding").rows(0)) == 16
