"""Attribute inference is worth what it adds to guessing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, recall_score

from dpeval.measure.attribute import AttributeRun, measure_attribute
from dpeval.types import Estimate, Undefined


def run_of(answers, truth, values=3, **known) -> AttributeRun:
    return AttributeRun(
        tuple(f"r{i}" for i in range(len(truth))), np.asarray(answers), np.asarray(truth), values, **known
    )


def noisy(seed: int, n: int = 300, skill: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    return np.where(rng.random(n) < skill, truth, rng.integers(0, 3, n)), truth


@pytest.mark.parametrize("seed", range(10))
def test_metrics_are_scikit_learns(seed: int) -> None:
    """Accuracy, balanced accuracy (macro recall) and the worst class's recall, to twelve digits."""
    answers, truth = noisy(seed)
    found = measure_attribute([run_of(answers, truth)]).estimates
    assert found["accuracy"].value == pytest.approx(accuracy_score(truth, answers), abs=1e-12)
    assert found["balanced_accuracy"].value == pytest.approx(balanced_accuracy_score(truth, answers), abs=1e-12)
    worst = recall_score(truth, answers, average=None).min()
    assert found["worst_class_recall"].value == pytest.approx(worst, abs=1e-12)


@pytest.mark.parametrize("constant", [0, 1, 2])
def test_a_constant_answer_gains_nothing(constant: int) -> None:
    """V6: exactly 0 with the commonest value, and in balanced accuracy with any; never more."""
    truth = noisy(0)[1]
    found = measure_attribute([run_of(np.full(300, constant), truth)]).estimates
    assert found["gain_balanced_accuracy"].value == 0
    assert found["gain_accuracy"].value == 0 if constant == 0 else found["gain_accuracy"].value < 0


def test_a_skilled_attack_gains() -> None:
    """With an interval above 0, in both metrics."""
    found = measure_attribute([run_of(*noisy(s, skill=0.9)) for s in range(3)]).estimates
    assert found["gain_balanced_accuracy"].low > 0.3
    assert found["gain_accuracy"].low > 0.05


def test_the_best_baseline_is_the_one_to_beat() -> None:
    """A text-free classifier as good as the attack leaves no gain; the ceiling stands beside."""
    answers, truth = noisy(1, skill=0.8)
    found = measure_attribute([run_of(answers, truth, baselines={"covariates": answers}, ceiling=truth)])
    assert found.details["best_baseline"]["balanced_accuracy"] == "covariates"
    assert found.estimates["gain_balanced_accuracy"].value == 0
    assert found.estimates["ceiling_accuracy"].value == 1


def test_guessing_by_the_prior_is_worth_its_expectation() -> None:
    """The mean share of the true value, not one draw."""
    answers, truth = noisy(2, skill=0.0)
    prior = np.array([0.05, 0.05, 0.9])
    found = measure_attribute([run_of(answers, truth, prior=prior)])
    assert found.estimates["baseline_balanced_accuracy"].value == pytest.approx(1 / 3)
    assert found.estimates["baseline_accuracy"].value == pytest.approx(max(np.mean(truth == 0), np.mean(prior[truth])))


def test_one_class_is_not_measurable() -> None:
    """D19: every number is undefined with that reason; never infinite or NaN."""
    found = measure_attribute([run_of([0, 0, 1], [0, 0, 0])]).estimates
    assert all(v == Undefined("not measurable: one class") for v in found.values())


def test_one_value_in_the_attacks_training_part_only() -> None:
    """D19: the prior is 0 for the other values; all numbers stay finite."""
    found = measure_attribute([run_of([0, 0, 0, 0], [0, 1, 0, 2], prior=np.array([1.0, 0, 0]))]).estimates
    assert all(isinstance(v, Estimate) and np.isfinite([v.value, v.low, v.high]).all() for v in found.values())
    assert found["gain_accuracy"].value == 0


def test_numbers_are_refused_with_a_message() -> None:
    """D19: ages are no classes."""
    with pytest.raises(TypeError, match="bin a numeric attribute first"):
        run_of([18.5, 90.0], [0, 1])
    with pytest.raises(ValueError, match=r"must lie in 0\.\.2"):
        run_of([18, 90], [0, 1])


def test_the_worst_classs_interval_is_widened() -> None:
    """It was chosen among the classes, so it is wider than that class's own."""
    answers, truth = noisy(3)
    found = measure_attribute([run_of(answers, truth)])
    assert found.estimates["worst_class_recall"].level == pytest.approx(1 - 0.05 / 3)


def test_hand_computed_with_values_absent_and_a_best_baseline() -> None:
    """Values 0, 1 and 3 occur; 2 does not and 3 is never answered. Recalls 3/4, 1/2, 0: mean 5/12; accuracy 4/7."""
    truth = [0, 0, 0, 0, 1, 1, 3]
    answers = [0, 0, 0, 2, 1, 0, 1]
    guess = [0, 0, 1, 1, 1, 1, 3]  # recalls 1/2, 1, 1: mean 5/6; accuracy 5/7
    prior = np.array([0.5, 0.25, 0.25, 0.0])  # mean of the shares of 0, 1 and 3: 1/4; by record 2.5/7
    found = measure_attribute([run_of(answers, truth, values=4, prior=prior, baselines={"age": np.array(guess)})])
    values = {name: e.value for name, e in found.estimates.items() if isinstance(e, Estimate)}
    assert values["balanced_accuracy"] == pytest.approx(5 / 12)
    assert values["accuracy"] == pytest.approx(4 / 7)
    assert values["worst_class_recall"] == 0
    assert found.details["worst_class"] == 3
    assert values["baseline_balanced_accuracy"] == pytest.approx(5 / 6)
    assert values["gain_balanced_accuracy"] == pytest.approx(5 / 12 - 5 / 6)
    assert values["gain_accuracy"] == pytest.approx(4 / 7 - 5 / 7)
    assert found.details["best_baseline"] == {"balanced_accuracy": "age", "accuracy": "age"}


def test_accuracy_is_compared_with_the_guess_that_may_prefer_common_values() -> None:
    """The guess with each value alike gets 0.5; the one by frequency 0.9, more than the commonest value's 0.8."""
    truth = np.array([0] * 80 + [1] * 20)
    alike, common = np.where(np.arange(100) % 2, truth, 1 - truth), truth.copy()
    common[90:] = 0
    baselines, frequent = {"age": alike}, {"age": common}
    found = measure_attribute([run_of(truth, truth, 2, baselines=baselines, by_frequency=frequent)]).estimates
    assert found["baseline_accuracy"].value == pytest.approx(0.9)
    assert found["baseline_balanced_accuracy"].value == pytest.approx(0.5)


def test_more_than_the_ceiling_is_flagged() -> None:
    """And an attack below it, or above it by chance alone, is not."""
    answers, truth = noisy(4, skill=0.9)
    weak = noisy(4, skill=0.2)[0]
    assert "above the ceiling" in measure_attribute([run_of(answers, truth, ceiling=weak)]).warnings[0]
    for ceiling in (answers, truth):
        assert measure_attribute([run_of(answers, truth, ceiling=ceiling)]).warnings == ()
    assert measure_attribute([run_of(answers, truth)]).warnings == ()


@pytest.mark.parametrize(("shares", "coins"), [((0.6, 0.4), 1), ((0.9, 0.1), 1), ((0.9, 0.1), 2), ((0.25,) * 4, 2)])
def test_the_gain_of_an_attack_without_skill_covers_nothing(shares: tuple[float, ...], coins: int) -> None:
    """300 experiments; the rare value has twelve targets, and the best of several coins is what has to be beaten."""
    hits = 0
    for seed in range(300):
        rng = np.random.default_rng([7, seed])
        truth = rng.choice(len(shares), 120, p=shares)
        guesses = {f"coin {i}": rng.integers(0, len(shares), 120) for i in range(coins)}
        run = run_of(rng.integers(0, len(shares), 120), truth, len(shares), baselines=guesses)
        hits += not measure_attribute([run]).estimates["gain_balanced_accuracy"].excludes(0.0)
    assert hits / 300 >= 0.93
