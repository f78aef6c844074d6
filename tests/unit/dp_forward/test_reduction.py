"""Dimension reduction around the noise: what is released, what it costs, what learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpeval.context import RunContext
from dpeval.plugin import Task
from dpeval_defenses.dp_forward import DPForward
from dpeval_defenses.dp_forward.reduction import Reduction, reduction_of
from dpeval_defenses.dp_forward.release import ForwardRelease

TEXTS = ["a good day", "a bad day", "good tea again", "bad tea", "the good sun is", "the bad rain"] * 3


def train(checkpoint, records, **options):
    settings = {"epochs": 2, "batch_size": 4, "reduce_to": 4, "position": "encoder.0.add_norm_2"} | options
    return DPForward(**settings).train(Task(records, 2, checkpoint), RunContext(0))


@pytest.mark.parametrize("level", ["sequence", "token"])
@pytest.mark.parametrize("regime", ["frozen", "frozen-fresh", "trained"])
def test_k_columns_leave_and_the_noise_is_that_of_all_columns(checkpoint_of, records_of, regime, level):
    """σ follows from the sensitivity 2C, which the bound after M1 keeps whatever k is."""
    checkpoint, records = checkpoint_of("bert"), records_of(TEXTS)
    options = {"training": regime, "level": level, "position": "embedding"}
    reduced, whole = train(checkpoint, records, **options), train(checkpoint, records, reduce_to=None, **options)
    rows = 16
    assert reduced.embed(records, "embedding").values.shape == (rows * len(records), 4)
    assert whole.embed(records, "embedding").values.shape == (rows * len(records), 16)
    ours, theirs = dict(reduced.claim.details), dict(whole.claim.details)
    assert (ours["sigma"], ours["sensitivity"]) == (theirs["sigma"], theirs["sensitivity"])
    assert reduced.claim.epsilon == whole.claim.epsilon
    assert ours["columns released"] == 4


def test_the_reduced_matrix_is_bounded_after_the_map(checkpoint_of, records_of):
    """Without noise the released matrix is tanh(M1·x), scaled to Frobenius norm C, by hand."""
    checkpoint, records = checkpoint_of("bert"), records_of(TEXTS[:3])
    release = train(checkpoint, records, inference="none", clip=2.0)
    got = release.embed(records, "encoder.0.add_norm_2")
    from dpeval.models.taps import capture

    for i, ids in enumerate(checkpoint.encode(records).ids):
        batch = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
        with torch.no_grad():
            down = reduction_of(release.classifier).down
            mapped = torch.tanh(
                capture(release.classifier, batch, "encoder.0.add_norm_2")[0] @ down.weight.T + down.bias
            )
        expected = 2.0 * mapped / mapped.norm()
        assert got.rows(i)[: len(ids)] == pytest.approx(expected.numpy(), abs=2e-5)
        assert not got.rows(i)[len(ids) :].any()


@pytest.mark.parametrize("regime", ["frozen", "trained"])
def test_the_first_map_is_public_unless_the_front_learns(checkpoint_of, records_of, regime):
    release = train(checkpoint_of("bert"), records_of(TEXTS), training=regime, learning_rate=1e-2)
    public, learned = Reduction(16, 4), reduction_of(release.classifier)
    assert torch.equal(public.down.weight, learned.down.weight) == (regime == "frozen")
    assert not torch.equal(public.up.weight, learned.up.weight)


def test_what_is_saved_answers_the_same_and_from_the_released_tensor_alone(checkpoint_of, records_of, tmp_path):
    records = records_of(TEXTS)
    release = train(checkpoint_of("bert"), records)
    release.save(tmp_path)
    loaded = ForwardRelease.load(tmp_path, torch.device("cpu"), checkpoint=checkpoint_of("bert"))
    expected = release.predict(records).log_probs
    assert np.array_equal(loaded.predict(records).log_probs, expected)
    released = loaded.embed(records, "encoder.0.add_norm_2")
    assert loaded.predict_from(released).log_probs == pytest.approx(expected, abs=1e-5)


def test_impossible_sizes_are_said_before_training(checkpoint_of):
    assert "between 1 and 15" in DPForward(reduce_to=16).unfit(checkpoint_of("bert"), 10)
    assert DPForward(reduce_to=15).unfit(checkpoint_of("bert"), 10) is None
    with pytest.raises(ValueError, match="reduce_to"):
        DPForward(reduce_to=0)
    with pytest.raises(ValueError, match="reduce_to"):
        DPForward(level="token-attention", position="encoder.0.qkv", reduce_to=4)
