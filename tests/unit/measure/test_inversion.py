"""Recovered tokens are counted as a reader would count them, beside the best guess without the embedding."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dpeval.measure.guessing import bag_tallies, fit_guesser
from dpeval.measure.inversion import InversionRun, measure_inversion
from dpeval.measure.recovery import Scope, count_bag, count_positions
from dpeval.measure.tokens import content_tokens
from dpeval.types import Estimate, Undefined

CLS, SEP, PAD = 101, 102, 0
NEVER = frozenset({CLS, SEP, PAD})
CONTENT = frozenset(range(20, 100))


def texts(n: int = 60, seed: int = 0) -> list[tuple[int, ...]]:
    """Rows [CLS] tokens [SEP] [PAD], the special rows marked -1; ids 1 to 19 are frequent function words."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        body = np.where(rng.random(8) < 0.5, rng.integers(1, 6, 8), rng.integers(20, 100, 8))
        out.append((-1, *body.tolist(), -1, -1))
    return out


def run_of(guessed, truth) -> InversionRun:
    return InversionRun(tuple(f"r{i}" for i in range(len(truth))), tuple(guessed), tuple(truth), CONTENT, NEVER)


def values(guessed, truth, auxiliary=()) -> dict[str, float]:
    found = measure_inversion([run_of(guessed, truth)], auxiliary or texts(seed=9)).estimates
    return {name: e.value for name, e in found.items() if isinstance(e, Estimate)}


def test_an_attacker_that_says_only_special_tokens_scores_0() -> None:
    """V7: [CLS] and [SEP] at their places are right, and worth nothing."""
    truth = texts()
    guessed = [(CLS, *[SEP] * 9, PAD) for _ in truth]
    found = values(guessed, truth)
    for name in ("recall", "precision", "f1", "content_f1", "position_recall"):
        assert found[name] == 0


def test_a_perfect_attacker_scores_1() -> None:
    """Whatever it says on rows that do not count, as long as that is no token; the gain is what the guess lacks."""
    truth = texts()
    found = values([tuple(CLS if t == -1 else t for t in text) for text in truth], truth)
    for name in ("recall", "precision", "f1", "content_recall", "content_f1", "position_recall"):
        assert found[name] == 1
    assert found["gain_f1"] == pytest.approx(1 - found["baseline_f1"])


def test_silence_scores_0() -> None:
    """Precision too: it is not undefined."""
    truth = texts()
    assert values([(-1,) * 11 for _ in truth], truth)["precision"] == 0


def test_hand_counted_case() -> None:
    """Precision and recall are not swapped (a peer's are), and a wrong answer on a padding row costs precision."""
    truth = [(-1, 20, 21, 21, 5, -1)]
    guessed = [(20, 21, 21, 30, -1, 31)]
    found = values(guessed, truth)
    assert found["recall"] == 3 / 4
    assert found["precision"] == 3 / 5
    assert found["f1"] == pytest.approx(2 * 3 / 9)
    assert found["content_recall"] == 1
    assert found["content_precision"] == 3 / 5
    assert found["position_recall"] == 1 / 4


def test_minus_one_and_special_ids_are_never_right() -> None:
    """Even where the truth holds them."""
    scope = Scope(NEVER)
    assert count_positions((-1, CLS, 20), (-1, CLS, 20), scope) == count_positions((-1, -1, 20), (-1, -1, 20), scope)
    assert count_bag((-1, CLS), (-1, CLS), scope).right == 0


@pytest.mark.parametrize("seed", range(10))
def test_bags_are_intersected_as_multisets(seed: int) -> None:
    """Checked token by token; order does not matter."""
    rng = np.random.default_rng(seed)
    guess, truth = rng.integers(-1, 6, 12).tolist(), rng.integers(-1, 6, 9).tolist()
    scope = Scope(frozenset({0}), only=frozenset({1, 2, 3, 4}))
    expected = sum(min(guess.count(t), truth.count(t)) for t in (1, 2, 3, 4))
    assert count_bag(guess, truth, scope).right == expected
    assert count_bag(rng.permutation(guess).tolist(), truth, scope) == count_bag(guess, truth, scope)


def test_a_random_guess_gains_nothing_and_the_fitted_guess_is_better_than_it() -> None:
    """An attacker without skill does not beat habit; that is what the baseline is for."""
    truth, rng = texts(200, seed=1), np.random.default_rng(2)
    guessed = [tuple(rng.integers(1, 100, 11).tolist()) for _ in truth]
    found = measure_inversion([run_of(guessed, truth)], texts(400, seed=3)).estimates
    assert found["gain_f1"].high < 0
    assert found["baseline_f1"].value > 0.25


def test_the_baseline_attacking_itself_gains_exactly_0() -> None:
    """An attack that answers the commonest token of each row gains 0 row by row."""
    truth, auxiliary = texts(50, seed=1), texts(400, seed=3)
    guesser = fit_guesser(auxiliary, Scope(NEVER))
    found = measure_inversion([run_of([guesser.by_position(11)] * 50, truth)], auxiliary).estimates
    assert found["gain_position_recall"].value == 0
    assert found["gain_position_recall"].high > 0


def test_the_bag_guess_holds_the_commonest_tokens_with_repeats() -> None:
    """Fitted by how many texts hold a token, a second occurrence being a token of its own."""
    auxiliary = [(7, 7, 8), (7, 7, 9), (7, 8, 9), (7, 7, 5)]
    guesser = fit_guesser(auxiliary, Scope(frozenset()))
    counts = Counter((t, k) for text in auxiliary for t, n in Counter(text).items() for k in range(n))
    assert guesser.by_bag(2, share=1.0) == (7, 7)
    assert len(guesser.common) == len(counts)


def test_strategies_are_counted_as_their_answers_would_be() -> None:
    """The short cut through ranks gives the tallies of the bags themselves."""
    scope = Scope(NEVER, only=frozenset(range(3, 60)))
    guesser, held = fit_guesser(texts(100, seed=3), scope), texts(30, seed=4)
    for strategy, tallies in bag_tallies(guesser, held).items():
        for text, found in zip(held, tallies, strict=True):
            n = len(text)
            said = guesser.by_position(n) if strategy.share is None else guesser.by_bag(n, strategy.share)
            assert found == count_bag(said, text, scope)


def test_other_records_do_not_move_a_records_answer_but_clusters_widen_the_interval() -> None:
    """Near-duplicate groups are one unit: with all records in four groups the interval is wider."""
    truth, rng = texts(80), np.random.default_rng(0)
    guessed = [tuple(t if rng.random() < 0.5 else 1 for t in text) for text in truth]
    ids = tuple(f"r{i}" for i in range(80))
    plain = InversionRun(ids, tuple(guessed), tuple(truth), CONTENT, NEVER)
    grouped = InversionRun(ids, tuple(guessed), tuple(truth), CONTENT, NEVER, groups=tuple(i % 4 for i in range(80)))
    one, other = (measure_inversion([r], texts(seed=9)).estimates["recall"] for r in (plain, grouped))
    assert one.value == other.value
    assert other.high - other.low > one.high - one.low


def test_lengths_must_agree_row_by_row() -> None:
    """Unless one pooled row is released: then bags are compared and positions are undefined."""
    with pytest.raises(ValueError, match="3 rows but 2 answers"):
        run_of([(20, 21)], [(20, 21, 22)])
    pooled = InversionRun(("a",), ((20, 21),), ((20, 21, 22),), CONTENT, NEVER, by_row=False)
    found = measure_inversion([pooled], [(20, 21, 22)]).estimates
    assert found["recall"].value == pytest.approx(2 / 3)
    assert isinstance(found["position_recall"], Undefined)


def test_texts_without_tokens_that_count_are_undefined() -> None:
    """Content recall of texts of function words, and anything without auxiliary texts."""
    found = measure_inversion([run_of([(1, 2)], [(1, 2)])], [(1, 2)]).estimates
    assert isinstance(found["content_recall"], Undefined)
    assert found["recall"].value == 1
    assert isinstance(measure_inversion([run_of([(1, 2)], [(1, 2)])], []).estimates["gain_recall"], Undefined)


def test_content_tokens_of_any_tokenizer() -> None:
    """Marks are stripped, stop words of any case left out, and so are digits, marks and single letters."""
    vocabulary = ["[PAD]", "The", "##ing", "Ġmovie", "▁movie", "ĠThe", "42", "!", "a", "##s", "été"]
    assert content_tokens(vocabulary, {0}) == {2, 3, 4, 10}


def test_recall_as_published_counts_special_tokens_as_recovered():
    """Two of six words found, and four special rows that every text has: 2/6 becomes 6/10."""
    found = measure_inversion(
        [
            InversionRun(
                ("a", "b"), ((-1, 7, 9, 9, -1), (-1, 7, 9, 9, -1)), ((-1, 7, 8, 8, -1), (-1, 7, 8, 8, -1)),
                content=frozenset({7, 8, 9}), never=frozenset({0, 1}), special_rows=(2, 2),
            )
        ],
        auxiliary=[(-1, 9, 9, 9, -1)],
    ).estimates  # fmt: skip
    assert found["position_recall"].value == pytest.approx(2 / 6)
    assert found["recall_with_special_tokens"].value == pytest.approx(6 / 10)


def ranked_run(truth, tables) -> InversionRun:
    guessed = tuple(tuple(int(row[0]) for row in table) for table in tables)
    ids = tuple(f"r{i}" for i in range(len(truth)))
    return InversionRun(ids, guessed, tuple(truth), CONTENT, NEVER, ranked=tuple(tables))


def test_top_k_recall_is_that_of_a_search_through_each_row() -> None:
    """And its guess names the k tokens that most auxiliary texts hold, for every row."""
    rng, truth, auxiliary = np.random.default_rng(0), texts(seed=1), texts(seed=2)
    tables = [np.array([rng.permutation(100)[:10] for _ in text]) for text in truth]
    found = measure_inversion([ranked_run(truth, tables)], auxiliary).estimates
    for name, counts in (("", lambda t: t != -1), ("content_", lambda t: t in CONTENT)):
        rows = zip((t for text in truth for t in text), np.concatenate(tables).tolist(), strict=True)
        asked = [(t, row) for t, row in rows if counts(t)]
        holding = Counter(t for text in auxiliary for t in set(text) if counts(t))
        common = sorted(holding, key=lambda t: (-holding[t], t))
        for k in (5, 10):
            value = np.mean([t in row[:k] for t, row in asked])
            guess = np.mean([t in common[:k] for t, _ in asked])
            assert found[f"{name}top_{k}_recall"].value == pytest.approx(value)
            assert found[f"baseline_{name}top_{k}_recall"].value == pytest.approx(guess)
            assert found[f"gain_{name}top_{k}_recall"].value == pytest.approx(value - guess)


def test_top_k_recall_stands_only_where_an_attack_ranks_so_many() -> None:
    truth = texts()
    tables = [np.full((len(text), 6), 7) for text in truth]
    assert "top_5_recall" in measure_inversion([ranked_run(truth, tables)], texts(seed=9)).estimates
    assert "top_10_recall" not in measure_inversion([ranked_run(truth, tables)], texts(seed=9)).estimates
    assert not any("top_" in name for name in measure_inversion([run_of(truth, truth)], texts(seed=9)).estimates)


def test_a_ranking_of_other_rows_is_refused() -> None:
    truth = texts(n=2)
    run = ranked_run(truth, [np.zeros((len(text), 5), int) for text in truth])
    short = tuple(table[:10] for table in run.ranked)
    with pytest.raises(ValueError, match="10 rankings"):
        InversionRun(run.ids, run.guessed, run.truth, CONTENT, NEVER, ranked=short)
