"""Learned decoders on real releases of a tiny model."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dpeval.context import RunContext
from dpeval.measure.inversion import InversionRun, measure_inversion
from dpeval.types import Embeddings
from dpeval_attacks.inversion.learned import LearnedInversion


def recover(world, view, **options):
    return LearnedInversion(**options).recover(view, world.targets.ids, world.knowledge, world.ctx)


def bag_f1(world, bags):
    right = said = asked = 0
    for tokens, bag in zip(world.truth(), bags, strict=True):
        truth = Counter(t for t in tokens if t not in world.checkpoint.special_ids)
        right += (truth & Counter(bag)).total()
        said, asked = said + len(bag), asked + truth.total()
    return 2 * right / (said + asked)


@pytest.mark.parametrize("tap", ["embedding", "encoder.1.add_norm_2"])
@pytest.mark.parametrize("hidden", [0, 32])
def test_clear_rows_give_words_away(world, tap, hidden):
    found = recover(world, world.view(tap), hidden=hidden)
    assert world.recall(found.tokens) >= 0.95
    for tokens, answers in zip(world.truth(), found.tokens, strict=True):
        assert len(answers) == len(tokens)
        assert answers[0] == answers[-1] == -1


def test_more_views_of_a_noisy_release_read_more(world):
    view = world.view("embedding", 0.05)
    few, many = (world.recall(recover(world, view, views=k).tokens) for k in (1, 6))
    assert many > few + 0.03


def test_each_view_is_released_anew_and_a_clear_release_once(world):
    noisy, clear = world.view("embedding", 0.05), world.view("embedding")
    recover(world, noisy, views=3, queries=2, epochs=1)
    recover(world, clear, views=9, epochs=1)
    assert [draw for who, draw in noisy.asked if who == "own"] == list(range(6))
    assert [draw for who, draw in clear.asked if who == "own"] == [0, 1]


@pytest.mark.parametrize("tap", ["output", "embedding"])
def test_bags_fit_their_own_texts(world, tap):
    bags = recover(world, world.view(tap), kind="bag").tokens
    assert bag_f1(world, bags) > bag_f1(world, bags[1:] + bags[:1]) + 0.15
    assert not world.checkpoint.special_ids & {t for bag in bags for t in bag}


@pytest.mark.parametrize("kind", ["position", "bag"])
def test_overwhelming_noise_leaves_what_anybody_would_guess(world, kind):
    """The same answer for every row, or the same bag for every text."""
    found = recover(world, world.view("embedding", 1e4), kind=kind)
    if kind == "position":
        assert world.recall(found.tokens) < 0.1
    else:
        assert bag_f1(world, found.tokens) - bag_f1(world, found.tokens[1:] + found.tokens[:1]) < 0.05


def test_words_that_no_own_text_holds_are_read_too(world):
    """The picture is bound to the public word embeddings; a network alone knows the tokens of own texts only."""
    known = {t for ids in world.checkpoint.tokens(world.auxiliary.take(range(12))) for t in ids}
    knowledge = world.knowing(world.auxiliary.take(range(12)))
    found = LearnedInversion().recover(world.view("embedding"), world.targets.ids, knowledge, world.ctx).tokens
    pairs = [(t, g) for ids, answer in zip(world.truth(), found, strict=True) for t, g in zip(ids, answer, strict=True)]
    unseen = [t == g for t, g in pairs if t not in known]
    assert len(unseen) >= 3
    assert np.mean(unseen) > 0.8


@pytest.mark.parametrize("tap", ["embedding", "encoder.1.add_norm_2"])
def test_bags_of_clear_rows_are_whole(world, tap):
    assert bag_f1(world, recover(world, world.view(tap), kind="bag").tokens) > 0.97


def test_ranked_tokens_begin_with_the_answer(world):
    for sigma in (0.08, 1e4):
        found = recover(world, world.view("embedding", sigma), top_k=5, epochs=3)
        for answers, table in zip(found.tokens, found.ranked, strict=True):
            assert table.shape == (len(answers), 5)
            assert table[:, 0].tolist() == list(answers)


def gain(world, found, *, by_row):
    """That of measured F1 over the best guess without the embedding."""
    special = world.checkpoint.special_ids

    def shown(ids, rows):
        return tuple(-1 if t in special else t for t in [*ids, *[-1] * (rows - len(ids))])

    limit = world.checkpoint.max_length
    truth = tuple(shown(t, len(a) if by_row else limit) for t, a in zip(world.truth(), found.tokens, strict=True))
    auxiliary = [shown(ids, limit) for ids in world.checkpoint.tokens(world.auxiliary)]
    content = frozenset(range(world.checkpoint.vocab_size)) - special
    run = InversionRun(world.targets.ids, found.tokens, truth, content, special, by_row=by_row)
    return measure_inversion([run], auxiliary).estimates["gain_f1"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["position", "bag"])
def test_under_strong_noise_the_interval_of_the_gain_holds_0(world, kind):
    """Over many draws of noise: never surely above the guess more often than chance, and not far below it."""
    gains = []
    for seed in range(40):
        attack, ctx = LearnedInversion(kind=kind, views=2, epochs=8), RunContext(seed=seed)
        view = world.view("embedding", 1e3 + seed)
        found = attack.recover(view, world.targets.ids, world.knowledge, ctx)
        gains.append(gain(world, found, by_row=kind == "position"))
    assert sum(g.low > 0 for g in gains) <= 4  # 2.5 % each; more than 4 of 40 with probability 0.3 %
    assert np.mean([g.value for g in gains]) > -0.1  # row by row it has no more answers than rows


@pytest.mark.parametrize("kind", ["position", "bag"])
def test_the_same_seed_gives_the_same_answers(world, kind):
    first, second = (recover(world, world.view("embedding", 0.05), kind=kind, epochs=3).tokens for _ in range(2))
    assert first == second


@pytest.mark.parametrize("kind", ["position", "bag"])
def test_broken_rows_spoil_no_other_text(world, kind):
    def spoil(clear):
        values = clear.values.copy()
        values[clear.offsets[0] + 1] = np.nan
        return Embeddings(clear.ids, values, clear.offsets)

    whole, spoilt = (
        recover(world, world.view("embedding", spoil=s), kind=kind, epochs=3).tokens for s in (lambda e: e, spoil)
    )
    assert whole[1:] == spoilt[1:]
    assert spoilt[0] == () if kind == "bag" else spoilt[0][1] == -1


def test_where_it_fits(world):
    assert (
        LearnedInversion().unfit(world.checkpoint, "output")
        == 'one pooled row, no row per token; kind = "bag" reads it'
    )
    assert LearnedInversion(kind="bag").unfit(world.checkpoint, "output") is None


@pytest.mark.parametrize("options", [
    {"composed": -1}, {"top_k": 0},
    {"kind": "letters"}, {"hidden": -1}, {"views": 0}, {"epochs": 0}, {"learning_rate": 0.0}, {"weight_decay": -1.0},
])  # fmt: skip
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}.*got"):
        LearnedInversion(**options)
