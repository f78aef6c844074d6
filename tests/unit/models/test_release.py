"""The standard release: answers independent of the batch, noise named after record and draw, exact save and load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from dpeval.errors import LeakError, ModelError, StoreError
from dpeval.models.release import TextRelease
from dpeval.models.taps import capture
from dpeval.models.transform import Transform, normal_like
from dpeval.types import Adjacency, Claim, NoClaim, Trust, Unit

TEXTS = ["a warm day", "tea", " ".join(["the cold old car"] * 3), "", "rain is good", "we you they"]
CLAIM = Claim(
    epsilon=1.0, delta=1e-5, unit=Unit.SEQUENCE, trust=Trust.LOCAL, adjacency=Adjacency.ANY_TWO_INPUTS,
    mechanism="m", accountant="a", scope="s", excludes=("x",), details=(("sigma", 0.5), ("rows", 3), ("at", "output")),
)  # fmt: skip


@dataclass(frozen=True)
class Noise(Transform):
    """Adds normal noise."""

    scale: float = 0.1

    def apply(self, x: torch.Tensor, generators: Sequence[torch.Generator]) -> torch.Tensor:
        return x + self.scale * normal_like(x, generators)


@dataclass(frozen=True)
class Constant(Transform):
    """Releases the same tensor for every text."""

    def apply(self, x: torch.Tensor, generators: Sequence[torch.Generator]) -> torch.Tensor:
        return torch.full_like(x, 0.5)


def release(checkpoint, *, claim=NoClaim(), tap=None, transform=None, seed=0):  # noqa: B008 - a frozen value
    return TextRelease.of(checkpoint.build(3, 0), checkpoint, claim=claim, tap=tap, transform=transform, seed=seed)


def test_predictions_are_the_log_softmax_of_the_logits_in_float64(checkpoint_of, records_of):
    checkpoint, records = checkpoint_of("bert"), records_of(TEXTS)
    clear = release(checkpoint)
    with torch.no_grad():
        logits = clear.classifier(**checkpoint.encode(records).batch(range(6))).double()
    got = clear.predict(records)
    assert got.ids == records.ids
    assert np.abs(got.log_probs - logits.log_softmax(-1).numpy()).max() < 1e-5
    assert np.abs(np.exp(got.log_probs).sum(axis=1) - 1).max() < 1e-12


@pytest.mark.parametrize("tap", [None, "embedding", "encoder.0.mha", "encoder.1.add_norm_2", "output"])
def test_answers_are_the_same_to_the_bit_in_any_company(checkpoint_of, records_of, tap):
    model = release(checkpoint_of("bert"), tap=tap, transform=Noise() if tap else None)
    records = records_of(TEXTS)
    whole, rows = model.predict(records), model.embed(records, tap or "encoder.0.ffn")
    for chosen in ([2], [5, 0, 3]):
        part = records.take(chosen)
        assert np.array_equal(model.predict(part).log_probs, whole.log_probs[chosen])
        again = model.embed(part, tap or "encoder.0.ffn")
        for i, row in enumerate(chosen):
            assert np.array_equal(again.rows(i), rows.rows(row))


def test_a_clear_release_gives_one_row_per_token_and_one_for_a_pooled_tap(checkpoint_of, records_of):
    checkpoint, records = checkpoint_of("bert"), records_of(TEXTS)
    model = release(checkpoint)
    tokens = checkpoint.tokens(records)
    rows = model.embed(records, "encoder.0.add_norm_2")
    assert [len(rows.rows(i)) for i in range(6)] == [len(t) for t in tokens]
    assert [len(model.embed(records, "output").rows(i)) for i in range(6)] == [1] * 6
    with torch.no_grad():
        alone = capture(model.classifier, checkpoint.encode(records).batch([2]), "encoder.0.add_norm_2")[0]
    assert np.abs(rows.rows(2) - alone.numpy()).max() < 1e-5
    assert rows.values.dtype == np.float32
    assert np.isfinite(rows.values).all()


def test_a_closed_release_gives_all_rows_at_its_own_tap_only(checkpoint_of, records_of):
    model = release(checkpoint_of("bert", max_length=12), tap="encoder.0.ffn", transform=Noise())
    records = records_of(TEXTS)
    assert [len(model.embed(records, "encoder.0.ffn").rows(i)) for i in range(6)] == [12] * 6
    assert model.taps == ("encoder.0.ffn",)
    with pytest.raises(ModelError, match=r"lets nothing out but at 'encoder\.0\.ffn'; got tap 'embedding'"):
        model.embed(records, "embedding")


def test_noise_depends_on_seed_draw_record_and_text(checkpoint_of, records_of):
    checkpoint, records = checkpoint_of("bert"), records_of(["a warm day", "a warm day"])
    noisy = release(checkpoint, tap="output", transform=Noise())
    base = noisy.embed(records, "output").values
    assert np.array_equal(base, noisy.embed(records, "output", draw=0).values)
    assert not np.array_equal(base[0], base[1]), "two records with one text"
    assert not np.array_equal(base, noisy.embed(records, "output", draw=1).values)
    assert not np.array_equal(base, replace(noisy, seed=1).embed(records, "output").values)


def test_another_text_under_a_known_id_does_not_cancel_the_noise(checkpoint_of, records_of):
    """Else an adversary who reuses the target's id would subtract the noise."""
    checkpoint = checkpoint_of("bert")
    clear, noisy = release(checkpoint), release(checkpoint, tap="output", transform=Noise())
    target, other = records_of(["a warm day"]), records_of(["tea"])
    noise = [noisy.embed(r, "output").values - clear.embed(r, "output").values for r in (target, other)]
    assert np.abs(noise[0] - noise[1]).max() > 0.05


def test_predictions_come_from_the_released_tensor(checkpoint_of, records_of):
    """Texts of any length that release the same tensor get the same answer to the bit: nothing else is used."""
    checkpoint = checkpoint_of("bert")
    for tap in checkpoint.positions():
        answers = release(checkpoint, tap=tap, transform=Constant()).predict(records_of(TEXTS)).log_probs
        assert (answers == answers[0]).all(), tap


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "electra", "gpt2_no_pad", "bert_bf16"])
@pytest.mark.parametrize("tap", [None, "output"])
def test_a_loaded_release_answers_to_the_bit(checkpoint_of, records_of, tmp_path, name, tap):
    checkpoint, records = checkpoint_of(name), records_of(TEXTS)
    model = release(checkpoint, claim=CLAIM, tap=tap, transform=Noise(0.25) if tap else None, seed=5)
    with torch.no_grad():
        for parameter in model.classifier.parameters():
            parameter.add_(0.01)
    model.save(tmp_path)
    assert {p.suffix for p in tmp_path.iterdir()} == {".json", ".safetensors"}
    for known in (None, checkpoint):
        again = TextRelease.load(tmp_path, torch.device("cpu"), checkpoint=known)
        assert again.claim == CLAIM
        assert (again.taps, again.transform) == (model.taps, model.transform)
        assert np.array_equal(again.predict(records, draw=2).log_probs, model.predict(records, draw=2).log_probs)
        assert np.array_equal(again.embed(records, "output").values, model.embed(records, "output").values)


def test_only_what_differs_from_the_public_checkpoint_is_stored(checkpoint_of, tmp_path):
    from safetensors.torch import load_file

    model = release(checkpoint_of("bert"))
    with torch.no_grad():
        model.classifier.encoder.encoder.layer[1].output.dense.bias.add_(1)
    model.save(tmp_path)
    stored = load_file(tmp_path / "weights.safetensors")
    assert set(stored) == {"encoder.encoder.layer.1.output.dense.bias"}, "a head that did not learn is drawn again"


def test_a_changed_checkpoint_is_refused_with_both_identities(checkpoint_of, tmp_path):
    model = release(checkpoint_of("bert"))
    model.save(tmp_path)
    with pytest.raises(StoreError, match="trained from checkpoint"):
        TextRelease.load(tmp_path, torch.device("cpu"), checkpoint=checkpoint_of("roberta"))


def test_modules_that_the_checkpoint_does_not_have_are_refused(checkpoint_of, tmp_path):
    model = release(checkpoint_of("bert"))
    model.classifier.extra = torch.nn.Linear(2, 2)
    with pytest.raises(StoreError, match=r"extra\.bias and 1 more"):
        model.save(tmp_path)


def test_a_claim_at_a_position_that_can_be_gone_round_is_refused(checkpoint_of):
    with pytest.raises(LeakError):
        release(checkpoint_of("bert"), claim=CLAIM, tap="encoder.layer.0.output.dense", transform=Noise())
    release(checkpoint_of("bert"), tap="encoder.layer.0.output.dense", transform=Noise())


def test_a_tap_and_a_transform_come_together(checkpoint_of):
    with pytest.raises(ModelError, match="a tap and a transform, or neither"):
        release(checkpoint_of("bert"), tap="output")


def test_no_records_give_no_rows(checkpoint_of, records_of):
    model = release(checkpoint_of("bert"))
    assert model.predict(records_of([])).log_probs.shape == (0, 3)
    assert model.embed(records_of([]), "output").values.shape == (0, 16)
    assert model.embed(records_of([]), "embedding").values.shape == (0, 16)


@pytest.mark.parametrize("tap", ["encoder.0.mha", "encoder.1.add_norm_2", "output"])
def test_what_was_let_out_is_enough_to_answer(checkpoint_of, records_of, tap):
    model, records = release(checkpoint_of("bert"), tap=tap, transform=Noise()), records_of(TEXTS)
    answered = model.predict_from(model.embed(records, tap, draw=3)).log_probs
    assert np.abs(answered - model.predict(records, draw=3).log_probs).max() < 1e-5
    with pytest.raises(ModelError, match="clear release"):
        release(checkpoint_of("bert")).predict_from(model.embed(records, tap))


def test_half_surrogates_do_not_stop_the_tokenizer(checkpoint_of, records_of):
    checkpoint = checkpoint_of("bert")
    assert checkpoint.tokens(records_of(["tea \ud83d", ("tea", "\udc00 sun"), "tea \U0001f600"]))[0][:2] == [2, 12]
    noisy = release(checkpoint, tap="output", transform=Noise())
    assert np.isfinite(noisy.embed(records_of(["tea \ud83d"]), "output").values).all()
