"""The defense as a user meets it: settings, claims, repeatability."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch

from dpeval.context import RunContext
from dpeval.plugin import Task
from dpeval.types import Claim, NoClaim, Records
from dpeval_defenses.dp_adam import DPAdam


@pytest.fixture(scope="module")
def task(tiny) -> Task:
    return Task(train=tiny.records, num_labels=2, checkpoint=tiny.checkpoint)


def test_epsilon_is_eight_unless_noise_is_given() -> None:
    assert DPAdam().epsilon == 8.0
    assert DPAdam(noise_multiplier=1.0).epsilon is None
    with pytest.raises(ValueError, match="exclude each other"):
        DPAdam(epsilon=1.0, noise_multiplier=1.0)


def test_a_new_head_gets_a_larger_rate_unless_one_is_given() -> None:
    """Unset, the rates suit what trains; one rate given is the rate of all, as in the paper."""
    assert DPAdam(adapt="lora").rates == (1e-3, 0.1)
    assert DPAdam(adapt="head").rates == (0.1, 0.1)
    assert DPAdam(adapt="full", learning_rate=5e-4).rates == (5e-4, 5e-4)
    assert DPAdam(adapt="full", head_learning_rate=0.01).rates == (5e-4, 0.01)
    assert DPAdam(adapt="full", objective="infilling").rates == (5e-4, 5e-4)
    assert DPAdam(optimizer="sgd", clip=0.5).rates == (0.2, 0.2)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_the_claim_never_exceeds_the_target_and_comes_close(task, accountant: str, epsilon: float) -> None:
    defense = DPAdam(adapt="head", epsilon=epsilon, epochs=4, batch_size=20, accountant=accountant)
    claim = defense.train(task, RunContext(0)).claim
    assert isinstance(claim, Claim)
    assert 0.98 * epsilon < claim.epsilon <= epsilon
    details = dict(claim.details)
    assert details["steps"] == 16
    assert details["sampling rate"] == 20 / 80
    assert claim.delta == 1 / 160


def test_noise_for_a_target_is_on_the_safe_side() -> None:
    """Target 8, δ = 1e-5, rate 0.01, 1000 steps: RDP noise in [0.6159, 0.6174], PLD in [0.5863, 0.5878]."""
    for accountant, low, high in (("rdp", 0.6159, 0.6174), ("pld", 0.5863, 0.5878)):
        accounting = DPAdam(epsilon=8.0, delta=1e-5, steps=1000, batch_size=100, accountant=accountant).accounting
        plan = accounting.plan(10_000)
        claim = accounting.claim(plan, steps_taken=1000, trained=1, repeatable=True)
        assert low * 0.999 < plan.noise_multiplier < high
        assert 7.9 < claim.epsilon <= 8.0


@pytest.mark.parametrize(("steps", "epsilon"), [(9, 6.394), (10, 6.699), (12, 7.275)])
def test_epsilon_belongs_to_the_steps_really_taken(steps: int, epsilon: float) -> None:
    """1000 rows, batch 300, noise 1, δ = 1e-4: RDP at rate 0.3 for the steps counted, whatever was planned."""
    accounting = DPAdam(noise_multiplier=1.0, delta=1e-4, batch_size=300, accountant="rdp").accounting
    plan = accounting.plan(1000)
    assert plan.steps == 12
    claim = accounting.claim(plan, steps_taken=steps, trained=1, repeatable=True)
    assert claim.epsilon == pytest.approx(epsilon, rel=0.005)
    assert dict(claim.details)["steps"] == steps


def test_a_batch_beyond_the_data_is_rate_one_and_at_least_one_step(tiny, case_file) -> None:
    """Seven rows, batch 32, one epoch, noise 1, δ = 1e-5: one step at rate 1, ε = 4.377."""
    with case_file("a20_tiny7.csv").open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    records = Records(tuple(str(i) for i in range(7)), tuple(texts), tuple(i % 2 for i in range(7)))
    defense = DPAdam(noise_multiplier=1.0, delta=1e-5, epochs=1, batch_size=32, adapt="head")
    assert defense.unfit(tiny.checkpoint, 7) is None
    release = defense.train(Task(records, 2, tiny.checkpoint), RunContext(0))
    details = dict(release.claim.details)
    assert (details["sampling rate"], details["steps"]) == (1.0, 1)
    assert release.claim.epsilon == pytest.approx(4.377, abs=2e-3)
    assert release.log[0].drawn == 7


def test_delta_is_below_one_over_n_and_a_larger_one_is_warned_about() -> None:
    assert DPAdam().delta_for(1000) == 1 / 2000
    for delta in (1e-2, 1e-3):
        accounting = DPAdam(noise_multiplier=1.0, delta=delta, batch_size=32, steps=94).accounting
        claim = accounting.claim(accounting.plan(1000), steps_taken=94, trained=1, repeatable=True)
        assert any("not below 1/1000" in text for text in claim.excludes)
    accounting = DPAdam(noise_multiplier=1.0, delta=1e-5, batch_size=32, steps=94).accounting
    claim = accounting.claim(accounting.plan(1000), steps_taken=94, trained=1, repeatable=True)
    assert not any("not below" in text for text in claim.excludes)
    assert dict(claim.details)["records"] == 1000


def test_a_tiny_delta_is_answered_by_the_accountant_that_reaches_it() -> None:
    """Below δ = 1e-9 the numerical accountant cannot be trusted: the claim is RDP's, and says why."""
    values = []
    for delta in (1.13e-18, 1.1e-18, 1e-10):
        accounting = DPAdam(noise_multiplier=4.0, delta=delta, batch_size=33, steps=10_000).accounting
        claim = accounting.claim(accounting.plan(100_000), steps_taken=10_000, trained=1, repeatable=True)
        assert claim.accountant == "rdp"
        assert "does not reach" in str(dict(claim.details)["accounting"])
        values.append(claim.epsilon)
    assert values[1] >= values[0] >= values[2] >= 0
    assert values[2] == pytest.approx(0.074, rel=0.05)


def test_fixed_batches_are_refused_poissons_numbers() -> None:
    with pytest.raises(ValueError, match="rdp' with adjacency = 'replace-one'"):
        DPAdam(sampling="fixed")


def test_fixed_batches_get_the_bound_that_is_known_for_them(task) -> None:
    """Without replacement, replace-one: dearer than Poisson sampling at the same noise."""
    common = {"noise_multiplier": 2.0, "epochs": 2, "batch_size": 20, "adapt": "head", "adjacency": "replace-one"}
    fixed = DPAdam(sampling="fixed", accountant="rdp", **common).train(task, RunContext(0))
    poisson = DPAdam(**common).train(task, RunContext(0))
    assert {entry.drawn for entry in fixed.log} == {20}
    assert fixed.claim.sampling == "fixed-size without replacement"
    assert fixed.claim.epsilon > poisson.claim.epsilon


def test_an_approximation_is_labelled_and_stands_beside_a_bound() -> None:
    accounting = DPAdam(epsilon=3.0, batch_size=20, accountant="gdp-clt").accounting
    plan = accounting.plan(200)
    claim = accounting.claim(plan, steps_taken=plan.steps, trained=1, repeatable=True)
    assert "approximation" in claim.accountant
    assert dict(claim.details)["epsilon by pld, a bound"] > claim.epsilon
    with pytest.raises(ValueError, match="gdp-clt formula"):
        DPAdam(accountant="gdp-clt", adjacency="replace-one")


def test_two_passes_end_where_one_pass_ends_and_layers_clipped_apart_do_not(task) -> None:
    """Two-pass is the same mathematics; per-layer is another clipping under the same total bound."""
    common = {"adapt": "last-1", "epochs": 1, "batch_size": 40, "optimizer": "sgd", "learning_rate": 1.0}
    ends = {}
    for mode in ("book-keeping", "two-pass", "per-layer"):
        release = DPAdam(clipping=mode, **common).train(task, RunContext(3))
        ends[mode] = torch.cat([p.ravel() for p in release.classifier.parameters()])
        assert release.claim.epsilon <= 8.0
        together = dict(release.claim.details).get("norm of all bounds together")
        assert together == (pytest.approx(0.1) if mode == "per-layer" else None)
    torch.testing.assert_close(ends["book-keeping"], ends["two-pass"], rtol=1e-4, atol=1e-6)
    assert not torch.allclose(ends["book-keeping"], ends["per-layer"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", ["book-keeping", "two-pass", "per-layer"])
def test_one_record_moves_the_sum_by_at_most_the_clipping_norm(task, mode: str) -> None:
    """Without noise, one record alone, plain SGD at rate 1: the whole model moves by at most C."""
    one = Task(task.train.take([0]), 2, task.checkpoint)
    settings = {"noise_multiplier": 0.0, "clip": 0.05, "steps": 1, "optimizer": "sgd", "learning_rate": 1.0}
    release = DPAdam(clipping=mode, adapt="last-2", **settings).train(one, RunContext(3))
    again = DPAdam(clipping=mode, adapt="last-2", **(settings | {"learning_rate": 1e-30})).train(one, RunContext(3))
    pairs = zip(release.classifier.parameters(), again.classifier.parameters(), strict=True)
    moved = sum(float((a - b).double().square().sum()) for a, b in pairs) ** 0.5
    assert 0.02 < moved <= 0.05 * (1 + 1e-5)


def test_no_noise_is_no_claim(task) -> None:
    release = DPAdam(noise_multiplier=0.0, adapt="head", epochs=1).train(task, RunContext(0))
    assert isinstance(release.claim, NoClaim)


def test_the_same_seed_gives_the_same_release_and_another_seed_another(task) -> None:
    defense = DPAdam(adapt="last-1", epochs=1, batch_size=40)
    first, again, other = (defense.train(task, RunContext(seed)).predict(task.train).log_probs for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_secure_noise_cannot_be_repeated_and_the_claim_says_so(task) -> None:
    defense = DPAdam(adapt="head", epochs=1, secure_noise=True)
    first, second = (defense.train(task, RunContext(5)) for _ in range(2))
    assert not np.array_equal(first.predict(task.train).log_probs, second.predict(task.train).log_probs)
    assert dict(first.claim.details)["noise source"] == "operating system, not repeatable"
    seeded = DPAdam(adapt="head", epochs=1).train(task, RunContext(5)).claim
    assert any("seed" in text for text in seeded.excludes)
    assert not any("seed" in text for text in first.claim.excludes)


def test_training_leaves_the_global_generators_as_they_were(task) -> None:
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    DPAdam(adapt="full", epochs=1, batch_size=80).train(task, RunContext(0))
    assert torch.equal(state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002


def test_the_release_is_in_evaluation_mode_and_nothing_in_it_trains_on(task) -> None:
    release = DPAdam(adapt="full", epochs=1, batch_size=80).train(task, RunContext(0))
    assert not any(module.training for module in release.classifier.modules())
    assert not any(p.requires_grad for p in release.classifier.parameters())


def test_the_saved_log_says_that_it_is_not_private(task, tmp_path) -> None:
    release = DPAdam(adapt="head", epochs=2, batch_size=40).train(task, RunContext(0))
    release.save(tmp_path)
    text = (tmp_path / "training_log.json").read_text(encoding="utf-8")
    assert "NOT PRIVATE" in text
    assert len(release.log) == 4
    assert release.diagnostics["steps"] == 4.0
    assert any("training log" in text for text in release.claim.excludes)


def test_an_unattainable_target_is_said_before_training(tiny) -> None:
    """RDP cannot go below a floor set by its orders and δ, whatever the noise."""
    reason = DPAdam(epsilon=1e-4, delta=1e-18, accountant="rdp").unfit(tiny.checkpoint, 1000)
    assert reason is not None
    assert "cannot be reached" in reason


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0.0}, {"delta": 1.0}, {"delta": 0.0}, {"noise_multiplier": -1.0}, {"clip": 0.0}, {"epochs": 0},
     {"steps": 0}, {"batch_size": 0}, {"micro_batch": 0}, {"learning_rate": 0.0}, {"head_learning_rate": 0.0},
     {"weight_decay": -1.0}, {"lora_rank": 0}, {"prefix_length": 0}],
)  # fmt: skip
def test_numbers_that_make_no_sense_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"expected {next(iter(wrong))} "):
        DPAdam(**wrong)


def test_labels_that_are_not_classes_are_refused(task) -> None:
    records = Records(task.train.ids, task.train.texts, (7,) * len(task.train))
    with pytest.raises(ValueError, match=r"labels 0\.\.1, got \[7\]"):
        DPAdam(adapt="head").train(Task(records, 2, task.checkpoint), RunContext(0))


def test_the_trained_classifier_learns_where_the_noise_allows(task) -> None:
    """ε = 1000 on generated reviews: far better than the majority; ε = 0.05: not."""
    majority = max(np.bincount(task.train.labels)) / len(task.train)
    accuracy = {}
    for epsilon in (1000.0, 0.05):
        settings = {"epochs": 60, "batch_size": 80, "micro_batch": 80, "learning_rate": 0.03, "clip": 1.0}
        release = DPAdam(adapt="full", epsilon=epsilon, **settings).train(task, RunContext(0))
        guesses = release.predict(task.train).log_probs.argmax(1)
        accuracy[epsilon] = float((guesses == np.array(task.train.labels)).mean())
    assert accuracy[1000.0] > majority + 0.2
    assert accuracy[0.05] < majority + 0.1
