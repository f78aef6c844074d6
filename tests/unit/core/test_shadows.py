"""Shadow releases: what each is trained on, that it is the same whoever asks, and that one is open at a time."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.data.canaries import CanaryConfig, make_canaries, plant
from dpeval.data.config import SplitConfig
from dpeval.data.split import split
from dpeval.plugin import Release
from dpeval.shadows import Shelf, halves_of, pair_seed, shadow_seed, shadow_split
from dpeval.tiny import tiny_dataset
from dpeval.types import Dataset, Predictions, Records, Split


def candidates(n=40, groups=()):
    return Records(tuple(f"r{i}" for i in range(n)), ("t",) * n, (0,) * n, groups=groups)


def few(records):
    nobody = records.take([])
    return Split(records, nobody, nobody, nobody)


def test_the_second_of_a_pair_is_trained_on_what_the_first_was_not():
    law = halves_of(few(candidates()))
    for pair in range(5):
        first, second = (set(shadow_split(law, 2 * pair + side).trained.ids) for side in (0, 1))
        assert not first & second
        assert first | second == set(candidates().ids)
    ins = [sum(key in shadow_split(law, i).trained.ids for i in range(10)) for key in candidates().ids]
    assert set(ins) == {5}


def test_each_record_is_in_by_a_fair_coin_and_groups_stay_whole():
    """400 pairs: the share of heads of each of 20 groups lies within 4 standard errors of one half."""
    records = candidates(40, tuple(i // 2 for i in range(40)))
    law = halves_of(few(records))
    drawn = [set(law(pair).members.ids) for pair in range(400)]
    shares = np.array([[key in one for key in records.ids] for one in drawn])
    assert np.array_equal(shares[:, ::2], shares[:, 1::2])
    assert np.abs(shares.mean(axis=0) - 0.5).max() < 4 * 0.5 / np.sqrt(400)


def test_a_target_and_its_shadows_are_drawn_by_one_law():
    dataset = tiny_dataset(200)
    canaries = make_canaries(dataset, CanaryConfig(count=30))

    def law(pair: int) -> Split:
        return plant(split(dataset, pair_seed(pair), SplitConfig()), canaries, pair_seed(pair))

    target = split(dataset, 0, SplitConfig())
    shadow = shadow_split(law, 4)
    assert shadow_split(law, 4) == shadow
    assert abs(len(shadow.members) - len(target.members)) < 40
    assert 5 < len(shadow.planted) < 25
    assert not set(shadow.planted.ids) & set(shadow_split(law, 5).planted.ids)
    assert shadow_seed(4) < 0


def test_a_handful_of_records_still_makes_two_halves():
    for n in (2, 3):
        law = halves_of(few(candidates(n)))
        for i in range(20):
            assert 0 < len(shadow_split(law, i).trained) < n


class Counting(Release):
    """A release that counts what it is asked."""

    claim = taps = None
    asked = 0

    def __init__(self, number):
        self.number = number

    def predict(self, records, *, draw=0):
        Counting.asked += 1
        return Predictions(records.ids, np.full((len(records), 2), -float(self.number) - draw))

    def embed(self, records, tap, *, draw=0): ...

    def save(self, folder): ...

    @classmethod
    def load(cls, folder, device): ...


def shelf(records, opened, count=4):
    def find(i):
        def opener():
            opened.append(i)
            return Counting(i)

        return opener

    return Shelf([records.take([i]) for i in range(count)], find, [records])


def test_one_question_for_each_shadow_and_draw_serves_every_attack():
    records, opened = candidates(6), []
    held = shelf(records, opened)
    Counting.asked = 0
    for part in (records, records.take([3, 1]), records):
        for shadow in held.shadows(4, declared=4):
            shadow.view.predict(part)
    assert Counting.asked == 4
    assert opened == [0, 1, 2, 3]
    found = held.shadows(2, declared=4)[1]
    assert found.trained_on == {"r1"}
    assert found.view.predict(records, draw=1).log_probs[0, 0] == -2
    assert Counting.asked == 5


def test_more_than_declared_is_refused_and_more_than_there_are_is_what_there_is():
    held = shelf(candidates(6), [])
    assert len(held.shadows(16, declared=16)) == 4
    with pytest.raises(ValueError, match="asked for 6 shadow releases, but the attack declares 4"):
        held.shadows(6, declared=4)


def test_a_shadow_that_cannot_be_had_says_why_when_it_is_asked_for():
    def find(i):
        raise RuntimeError(f"shadow release {i + 1} failed: out of luck")

    with pytest.raises(RuntimeError, match="shadow release 1 failed: out of luck"):
        Shelf([candidates(2)], find).shadows(1, declared=1)


def test_a_view_of_a_shadow_leads_to_nothing_else():
    shadow = shelf(candidates(6), []).shadows(1, declared=1)[0]
    assert {name for name in dir(shadow) if not name.startswith("_")} == {"trained_on", "view"}
    assert {name for name in dir(shadow.view) if not name.startswith("_")} == {"predict"}


def data(texts, labels=("a", "b")):
    n = len(texts)
    return Dataset("d", Records(tuple(f"r{i}" for i in range(n)), tuple(texts), (0,) * n), labels)


def test_canaries_are_new_texts_with_random_labels_and_groups_of_their_own():
    dataset = tiny_dataset(60)
    canaries = make_canaries(dataset, CanaryConfig(count=200))
    assert canaries == make_canaries(dataset, CanaryConfig(count=200))
    assert canaries != make_canaries(dataset, CanaryConfig(count=200, seed=1))
    assert len(set(canaries.texts)) == 200
    assert not set(canaries.texts) & set(dataset.records.texts)
    assert not set(canaries.groups) & set(dataset.records.groups)
    assert len(set(canaries.groups)) == 200
    assert 60 < sum(canaries.labels) < 140
    assert all(len(text.split()) == 12 for text in canaries.texts)


def test_canary_coins_are_fair_and_differ_between_seeds():
    canaries, parts = candidates(100), few(candidates(4))
    drawn = np.array([[key in set(plant(parts, canaries, s).planted.ids) for key in canaries.ids] for s in range(60)])
    assert abs(drawn.mean() - 0.5) < 4 * 0.5 / np.sqrt(drawn.size)
    assert np.abs(np.corrcoef(drawn[:, :10].T) - np.eye(10)).max() < 0.6
    assert plant(parts, canaries, 3) == plant(parts, canaries, 3)


def test_canaries_of_pairs_are_pairs_and_secrets_hold_digits():
    pairs = data([("one two", "three four"), ("five six", "seven eight")])
    assert all(isinstance(text, tuple) for text in make_canaries(pairs, CanaryConfig(count=5)).texts)
    secret = make_canaries(data(["one two"]), CanaryConfig(count=5, kind="secret", length=4)).texts[0]
    assert secret.startswith("the secret number is ")
    assert len(secret.split()) == 8


def test_a_canary_never_takes_the_id_of_a_record():
    taken = Records(("canary-0",), ("some words here",), (0,))
    ids = make_canaries(Dataset("d", taken, ("a", "b")), CanaryConfig(count=3)).ids
    assert ids == ("_canary-0", "_canary-1", "_canary-2")


@pytest.mark.parametrize("texts", [["one two"], ["123 456"]])
def test_too_few_words_for_so_many_canaries_is_an_error_that_says_what_to_do(texts):
    with pytest.raises(ValueError, match="raise length, or lower count"):
        make_canaries(data(texts), CanaryConfig(count=50, length=2))


@pytest.mark.parametrize("options", [{"count": 1}, {"length": 0}])
def test_canary_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match="expected at least"):
        CanaryConfig(**options)
