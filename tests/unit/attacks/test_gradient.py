"""Gradient inversion on real releases of a tiny model."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.types import Embeddings
from dpeval_attacks.inversion.gradient import GradientInversion
from dpeval_attacks.inversion.nearest import NearestInversion


def recover(world, view, *, attack=GradientInversion, **options):
    return attack(**options).recover(view, world.targets.ids, world.knowledge, world.ctx)


@pytest.mark.parametrize("tap", ["embedding", "encoder.0.add_norm_2"])
@pytest.mark.parametrize("through", ["auto", "map"])
def test_clear_rows_give_every_word_away(world, tap, through):
    found = recover(world, world.view(tap), through=through)
    assert found.ids == world.targets.ids
    assert world.recall(found.tokens) >= 0.99


def test_the_whole_vocabulary_may_be_relaxed(world):
    assert world.recall(recover(world, world.view("embedding"), shortlist=0).tokens) >= 0.99


def test_a_padded_scaled_release_is_read_at_its_place(world):
    found = recover(world, world.view("encoder.0.add_norm_2", 1e-3))
    assert world.recall(found.tokens) >= 0.99
    for tokens, answers in zip(world.truth(), found.tokens, strict=True):
        assert len(answers) == world.checkpoint.max_length
        assert set(answers[len(tokens) - 1 :]) == {-1}


def test_under_noise_it_reads_at_least_as_much_as_row_by_row(world):
    view = world.view("encoder.1.add_norm_2", 0.03)
    gradient, nearest = (
        world.recall(recover(world, view, attack=a).tokens) for a in (GradientInversion, NearestInversion)
    )
    assert gradient >= nearest - 0.01


def test_trained_layers_are_read_through_the_map(world):
    """The public layers explain nothing there; forced on it they do worse."""
    view = world.view("encoder.1.add_norm_2", stir=1.0)
    by_map, by_layers = (world.recall(recover(world, view, through=t).tokens) for t in ("auto", "layers"))
    assert by_map >= by_layers
    assert by_map == world.recall(recover(world, view, through="map").tokens)


def test_overwhelming_noise_leaves_no_word(world):
    assert world.recall(recover(world, world.view("embedding", 1e4)).tokens) < 0.2


def test_special_tokens_are_never_answered(world):
    for sigma in (None, 0.2):
        found = recover(world, world.view("embedding", sigma), shortlist=0, steps=20)
        assert not world.checkpoint.special_ids & {t for answers in found.tokens for t in answers}


def test_batches_do_not_change_answers(world):
    view = world.view("embedding", 0.04)
    one, many = (recover(world, view, batch=b, steps=40, restarts=1).tokens for b in (1, 32))
    assert np.mean([a == b for a, b in zip(one, many, strict=True)]) >= 0.9


def test_the_same_seed_gives_the_same_answers(world):
    first, second = (recover(world, world.view("embedding", 0.05)).tokens for _ in range(2))
    assert first == second


def test_zero_and_broken_rows_have_no_answer_and_spoil_no_other(world):
    def spoil(clear):
        values = clear.values.copy()
        values[clear.offsets[0] + 1], values[clear.offsets[1] + 2] = 0.0, np.nan
        return Embeddings(clear.ids, values, clear.offsets)

    whole, spoilt = (recover(world, world.view("embedding", spoil=s)).tokens for s in (lambda e: e, spoil))
    changed = [(i, j) for i in range(len(whole)) for j in range(len(whole[i])) if whole[i][j] != spoilt[i][j]]
    assert changed == [(0, 1), (1, 2)]
    assert spoilt[0][1] == spoilt[1][2] == -1


def bag_f1(world, bags):
    right = said = asked = 0
    for tokens, bag in zip(world.truth(), bags, strict=True):
        truth = {t for t in tokens if t not in world.checkpoint.special_ids}
        right, said, asked = right + len(truth & set(bag)), said + len(bag), asked + len(truth)
    return 2 * right / (said + asked)


def test_a_pooled_row_gives_a_bag_of_words_away(world):
    """The texts' topics show: the bags of the right rows fit better than those of other rows."""
    bags = recover(world, world.view("output")).tokens
    assert bag_f1(world, bags) > bag_f1(world, bags[1:] + bags[:1]) + 0.15
    assert not world.checkpoint.special_ids & {t for bag in bags for t in bag}


@pytest.mark.parametrize("options", [
    {"through": "roof"}, {"temperature": 0.0}, {"restarts": 0}, {"steps": 0}, {"batch": 0}, {"shortlist": -1},
    {"learning_rate": 0.0}, {"max_auxiliary": 1}, {"queries": 0},
])  # fmt: skip
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}.*got"):
        GradientInversion(**options)
