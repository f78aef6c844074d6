"""Probabilities of tokens: the tempered posterior written out, slots of a bag counted, and made-up texts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from dpeval.types import Records
from dpeval_attacks.inversion.composed import compose, whole_words
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.posterior import fit_posterior, in_parts
from dpeval_attacks.inversion.slots import THRESHOLDS, answer, best_threshold, occupied, slots_of


def made(noise, seed=0, n=900):
    """Rows of 12 words at 3 places, of gain 1 or 2; word 1 is the commonest, word 0 never said."""
    rng = np.random.default_rng(seed)
    table = np.random.default_rng(9).standard_normal((13, 8)).astype(np.float32)
    shares = np.array([0, 8, *[1] * 11]) / 19
    tokens, gains = rng.choice(13, n, p=shares), rng.choice([1.0, 2.0], n)
    rows = gains[:, None] * table[tokens] + noise * rng.standard_normal((n, 8))
    return Sample(rows.astype(np.float32), tokens, rng.integers(0, 3, n), gains), table


def test_probabilities_are_those_of_the_tempered_posterior_by_hand():
    sample, table = made(noise=0.8)
    allowed = np.arange(1, 13)
    found = fit_posterior(sample, made(0.8, seed=1)[0], table, allowed=allowed)
    asked = sample.where(np.arange(len(sample)) < 20)
    scatter = np.linalg.inv(found.whitening.matrix @ found.whitening.matrix.T)
    by_hand = np.zeros((20, 12))
    for i in range(20):
        at_place = sample.tokens[sample.positions == asked.positions[i]]
        for j, token in enumerate(allowed):
            mean = asked.gains[i] * (found.picture.means[token] + found.picture.offset(asked.positions[i : i + 1])[0])
            likelihood = multivariate_normal(mean, scatter).logpdf(asked.rows[i])
            often = (np.sum(sample.tokens == token) + 0.05) / (len(sample) + 0.05 * 12)
            prior = (np.sum(at_place == token) + 20 * often) / (len(at_place) + 20)
            by_hand[i, j] = found.temper * likelihood + np.log(prior)
    by_hand -= logsumexp(by_hand, axis=1, keepdims=True)
    np.testing.assert_allclose(found.log_probs(asked), by_hand, atol=2e-3)
    np.testing.assert_array_equal(np.concatenate(in_parts(asked, found.log_probs)), found.log_probs(asked))


def test_rows_that_tell_nothing_leave_how_common_words_are():
    sample, table = made(noise=0.5)
    shuffled = np.random.default_rng(3).permutation(len(sample))
    blind = Sample(sample.rows[shuffled], sample.tokens, sample.positions, np.ones(len(sample)))
    held = made(noise=1e4, seed=1)[0]
    found = fit_posterior(blind, held, table, allowed=np.arange(1, 13))
    assert found.temper <= 0.1
    assert np.mean(found.allowed[found.log_probs(held).argmax(axis=1)] == 1) > 0.9


def test_slots_count_what_is_said_twice():
    assert slots_of([7, 8, 7]) == [(7, 0), (8, 0), (7, 1)]


def test_slots_are_as_likely_as_in_drawn_bags():
    rng, expected = np.random.default_rng(0), np.array([2.0, 0.3])
    counts = rng.poisson(expected, (200_000, 2))
    found = dict(occupied(expected, np.array([5, 6])))
    for (token, place), p in found.items():
        assert p == pytest.approx(np.mean(counts[:, token - 5] > place), abs=0.005)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_sure_counts_are_answered_exactly_and_the_threshold_is_the_best_of_all():
    rng = np.random.default_rng(0)
    truth = [rng.integers(0, 9, 12).tolist() for _ in range(30)]
    sure = [occupied(np.bincount(text, minlength=9).astype(float), np.arange(9)) for text in truth]
    threshold = best_threshold(sure, truth)
    assert [Counter(answer(slots, threshold)) for slots in sure] == [Counter(text) for text in truth]
    vague = [occupied(np.bincount(text, minlength=9) + rng.random(9), np.arange(9)) for text in truth]

    def f1(threshold):
        bags = [Counter(answer(slots, threshold)) for slots in vague]
        right = sum((bag & Counter(text)).total() for bag, text in zip(bags, truth, strict=True))
        return 2 * right / (sum(bag.total() for bag in bags) + 12 * 30)

    assert f1(best_threshold(vague, truth)) == max(map(f1, THRESHOLDS))


def test_made_up_texts_are_pieces_of_own_ones_and_other_words(world):
    texts = ["one two three four five", "six seven eight nine"]
    made_up = compose(texts, ["zebra"], 40, np.random.default_rng(0))
    assert isinstance(made_up, Records)
    assert len(set(made_up.ids)) == 40
    known = {word for text in texts for word in text.split()}
    for i, text in enumerate(made_up.texts):
        assert set(text.split()) <= (known | {"zebra"} if i % 2 else known)
    changed = [word == "zebra" for text in made_up.texts[1::2] for word in text.split()]
    assert 0.15 < np.mean(changed) < 0.45
    assert not len(compose([], ["zebra"], 5, np.random.default_rng(0)))


def test_whole_words_are_words_of_the_vocabulary(world):
    words = whole_words(world.checkpoint)
    assert len(words) > 20
    for word in words[:20]:
        ids = [t for t in world.checkpoint.tokenizer(word)["input_ids"] if t not in world.checkpoint.special_ids]
        assert len(ids) == 1
