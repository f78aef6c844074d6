"""Per-class thresholds: one line through standardised scores is one for each class, without any truth."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.context import RunContext
from dpeval.plugin import Knowledge
from dpeval.types import Predictions, Records
from dpeval_attacks.membership.perclass import standardised
from dpeval_attacks.membership.references import auc
from dpeval_attacks.membership.threshold import ThresholdAttack


def test_within_a_class_the_order_stays_and_across_classes_it_is_counted_in_their_spreads():
    rng = np.random.default_rng(0)
    known_classes = np.repeat([0, 1], 200)
    known = rng.normal(size=400) * np.where(known_classes, 5, 1) + 10 * known_classes
    classes, scores = rng.integers(0, 2, 100), rng.normal(size=100)
    got = standardised(scores, classes, known, known_classes)
    for label in (0, 1):
        mine = known[known_classes == label]
        spread = np.mean(np.abs(mine - np.median(mine))) * 200 / 199
        np.testing.assert_allclose(got[classes == label], (scores[classes == label] - np.median(mine)) / spread)


def test_a_class_with_few_known_records_or_no_spread_is_measured_with_all():
    known, classes = np.concatenate([np.zeros(50), np.arange(10.0)]), np.array([0] * 50 + [1] * 10)
    got = standardised(np.array([1.0, 1.0, 1.0]), np.array([0, 1, 2]), known, classes)
    assert np.isfinite(got).all()
    assert got[0] == got[1] == got[2]
    assert standardised(np.array([2.0]), np.array([0]), np.zeros(0), np.zeros(0, dtype=int)).tolist() == [2.0]
    assert np.isfinite(standardised(np.array([2.0]), np.array([0]), np.zeros(30), np.zeros(30, dtype=int))).all()


class Uneven:
    """Far surer of class 1 than of class 0; adds a little where it was trained."""

    def __init__(self, members):
        self.members = members

    def predict(self, records, *, draw=0):
        rows = []
        for key, label in zip(records.ids, records.labels, strict=True):
            rng = np.random.default_rng(int(key[1:]))
            odds = (6 if label else 0) + rng.normal() * (3 if label else 1) + 1.5 * (key in self.members)
            own, other = -np.logaddexp(0, -odds), -np.logaddexp(0, odds)
            rows.append([other, own] if label else [own, other])
        return Predictions(records.ids, np.array(rows))


@pytest.mark.parametrize("signal", ["confidence", "entropy"])
def test_it_helps_where_the_model_is_surer_of_one_class(signal):
    rng = np.random.default_rng(3)
    labels = tuple(int(v) for v in rng.integers(0, 2, 1200))
    everyone = Records(tuple(f"r{i}" for i in range(1200)), ("t",) * 1200, labels)
    candidates, auxiliary = everyone.take(range(800)), everyone.take(range(800, 1200))
    member = rng.random(800) < 0.5
    view = Uneven({key for key, yes in zip(candidates.ids, member, strict=True) if yes})
    knowledge = Knowledge(None, None, auxiliary, num_labels=2, num_attribute_values=0)
    found = {
        kind: ThresholdAttack(signal=signal, thresholds=kind).score(view, candidates, knowledge, RunContext(0)).values
        for kind in ("global", "per-class")
    }
    assert auc(found["per-class"], member) > auc(found["global"], member) + 0.02


def test_the_published_protocol_names_its_sound_version():
    attack = ThresholdAttack(signal="entropy", protocol="published")
    assert attack.sound == ThresholdAttack(signal="entropy")
    assert attack.sound.sound == attack.sound
