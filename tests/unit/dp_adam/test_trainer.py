"""The training loop against the algorithm written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpeval_defenses.dp_adam.clipping import ClippedGradients
from dpeval_defenses.dp_adam.noise import SecureNoise, SeededNoise
from dpeval_defenses.dp_adam.sampler import PoissonSampler
from dpeval_defenses.dp_adam.settings import TrainSettings
from dpeval_defenses.dp_adam.trainer import PrivateTrainer, train_private


def weights(trainer: PrivateTrainer) -> torch.Tensor:
    return torch.cat([p.detach().ravel().clone() for p in trainer.trained.values()])


def clipped_sum(problem, positions, max_norm: float) -> torch.Tensor:
    """Σ min(1, C/‖g‖) g over (weight, bias), written out for squared error."""
    w, b = problem.model.weight.detach()[0], problem.model.bias.detach()
    total = torch.zeros(problem.d + 1, dtype=torch.float64)
    for i in positions:
        residual = 2 * (problem.features[i] @ w + b - problem.targets[i])
        g = torch.cat([residual * problem.features[i], residual])
        total += g * min(1.0, max_norm / float(g.norm()))
    return total


def test_without_noise_a_step_is_clipped_sgd_by_hand(problem) -> None:
    """σ = 0: w ← w − lr · Σ clip(g) / (q N), divided by the expected batch and not by the one drawn."""
    p = problem()
    trainer = p.trainer(rate=0.3, noise_multiplier=0.0, optimizer="sgd", schedule="constant", micro_batch=4)
    for step in range(3):
        drawn = trainer.sampler.draw(step)
        assert len(drawn) != 12, "the draw would not tell the expected from the actual batch"
        wanted = weights(trainer) - 0.1 * clipped_sum(p, drawn, 0.5) / (0.3 * 40)
        trainer.step()
        torch.testing.assert_close(weights(trainer), wanted, rtol=1e-12, atol=1e-14)


def test_noise_is_added_once_to_the_sum_with_scale_sigma_times_the_clipping_norm(problem) -> None:
    """One step at several micro-batch sizes: the same noise, σC z over the expected batch, whatever the parts."""
    for micro in (1, 7, 64):
        p = problem()
        trainer = p.trainer(noise_multiplier=3.0, optimizer="sgd", schedule="constant", micro_batch=micro)
        z = torch.cat([trainer.noise.standard(0, 0, (3,)), trainer.noise.standard(0, 1, (1,))]).double()
        wanted = weights(trainer) - 0.1 * (clipped_sum(p, trainer.sampler.draw(0), 0.5) + 3.0 * 0.5 * z) / 12
        trainer.step()
        torch.testing.assert_close(weights(trainer), wanted, rtol=1e-9, atol=1e-12)


def test_adamw_uses_the_privatised_gradient_and_decoupled_decay(problem) -> None:
    """Two steps equal AdamW written out on the noised means."""
    p = problem()
    trainer = p.trainer(weight_decay=0.1, schedule="constant")
    m, v, w = torch.zeros(4).double(), torch.zeros(4).double(), weights(trainer)
    for step in range(2):
        z = torch.cat([trainer.noise.standard(step, i, (n,)) for i, n in enumerate((3, 1))]).double()
        g = (clipped_sum(p, trainer.sampler.draw(step), 0.5) + 0.5 * z) / 12
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w * (1 - 0.1 * 0.1)
        w = w - 0.1 * (m / (1 - 0.9 ** (step + 1))) / ((v / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8)
        trainer.step()
        torch.testing.assert_close(weights(trainer), w, rtol=1e-9, atol=1e-12)


def test_sgd_weight_decay_is_decoupled_from_the_gradient(problem) -> None:
    p = problem()
    trainer = p.trainer(weight_decay=0.5, optimizer="sgd", schedule="constant", noise_multiplier=0.0)
    step = clipped_sum(p, trainer.sampler.draw(0), 0.5) / 12
    wanted = weights(trainer) * (1 - 0.1 * 0.5) - 0.1 * step
    trainer.step()
    torch.testing.assert_close(weights(trainer), wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_head_may_learn_at_a_rate_of_its_own(problem, optimizer: str) -> None:
    """Parameters named head.… move by ten times as much in the first step; the others as before."""
    moves = []
    for rate in (None, 1.0):
        p = problem()
        p.model = torch.nn.ModuleDict({"body": torch.nn.Linear(3, 3).double(), "head": torch.nn.Linear(3, 1).double()})
        start = torch.Generator().manual_seed(2)
        for q in p.model.parameters():
            q.data.normal_(0.0, 0.3, generator=start)
        p.loss = lambda at, m=p.model, f=p.features: m["head"](m["body"](f[torch.from_numpy(at)]))[:, 0].square()
        trainer = p.trainer(optimizer=optimizer, head_learning_rate=rate)
        before = weights(trainer)
        trainer.step()
        moves.append(weights(trainer) - before)
    torch.testing.assert_close(moves[1][:12], moves[0][:12])
    torch.testing.assert_close(moves[1][12:], 10 * moves[0][12:])


def test_empty_draws_are_counted_and_noised(problem) -> None:
    """20 rows at rate 0.05, noise 1: about 36 % of the draws are empty; 200 steps are counted and each moves."""
    p = problem(n=20)
    trainer = p.trainer(rate=0.05, steps=200, schedule="constant")
    empty = 0
    for _ in range(200):
        before = weights(trainer)
        entry = trainer.step()
        empty += entry.drawn == 0
        assert not torch.equal(before, weights(trainer))
    assert trainer.steps_taken == 200
    assert 45 <= empty <= 100


def test_an_empty_draw_without_noise_leaves_the_weights_unchanged(problem) -> None:
    p = problem(n=20)
    trainer = p.trainer(rate=0.05, steps=200, noise_multiplier=0.0, optimizer="sgd")
    seen = 0
    for _ in range(200):
        before = weights(trainer)
        if trainer.step().drawn == 0:
            seen += 1
            assert torch.equal(before, weights(trainer))
    assert seen > 40
    assert trainer.steps_taken == 200


def test_a_parameter_out_of_the_loss_is_named(problem) -> None:
    """Noise alone would move it, and the loss would look fine: refused at the first step with its name."""
    p = problem()
    p.model.register_parameter("forgotten", torch.nn.Parameter(torch.zeros(2, dtype=torch.float64)))
    with pytest.raises(ValueError, match=r"1 of 3 trained parameters: forgotten"):
        p.trainer().step()


def test_a_parameter_whose_gradient_stays_zero_is_named(problem) -> None:
    """In the graph but multiplied by nothing: refused after three non-empty steps, before the run is wasted."""
    p = problem()
    p.model.register_parameter("idle", torch.nn.Parameter(torch.ones((), dtype=torch.float64)))
    trainer = p.trainer()
    trainer._loss = lambda at: p.loss(at) + 0.0 * p.model.idle
    trainer.step()
    trainer.step()
    with pytest.raises(ValueError, match="exactly zero in 3 steps: idle"):
        trainer.step()


def test_each_trained_tensor_moves_and_no_frozen_one(problem) -> None:
    p = problem()
    p.model.bias.requires_grad = False
    trainer = p.trainer()
    bias, weight = p.model.bias.clone(), p.model.weight.clone()
    trainer.step()
    assert torch.equal(bias, p.model.bias)
    assert (weight != p.model.weight).all()


def test_nothing_to_train_and_coarse_parameters_are_refused(problem) -> None:
    p = problem()
    p.model.to(torch.bfloat16)
    with pytest.raises(ValueError, match=r"weight \(torch.bfloat16\)"):
        p.trainer()
    p.model.requires_grad_(False)
    with pytest.raises(ValueError, match="nothing to train"):
        p.trainer()


@pytest.mark.parametrize("engine", [None, ClippedGradients], ids=["loop", "clipping"])
def test_evaluation_between_steps_leaves_no_trace(problem, engine) -> None:
    """300 evaluations with a model left in training mode do not change the next step, nor do gradients left behind."""
    plain, visited = problem().trainer(engine=engine), problem().trainer(engine=engine)
    for trainer in (plain, visited):
        trainer.step()
    visited.model.train()
    for _ in range(300):
        visited._loss(np.arange(8))
        torch.rand(1)
    for p in visited.trained.values():
        p.grad = torch.ones_like(p)
    for trainer in (plain, visited):
        trainer.step()
    assert torch.equal(weights(plain), weights(visited))


def test_dropout_is_on_differs_by_step_and_leaves_the_global_generator_alone(problem, loop_engine) -> None:
    p = problem()
    p.model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(3, 1).double())
    seen = []

    def loss(at):
        out = p.model(torch.ones(len(at), 3, dtype=torch.float64))
        seen.append(p.model[0](torch.ones(200)))
        return out[:, 0].square()

    state = torch.get_rng_state()
    train_private(
        p.model, loss, PoissonSampler(40, 1.0, 0), SeededNoise(0),
        TrainSettings(steps=2, max_norm=1, noise_multiplier=1, learning_rate=0.1, micro_batch=40), engine=loop_engine,
    )  # fmt: skip
    assert torch.equal(state, torch.get_rng_state())
    assert 0.3 < float((seen[0] == 0).float().mean()) < 0.7
    assert not torch.equal(seen[0], seen[1])
    assert not p.model.training


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_the_clipping_engine_trains_as_the_loop_does(problem, optimizer: str) -> None:
    loop, engine = (
        problem().trainer(optimizer=optimizer),
        problem().trainer(optimizer=optimizer, engine=ClippedGradients),
    )
    for _ in range(5):
        left, right = loop.step(), engine.step()
        assert left.clipped == right.clipped
        assert left.mean_norm == pytest.approx(right.mean_norm, rel=1e-10)
    torch.testing.assert_close(weights(loop), weights(engine), rtol=1e-10, atol=1e-12)


def test_a_record_with_an_infinite_gradient_is_left_out_and_counted(problem) -> None:
    """It contributes nothing, the others everything, and the log says how many were dropped."""
    p, q = problem(), problem()
    p.targets[3] = float("inf")
    broken = p.trainer(rate=1.0, noise_multiplier=0.0, optimizer="sgd", engine=ClippedGradients)
    wanted = weights(broken) - 0.1 * clipped_sum(q, [i for i in range(40) if i != 3], 0.5) / 40
    assert broken.step().dropped == 1
    torch.testing.assert_close(weights(broken), wanted, rtol=1e-10, atol=1e-12)


def test_the_log_holds_the_norms_the_clipped_share_and_the_signal_to_noise(problem) -> None:
    p = problem()
    trainer = p.trainer(noise_multiplier=2.0, micro_batch=5)
    drawn = trainer.sampler.draw(0)
    norms = [float(clipped_sum(p, [i], 1e9).norm()) for i in drawn]
    signal = float(clipped_sum(p, drawn, 0.5).norm())
    z = torch.cat([trainer.noise.standard(0, 0, (3,)), trainer.noise.standard(0, 1, (1,))]).double()
    entry = trainer.step()
    assert entry.drawn == len(drawn)
    assert entry.sigma_eff == pytest.approx(2.0 / 0.3)
    assert entry.mean_norm == pytest.approx(np.mean(norms))
    assert entry.clipped == pytest.approx(np.mean([n > 0.5 for n in norms]))
    assert entry.signal_to_noise == pytest.approx(signal / float((2.0 * 0.5 * z).norm()))


def test_noise_is_scaled_to_the_sensitivity_that_the_engine_states(problem, loop_engine) -> None:
    """An engine that lets one record change the sum by 2C gets twice the noise."""

    class Wide(loop_engine):
        sensitivity = 1.0

    moves = []
    for engine in (loop_engine, Wide):
        trainer = problem().trainer(rate=1e-9, engine=engine, optimizer="sgd", schedule="constant", max_norm=0.5)
        before = trainer.model.weight.detach().clone()
        trainer.step()
        moves.append(trainer.model.weight.detach() - before)
        trainer.close()
    torch.testing.assert_close(moves[1], 2 * moves[0])


def test_a_linear_schedule_falls_from_the_full_rate_to_zero_after_the_last_step() -> None:
    settings = TrainSettings(steps=4, max_norm=1, noise_multiplier=1, learning_rate=0.8)
    assert [settings.rate_at(step) for step in range(5)] == pytest.approx([0.8, 0.6, 0.4, 0.2, 0.0])


def test_schedules_rise_through_the_warm_up_and_fall_to_zero_after_the_last_step() -> None:
    common = {"steps": 6, "max_norm": 1.0, "noise_multiplier": 1.0, "learning_rate": 0.8, "warmup": 2}
    rates = {
        name: [TrainSettings(schedule=name, **common).rate_at(step) for step in range(7)]
        for name in ("linear", "cosine", "constant")
    }
    assert rates["linear"] == pytest.approx([0.4, 0.8, 0.8, 0.6, 0.4, 0.2, 0.0])
    assert rates["cosine"] == pytest.approx([0.4, 0.8, 0.8, 0.8 * 0.8535534, 0.4, 0.8 * 0.1464466, 0.0])
    assert rates["constant"] == pytest.approx([0.4, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8])
    allwarm = TrainSettings(**(common | {"warmup": 6}))
    assert [allwarm.rate_at(step) for step in (0, 5)] == pytest.approx([0.8 / 6, 0.8])


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", 0), ("max_norm", 0.0), ("max_norm", float("inf")), ("noise_multiplier", -1.0), ("learning_rate", 0.0),
     ("micro_batch", 0), ("optimizer", "adam"), ("schedule", "exponential"), ("warmup", -1), ("warmup", 2),
     ("weight_decay", -0.1)],
)  # fmt: skip
def test_settings_that_make_no_sense_are_named(name: str, value: object) -> None:
    good = {"steps": 1, "max_norm": 1.0, "noise_multiplier": 1.0, "learning_rate": 0.1}
    with pytest.raises(ValueError, match=f"expected {name} "):
        TrainSettings(**(good | {name: value}))


def test_secure_runs_differ_from_each_other(problem) -> None:
    first, second = problem().trainer(noise=SecureNoise()), problem().trainer(noise=SecureNoise())
    first.step()
    second.step()
    assert not torch.equal(weights(first), weights(second))
