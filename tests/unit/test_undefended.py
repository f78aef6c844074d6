"""The undefended reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpeval.context import RunContext
from dpeval.plugin import Task
from dpeval.types import NoClaim
from dpeval_defenses.none import Undefended

TEXTS = ["a good day", "a bad day", "good tea", "bad tea", "the good sun", "the bad rain"] * 2


@pytest.mark.parametrize("adapt", ["full", "head"])
def test_it_learns_claims_nothing_and_repeats_itself(checkpoint_of, records_of, adapt):
    checkpoint, records = checkpoint_of("bert"), records_of(TEXTS)
    defense = Undefended(adapt=adapt, epochs=15, batch_size=4, learning_rate=2e-3, head_learning_rate=2e-2)
    one, two = (defense.train(Task(records, 2, checkpoint), RunContext(3)) for _ in range(2))
    predicted = one.predict(records).log_probs
    assert (predicted.argmax(1) == np.array(records.labels)).mean() > 0.9
    assert np.array_equal(predicted, two.predict(records).log_probs)
    assert isinstance(one.claim, NoClaim)
    assert one.taps is None


def test_head_only_leaves_the_encoder_to_the_bit(checkpoint_of, records_of):
    checkpoint = checkpoint_of("bert")
    release = Undefended(adapt="head").train(Task(records_of(TEXTS), 2, checkpoint), RunContext(0))
    public = checkpoint.build(2, 0).encoder.state_dict()
    assert all(torch.equal(public[n], t) for n, t in release.classifier.encoder.state_dict().items())


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch_size": 0}, {"learning_rate": 0.0}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        Undefended(**wrong)
