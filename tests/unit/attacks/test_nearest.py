"""Nearest-neighbour inversion on real releases of a tiny model."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.types import Embeddings, Records
from dpeval_attacks.inversion.gradient import GradientInversion
from dpeval_attacks.inversion.nearest import NearestInversion
from dpeval_attacks.inversion.reader import Reader


def recover(world, view, *, auxiliary=None, **options):
    knowledge = world.knowing(world.auxiliary if auxiliary is None else auxiliary)
    return NearestInversion(**options).recover(view, world.targets.ids, knowledge, world.ctx)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("prior", [True, False])
@pytest.mark.parametrize("tap", ["embedding", "encoder.0.add_norm_2", "encoder.1.add_norm_2"])
def test_clear_rows_give_every_word_away(world, tap, metric, prior):
    found = recover(world, world.view(tap), metric=metric, prior=prior)
    assert found.ids == world.targets.ids
    assert world.recall(found.tokens) >= 0.99


def test_a_trained_model_is_read_with_the_picture_learnt_from_its_releases(world, monkeypatch):
    """All weights far from the public ones: the public picture alone, forced on it here, does much worse."""
    moved = world.view("encoder.1.add_norm_2", stir=1.0)
    found = world.recall(recover(world, moved).tokens)
    monkeypatch.setattr(Reader, "accuracy", lambda self, sample: 0.0)
    assert found > world.recall(recover(world, moved).tokens) + 0.15


def test_special_tokens_are_never_answered_and_their_rows_stay_open(world):
    special = world.checkpoint.special_ids
    for tokens, answers in zip(world.truth(), recover(world, world.view("embedding")).tokens, strict=True):
        assert len(answers) == len(tokens)
        assert not special & set(answers)
        assert [a for t, a in zip(tokens, answers, strict=True) if t in special] == [-1] * sum(
            t in special for t in tokens
        )


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("sigma", [0.0, 1e-3])
def test_a_padded_release_of_little_noise_gives_words_and_length_away(world, normalised, sigma):
    view = world.view("embedding", sigma, normalised=normalised)
    found = recover(world, view)
    assert world.recall(found.tokens) >= 0.99
    for tokens, answers in zip(world.truth(), found.tokens, strict=True):
        assert len(answers) == world.checkpoint.max_length
        assert set(answers[len(tokens) - 1 :]) == {-1}


def test_the_public_picture_wins_under_noise_where_the_model_is_as_published(world, monkeypatch):
    noisy = world.view("embedding", 0.05)
    with_public = world.recall(recover(world, noisy, max_auxiliary=12).tokens)
    monkeypatch.setattr("dpeval_attacks.inversion.nearest.GOOD_ENOUGH", 0.0)
    assert with_public > world.recall(recover(world, noisy, max_auxiliary=12).tokens) + 0.1


def test_a_release_that_the_public_model_knows_nothing_of_is_read_by_itself(world):
    """Rows cut to half their width at a tap of the defense's own name: no public picture, no failure."""
    view = world.view("embedding", 0.02)

    def cut(clear):
        return Embeddings(clear.ids, np.ascontiguousarray(clear.values[:, :8]), clear.offsets)

    for tap in ("embedding", "my.sketch"):
        own = type("Cut", (), {
            "tap": tap,
            "intercepted": lambda self, *, draw=0: cut(view.intercepted(draw=draw)),
            "embed": lambda self, records, *, draw=0: cut(view.embed(records, draw=draw)),
        })()  # fmt: skip
        assert world.recall(recover(world, own).tokens) > 0.3


def test_it_beats_the_plain_regression_of_word_embeddings_on_rows(world):
    """The textbook attack, fitted on the same clear texts: ridge regression to the table, then the nearest entry."""
    view = world.view("embedding", 0.03, normalised=True)
    table = world.checkpoint.input_embeddings().astype(np.float64)
    own, tokens = view.embed(world.auxiliary), world.checkpoint.tokens(world.auxiliary)
    rows = np.concatenate([own.rows(i)[: len(t)] for i, t in enumerate(tokens)]).astype(np.float64)
    words, centre = table[np.concatenate(tokens)], rows.mean(axis=0)
    gram = (rows - centre).T @ (rows - centre)
    solved = np.linalg.solve(gram + 1e-3 * np.trace(gram) / len(gram) * np.eye(len(gram)), (rows - centre).T @ words)
    seen = view.intercepted()
    allowed = [v for v in range(len(table)) if v not in world.checkpoint.special_ids]

    def plain(i):
        mapped = (seen.rows(i) - centre) @ solved
        return np.array(allowed)[
            np.argmin(((mapped[:, None] - (table - words.mean(axis=0))[None, allowed]) ** 2).sum(axis=2), axis=1)
        ]

    baseline = world.recall([plain(i) for i in range(len(seen))])
    assert world.recall(recover(world, view).tokens) > baseline + 0.1


def test_averaging_queries_recovers_more(world):
    few, many = (world.recall(recover(world, world.view("embedding", 0.08), queries=k).tokens) for k in (1, 8))
    assert many > few + 0.2


def test_a_clear_release_is_asked_no_more_than_twice(world):
    view = world.view("embedding")
    recover(world, view, queries=9)
    assert len(view.asked) == 4


def test_overwhelming_noise_still_gets_answers_and_no_words(world):
    found = recover(world, world.view("embedding", 1e4))
    assert world.recall(found.tokens) < 0.3
    assert np.mean([any(a != -1 for a in answers) for answers in found.tokens]) > 0.5


def test_zero_and_broken_rows_have_no_answer_and_spoil_no_other(world):
    def spoil(clear):
        values = clear.values.copy()
        values[clear.offsets[0] + 1], values[clear.offsets[1] + 2] = 0.0, np.nan
        return Embeddings(clear.ids, values, clear.offsets)

    whole = recover(world, world.view("embedding")).tokens
    spoilt = recover(world, world.view("embedding", spoil=spoil)).tokens
    changed = [(i, j) for i in range(len(whole)) for j in range(len(whole[i])) if whole[i][j] != spoilt[i][j]]
    assert changed == [(0, 1), (1, 2)]
    assert spoilt[0][1] == spoilt[1][2] == -1


def test_answers_are_joined_by_id(world):
    def spoil(clear):
        order = list(range(len(clear)))[::-1]
        offsets = np.cumsum([0, *(len(clear.rows(i)) for i in order)])
        return Embeddings(tuple(clear.ids[i] for i in order), np.concatenate([clear.rows(i) for i in order]), offsets)

    straight = recover(world, world.view("embedding"))
    turned = recover(world, world.view("embedding", spoil=spoil))
    assert (turned.ids, turned.tokens) == (straight.ids, straight.tokens)


def test_the_same_seed_gives_the_same_answers(world):
    options = {"max_auxiliary": 30}
    first, second = (recover(world, world.view("embedding", 0.02), **options).tokens for _ in range(2))
    assert first == second


def test_no_more_auxiliary_texts_are_released_than_allowed(world):
    view = world.view("embedding")
    sizes, embed = [], view.embed
    view.embed = lambda records, draw=0: (sizes.append(len(records)), embed(records, draw=draw))[1]
    recover(world, view, max_auxiliary=10)
    assert sizes == [10]


def test_no_targets_give_no_answers_and_too_few_texts_are_refused(world):
    nobody = Embeddings((), np.zeros((0, 16), dtype=np.float32), np.array([0]))
    view = world.view("embedding", spoil=lambda _: nobody)
    found = NearestInversion().recover(view, (), world.knowledge, world.ctx)
    assert (found.ids, found.tokens) == ((), ())
    with pytest.raises(ValueError, match="at least 2 auxiliary texts to learn from, got 1"):
        recover(world, world.view("embedding"), auxiliary=world.auxiliary.take([0]))


def test_texts_without_words_do_not_stop_the_attack(world):
    empty = Records(("e0", "e1"), ("", " "), (0, 0))
    found = recover(world, world.view("embedding"), auxiliary=world.auxiliary + empty)
    assert world.recall(found.tokens) >= 0.99


def test_a_pooled_tap_is_unfit_with_its_reason_and_other_taps_are_fit(world):
    attack = NearestInversion()
    assert attack.unfit(world.checkpoint, "output") == "one pooled row, no row per token"
    assert [attack.unfit(world.checkpoint, tap) for tap in ("embedding", "encoder.1.ffn", None)] == [None] * 3


@pytest.mark.parametrize("options", [{"metric": "dot"}, {"queries": 0}, {"ridge": -1.0}, {"max_auxiliary": 1}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}.*got"):
        NearestInversion(**options)


@pytest.mark.parametrize("attack", [NearestInversion, GradientInversion])
def test_the_best_tokens_of_a_row_begin_with_the_answer_and_hold_the_truth_more_often(world, attack):
    found = attack(top_k=10).recover(world.view("embedding", 0.08), world.targets.ids, world.knowledge, world.ctx)
    alone = attack().recover(world.view("embedding", 0.08), world.targets.ids, world.knowledge, world.ctx)
    assert found.tokens == alone.tokens
    assert alone.ranked is None
    hits = []
    for tokens, answers, table in zip(world.truth(), found.tokens, found.ranked, strict=True):
        assert table.shape == (len(answers), 10)
        assert table[:, 0].tolist() == list(answers)
        named = [[t for t in row if t >= 0] for row in table.tolist()]
        assert all(len(set(row)) == len(row) for row in named)
        assert not world.checkpoint.special_ids & {t for row in named for t in row}
        hits += [t in row for t, row in zip(tokens, named, strict=False) if t not in world.checkpoint.special_ids]
    assert np.mean(hits) > world.recall(found.tokens) + 0.1
