"""The edits of the published protocol: what they change, and that a model-free attacker sees them."""

from __future__ import annotations

import numpy as np

from dpeval.data.perturb import UNTOUCHED, perturbed
from dpeval.measure.blind import BlindRun, measure_blind
from dpeval.tiny import tiny_dataset
from dpeval.types import Records


def test_only_texts_change_and_one_in_ten_stays():
    before = tiny_dataset(500).records
    after = perturbed(before, seed=0)
    assert (after.ids, after.labels, after.groups) == (before.ids, before.labels, before.groups)
    same = np.mean([a == b for a, b in zip(before.texts, after.texts, strict=True)])
    assert UNTOUCHED / 2 < same < UNTOUCHED + 0.1
    assert perturbed(before, seed=0) == after
    assert perturbed(before, seed=1) != after


def test_a_record_is_edited_alike_whatever_stands_beside_it_as_long_as_the_words_are_the_same():
    before = tiny_dataset(60).records
    turned = before.take(range(59, -1, -1))
    one, other = perturbed(before, 3), perturbed(turned, 3)
    assert dict(zip(one.ids, one.texts, strict=True)) == dict(zip(other.ids, other.texts, strict=True))


def test_pairs_stay_pairs_and_texts_of_one_word_or_none_survive():
    records = Records(("a", "b", "c"), (("one two three", "four five"), ("six", ""), ("", "")), (0, 0, 0))
    for seed in range(30):
        for text in perturbed(records, seed).texts:
            assert isinstance(text, tuple)
            assert len(text) == 2


def test_a_blind_attacker_tells_edited_from_unedited_texts_but_not_two_halves():
    pool = tiny_dataset(600).records
    member = np.random.default_rng(1).random(600) < 0.5
    untouched = measure_blind([BlindRun(pool.ids, pool.texts, member, pool.labels, pool.groups)])
    inside, outside = (pool.take(np.flatnonzero(side).tolist()) for side in (member, ~member))
    edited = inside + perturbed(outside, 0)
    truth = np.arange(600) < len(inside)
    flagged = measure_blind([BlindRun(edited.ids, edited.texts, truth, edited.labels, edited.groups)])
    assert flagged.invalid
    assert not untouched.invalid
