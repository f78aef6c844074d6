"""Plain training: deterministic, every record once an epoch, and it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpeval.context import RunContext
from dpeval.models.fit import batches_of_like_length, fit, linear_decay

GOOD = ["a good day", "the warm sun is good", "good tea again", "we is very good"]
BAD = ["a bad day", "the cold rain is bad", "bad soup again", "we is very bad"]
SETTINGS = {"epochs": 2, "batch_size": 3, "learning_rate": 1e-3}


def words(records_of):
    mixed = [text for pair in zip(GOOD, BAD, strict=True) for text in pair]
    return records_of(mixed)


def trained(checkpoint, records, seed=0, **options):
    classifier = checkpoint.build(2, 0)
    history = fit(classifier, records, checkpoint=checkpoint, ctx=RunContext(seed), **(SETTINGS | options))
    return classifier, history


def test_training_is_the_same_in_every_run_and_differs_between_seeds(checkpoint_of, records_of):
    checkpoint, records = checkpoint_of("bert"), words(records_of)
    one, two, other = (trained(checkpoint, records, seed)[0].state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[n], two[n]) for n in one)
    assert any(not torch.equal(one[n], other[n]) for n in one)


def test_training_leaves_the_global_generator_alone_and_does_not_listen_to_it(checkpoint_of, records_of):
    checkpoint, records = checkpoint_of("bert"), words(records_of)
    before = torch.get_rng_state()
    one = trained(checkpoint, records)[0].state_dict()
    assert torch.equal(before, torch.get_rng_state())
    torch.rand(3)
    two = trained(checkpoint, records)[0].state_dict()
    assert all(torch.equal(one[n], two[n]) for n in one)


def test_dropout_is_at_work_in_training_and_off_afterwards(checkpoint_of, records_of):
    checkpoint, records = checkpoint_of("bert"), words(records_of)
    classifier = checkpoint.build(2, 0)
    seen = []
    classifier.dropout.register_forward_hook(lambda module, _a, _o: seen.append(module.training))
    fit(classifier, records, checkpoint=checkpoint, ctx=RunContext(0), **SETTINGS)
    assert seen
    assert all(seen)
    assert not classifier.training


def test_it_learns_and_reports_the_mean_loss_of_each_epoch(checkpoint_of, records_of):
    checkpoint, records = checkpoint_of("bert"), words(records_of)
    classifier, history = trained(checkpoint, records, epochs=30, batch_size=4, learning_rate=3e-3)
    with torch.no_grad():
        logits = classifier(**checkpoint.encode(records).batch(range(8)))
    assert logits.argmax(1).tolist() == list(records.labels)
    assert len(history) == 30
    assert history[-1] < 0.5 * history[0]


def test_frozen_parameters_stay_to_the_bit(checkpoint_of, records_of):
    checkpoint, records = checkpoint_of("bert"), words(records_of)
    classifier = checkpoint.build(2, 0)
    classifier.encoder.requires_grad_(False)
    public = checkpoint.build(2, 0).encoder.state_dict()
    fit(classifier, records, checkpoint=checkpoint, ctx=RunContext(0), weight_decay=0.1, **SETTINGS)
    assert all(torch.equal(public[n], t) for n, t in classifier.encoder.state_dict().items())
    assert not torch.equal(classifier.head.weight, checkpoint.build(2, 0).head.weight)


def test_a_loss_of_ones_own_is_used(checkpoint_of, records_of):
    checkpoint, records = checkpoint_of("bert"), words(records_of)
    _, history = trained(checkpoint, records, loss=lambda logits, labels: 0 * logits.sum(dim=1) + labels.float())
    assert history == (0.5, 0.5)


def test_every_row_comes_once_in_an_epoch_and_batches_hold_like_lengths():
    lengths = np.random.default_rng(0).integers(1, 60, size=203).tolist()
    batches = list(batches_of_like_length(lengths, 8, np.random.default_rng(1)))
    assert sorted(row for batch in batches for row in batch) == list(range(203))
    spread = np.mean([max(lengths[r] for r in b) - min(lengths[r] for r in b) for b in batches])
    assert spread < 10
    again = list(batches_of_like_length(lengths, 8, np.random.default_rng(2)))
    assert batches != again


def test_the_learning_rate_falls_to_zero_in_a_straight_line():
    assert [linear_decay(step, 4) for step in range(5)] == [1.0, 0.75, 0.5, 0.25, 0.0]


@pytest.mark.parametrize(("change", "message"), [({"labels": (0, 1, 2, 0, 1, 0, 1, 0)}, r"labels 0\.\.1, got \[2\]"),
                                                 ({"labels": (-1,) * 8}, r"got \[-1\]")])  # fmt: skip
def test_labels_that_are_no_class_are_an_error(checkpoint_of, records_of, change, message):
    with pytest.raises(ValueError, match=message):
        trained(checkpoint_of("bert"), replace(words(records_of), **change))


def test_nothing_to_train_on_is_an_error(checkpoint_of, records_of):
    with pytest.raises(ValueError, match="at least one training record"):
        trained(checkpoint_of("bert"), records_of([]))
