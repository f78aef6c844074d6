"""The guess from covariates is strong where they tell, worth nothing where they do not, and fitted group by group."""

from __future__ import annotations

import numpy as np
import pytest

from dpeval.measure.textfree import FOLDS, deal, fit_guess, learnable
from dpeval.types import Covariate


def numbers(name: str, values: np.ndarray) -> Covariate:
    return Covariate(name, tuple(None if np.isnan(v) else float(v) for v in values))


def names(name: str, values: np.ndarray) -> Covariate:
    return Covariate(name, tuple(None if v == "" else str(v) for v in values))


def balanced(guessed: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean([np.mean(guessed[truth == v] == v) for v in np.unique(truth)]))


def world(seed: int, n: int = 600) -> tuple[np.ndarray, list[Covariate]]:
    """A rare value (10 %) that the exclusive or of two covariates tells, with missing cells and a useless column."""
    rng = np.random.default_rng(seed)
    hot, tall = rng.random(n) < 0.5, rng.random(n) < 0.2
    truth = (hot & tall).astype(np.int64)
    heat = np.where(hot, 30.0, 10.0) + rng.normal(0, 3, n)
    heat[rng.random(n) < 0.05] = np.nan
    size = np.where(tall, "L", np.where(rng.random(n) < 0.3, "", "S"))
    return truth, [numbers("heat", heat), names("size", size), numbers("noise", rng.normal(size=n))]


@pytest.mark.parametrize("seed", range(3))
def test_interactions_missing_cells_and_imbalance_are_no_obstacle(seed: int) -> None:
    truth, known = world(seed)
    asked_truth, asked = world(seed + 100)
    guess = fit_guess(known, truth, np.arange(len(truth)))
    assert balanced(guess.balanced(asked), asked_truth) > 0.9
    assert np.mean(guess.plain(asked) == asked_truth) > 0.93


def test_an_interval_in_the_middle_needs_trees() -> None:
    """No linear model tells the middle from both ends."""
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 90, 900)
    truth = ((age > 30) & (age < 60)).astype(np.int64)
    guess = fit_guess([numbers("age", age[:600])], truth[:600], np.arange(600))
    assert guess.name.startswith("trees")
    assert balanced(guess.balanced([numbers("age", age[600:])]), truth[600:]) > 0.95


def test_nothing_is_guessed_from_noise() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 900)
    noise = [numbers("a", rng.normal(size=900)), names("b", rng.choice(["x", "y", ""], 900))]
    guess = fit_guess([Covariate(c.name, c.values[:300]) for c in noise], truth[:300], np.arange(300))
    found = guess.balanced([Covariate(c.name, c.values[300:]) for c in noise])
    assert abs(balanced(found, truth[300:]) - 1 / 3) < 0.06


def test_groups_are_kept_together() -> None:
    """A column that names the group tells everything inside one, and nothing of another group: it must not win."""
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(60), 5)
    truth = rng.integers(0, 2, 60)[groups]
    helpful = np.where(rng.random(300) < 0.85, truth, 1 - truth).astype(float)
    folds = deal(truth, groups)
    assert all(len(set(folds[groups == g])) == 1 for g in range(60))
    assert set(folds) == set(range(FOLDS))
    known = [names("group", groups.astype(str)), numbers("hint", helpful)]
    asked = [names("group", np.array(["new"] * 2)), numbers("hint", np.array([0.0, 1.0]))]
    assert fit_guess(known, truth, groups).balanced(asked).tolist() == [0, 1]


@pytest.mark.parametrize("values", [[0], [2, 2, 2], [0, 1, 2], [0, 1, 2, 2]])
def test_too_little_to_learn_from_gives_the_commonest_value(values: list[int]) -> None:
    truth = np.array(values)
    known = [numbers("a", np.arange(len(values), dtype=float))]
    commonest = int(np.bincount(truth).argmax())
    assert fit_guess(known, truth, np.arange(len(truth))).balanced(known).tolist() == [commonest] * len(values)


def test_labels_that_hardly_repeat_are_thinned() -> None:
    assert learnable(np.array([0, 1, 2, 2])).tolist() == [False, False, True, True]
    assert learnable(np.array([0, 1, 1, 2, 2, 2])).all()


@pytest.mark.parametrize("hole", [np.nan, None])
def test_columns_without_any_value_or_with_new_names_are_no_error(hole: float | None) -> None:
    truth = np.array([0, 1] * 10)
    empty = Covariate("empty", (None,) * 20)
    told = names("told", np.array(["p", "q"] * 10))
    guess = fit_guess([empty, told], truth, np.arange(20))
    asked = [Covariate("empty", (1.0 if hole is None else None, None)), Covariate("told", ("q", "never seen"))]
    assert guess.balanced(asked)[0] == 1


def test_the_same_records_give_the_same_guess() -> None:
    truth, known = world(5)
    first, second = (fit_guess(known, truth, np.arange(len(truth))).balanced(known) for _ in range(2))
    assert np.array_equal(first, second)
