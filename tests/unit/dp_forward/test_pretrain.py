"""Noisy pre-training: the loss falls, noise is where and as large as in training, and the folder is a checkpoint."""

from __future__ import annotations

import json
import math

import pytest
import torch
from typer.testing import CliRunner

from dpeval.context import RunContext
from dpeval.errors import ModelError
from dpeval.models.checkpoint import load_checkpoint
from dpeval.models.config import ModelConfig
from dpeval.plugin import Task
from dpeval_defenses.dp_forward import DPForward
from dpeval_defenses.dp_forward import pretrain as module
from dpeval_defenses.dp_forward.masked import MaskedTexts
from dpeval_defenses.dp_forward.pretrain import RECORD, Pretraining, app, pretrain

TEXTS = ["a good day", "the bad rain and sun", "good tea again", "a very cold night", "the old bus road"] * 4
QUICK = {"max_length": 12, "batch_size": 5, "learning_rate": 1e-2}


@pytest.mark.parametrize(
    ("name", "position"), [("bert", "embedding"), ("albert", "embedding"), ("bert", "encoder.0.ffn")]
)
def test_the_loss_falls_and_the_folder_is_the_base_of_a_training(tiny_models, records_of, tmp_path, name, position):
    how = Pretraining(position=position, epsilon=1e5, epochs=8, **QUICK)
    losses = pretrain(tiny_models[name], TEXTS, tmp_path / "out", how)
    assert len(losses) == 8
    assert losses[-1] < 0.9 * losses[0]
    checkpoint = load_checkpoint(ModelConfig(source=str(tmp_path / "out"), max_length=12), tmp_path)
    assert checkpoint.fingerprint != load_checkpoint(ModelConfig(source=str(tiny_models[name])), tmp_path).fingerprint
    release = DPForward(position=position, epochs=1).train(Task(records_of(TEXTS), 2, checkpoint), RunContext(0))
    assert release.predict(records_of(TEXTS)).log_probs.shape == (20, 2)


def test_the_record_says_what_was_done_and_what_it_costs(tiny_models, tmp_path):
    how = Pretraining(epsilon=8.0, delta=1e-5, **QUICK)
    losses = pretrain(tiny_models["bert"], TEXTS, tmp_path / "out", how)
    record = json.loads((tmp_path / "out" / RECORD).read_text(encoding="utf-8"))
    assert record["sigma"] == pytest.approx(1.20046, rel=1e-5)
    assert (record["texts"], record["loss_by_epoch"]) == (20, list(losses))
    assert "public" in record["privacy_cost"]
    assert "no protection" in record["privacy_cost"]


def test_every_masked_token_is_predicted_from_a_noised_tensor(tiny_models, tmp_path, monkeypatch):
    """What the second half gets is the bounded tensor plus noise of the calibrated size, on all rows."""
    seen, true = [], module.logits_of

    def watched(model, tap, released):
        seen.extend(each.detach() for each in released)
        return true(model, tap, released)

    monkeypatch.setattr(module, "logits_of", watched)
    how = Pretraining(epsilon=8.0, epochs=10, **QUICK)
    pretrain(tiny_models["bert"], TEXTS, tmp_path / "out", how)
    values = torch.stack(seen)
    assert values.shape == (200, 12, 16)
    # The bounded tensor adds at most C² to the squared norm of 192 entries.
    expected, n = how.sigma**2, values.numel()
    assert abs(float(values.square().mean()) - expected - 1 / 192) < 5 * expected * math.sqrt(2 / n) + 1 / 192


def test_masks_are_on_ordinary_tokens_at_the_given_rate(checkpoint_of):
    checkpoint = checkpoint_of("bert")
    masked = MaskedTexts.of(["a good day and a bad night"] * 400 + ["tea"], checkpoint, 0.3)
    batch, true, chosen = masked.batch(range(401), torch.Generator().manual_seed(0))
    assert (batch["input_ids"][chosen] == checkpoint.tokenizer.mask_token_id).all()
    assert torch.equal(batch["input_ids"][~chosen], true[~chosen])
    assert not set(true[chosen].tolist()) & checkpoint.special_ids
    assert chosen.any(dim=1).all(), "a text without a masked token teaches nothing"
    # Seven tokens at 0.3 each, and one more where none fell (0.7^7 of the texts).
    expected = 7 * 0.3 + 0.7**7
    assert abs(float(chosen[:400].sum(dim=1).double().mean()) - expected) < 5 * math.sqrt(7 * 0.21 / 400)


def test_runs_repeat_and_seeds_differ(tiny_models, tmp_path):
    made = [
        pretrain(tiny_models["bert"], TEXTS, tmp_path / str(i), Pretraining(seed=seed, **QUICK))
        for i, seed in enumerate((0, 0, 1))
    ]
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bert", {"position": "output"}, "one row for a text"),
        ("bert", {"position": "encoder.9.ffn"}, "unknown position"),
        ("gpt2_no_pad", {}, "no mask token"),
    ],
)
def test_what_cannot_be_is_refused_before_training(tiny_models, tmp_path, name, options, message):
    with pytest.raises(ModelError, match=message):
        pretrain(tiny_models[name], TEXTS, tmp_path / "out", Pretraining(**options, **QUICK))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("wrong", [{"mask_rate": 0.0}, {"epochs": 0}, {"epsilon": 0.0}, {"delta": 1.0}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        Pretraining(**wrong)


def test_the_command_writes_a_checkpoint_and_says_what_it_costs(tiny_models, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    call = [str(tiny_models["bert"]), str(tmp_path / "texts.txt"), "--out", str(tmp_path / "out"), "--max-length", "12"]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    assert "privacy cost" in result.output
    assert (tmp_path / "out" / "config.json").is_file()
    again = CliRunner().invoke(app, call)
    assert again.exit_code == 2
    assert "not empty" in again.output
