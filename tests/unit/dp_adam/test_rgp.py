"""Reparametrised gradient perturbation: thin gradients, clipped and noised, carried back to whole weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers.pytorch_utils import Conv1D

from dpeval.context import RunContext
from dpeval.errors import ModelError
from dpeval.plugin import Task
from dpeval_defenses.dp_adam import DPAdam, PrivateTrainer, resume
from dpeval_defenses.dp_adam.adapt import Adapted, adapt_classifier, parse_adapt
from dpeval_defenses.dp_adam.clipping import ClippedGradients
from dpeval_defenses.dp_adam.noise import SeededNoise
from dpeval_defenses.dp_adam.problem import text_loss
from dpeval_defenses.dp_adam.release import DPAdamRelease
from dpeval_defenses.dp_adam.rgp import LowRankLinear, carried_back, carriers
from dpeval_defenses.dp_adam.sampler import PoissonSampler
from dpeval_defenses.dp_adam.settings import TrainSettings

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def task(tiny) -> Task:
    return Task(train=tiny.records, num_labels=2, checkpoint=tiny.checkpoint)


def trainer_of(
    task: Task, engine: object = ClippedGradients, rank: int = 2, **more: object
) -> tuple[PrivateTrainer, Adapted]:
    classifier = task.checkpoint.build(2, seed=0)
    generator = torch.Generator().manual_seed(7)
    adapted = adapt_classifier(
        classifier, parse_adapt("rgp"), rank=9, prefix_length=1, generator=generator, rgp_rank=rank
    )
    chosen = {"steps": 4, "max_norm": 0.3, "noise_multiplier": 0.5, "learning_rate": 0.5, "optimizer": "sgd"} | more
    trainer = PrivateTrainer(
        classifier, text_loss(classifier, task, CPU), PoissonSampler(len(task.train), 0.2, 3), SeededNoise(4),
        TrainSettings(**chosen), engine=engine, carrier=adapted.carrier,
    )  # fmt: skip
    return trainer, adapted


@pytest.mark.parametrize("rank", [1, 3])
def test_carriers_are_orthonormal_and_follow_the_largest_directions(rank: int) -> None:
    """One power iteration finds the directions of an update of that rank exactly; no update gives random ones."""
    generator = torch.Generator().manual_seed(0)
    thin = torch.randn(6, rank, generator=generator) @ torch.randn(rank, 5, generator=generator)
    for update in (thin, torch.zeros(6, 5)):
        left, right = carriers(update, rank, generator)
        torch.testing.assert_close(left.T @ left, torch.eye(rank))
        torch.testing.assert_close(right @ right.T, torch.eye(rank))
    left, right = carriers(thin, rank, generator)
    torch.testing.assert_close(left @ (left.T @ thin @ right.T) @ right, thin, rtol=1e-4, atol=1e-5)


def test_the_gradient_carried_back_is_the_whole_one_projected() -> None:
    """Oracle: G is kept where a left or a right carrier sees it: G − (1 − LLᵀ) G (1 − RᵀR)."""
    generator = torch.Generator().manual_seed(1)
    g = torch.randn(6, 5, generator=generator)
    left, right = carriers(torch.zeros(6, 5), 2, generator)
    unseen = (torch.eye(6) - left @ left.T) @ g @ (torch.eye(5) - right.T @ right)
    torch.testing.assert_close(carried_back(left, right, g @ right.T, left.T @ g), g - unseen)


@pytest.mark.parametrize("kind", ["linear", "conv1d"])
def test_a_layer_computes_what_it_did_and_its_thin_gradients_are_those_of_the_whole(kind: str) -> None:
    plain = torch.nn.Linear(5, 4) if kind == "linear" else Conv1D(4, 5)
    x, weights = torch.randn(3, 5), torch.randn(3, 4)
    (plain(x) * weights).sum().backward()
    whole = plain.weight.grad.clone() if kind == "linear" else plain.weight.grad.T.clone()
    expected = plain(x).detach()
    plain.weight.grad = None
    layer = LowRankLinear(plain, rank=2)
    layer.refresh(torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(x), expected)
    (layer(x) * weights).sum().backward()
    torch.testing.assert_close(layer.left.weight.grad, whole @ layer.right.weight.T)
    torch.testing.assert_close(layer.right.weight.grad, layer.left.weight.T @ whole)
    layer.project()
    assert layer.plain.weight.grad.shape == plain.weight.shape


def test_training_is_exact(task, loop_engine) -> None:
    """The clipping engine and the loop of single-example backward passes end at the same whole weights."""
    ends = []
    for engine in (loop_engine, ClippedGradients):
        trainer, adapted = trainer_of(task, engine)
        for _ in range(4):
            trainer.step()
        trainer.close()
        adapted.finish()
        ends.append(trainer.model.state_dict())
    assert set(ends[0]) == set(task.checkpoint.build(2, seed=0).state_dict())
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], rtol=1e-3, atol=1e-5)


def test_one_record_moves_the_thin_sum_by_at_most_the_clipping_norm(task) -> None:
    """All carriers and the head are clipped together: that is what the noise is scaled to."""
    trainer, _ = trainer_of(Task(task.train.take([0]), 2, task.checkpoint), noise_multiplier=0.0, max_norm=0.05)
    carrier = trainer._carrier
    carrier.prepare(0)
    trainer._clipper.backward(trainer._loss(np.array([0])))
    total = sum(float(p.grad.double().square().sum()) for p in trainer.trained.values()) ** 0.5
    assert 0.049 < total <= 0.05 * (1 + 1e-5)
    trainer.close()


def test_only_whole_matrices_of_the_layers_and_the_head_move(task, tmp_path: Path) -> None:
    defense = DPAdam(adapt="rgp", rgp_rank=2, epochs=2, batch_size=40, learning_rate=0.01, noise_multiplier=1.0)
    assert defense.unfit(task.checkpoint, 80) is None
    release = defense.train(task, RunContext(1))
    before, after = task.checkpoint.build(2, seed=0).state_dict(), release.classifier.state_dict()
    for name, tensor in before.items():
        matrix = ".layer." in name and name.endswith("weight") and "LayerNorm" not in name
        assert torch.equal(tensor, after[name]) != (matrix or name.startswith("head.")), name
    thin = sum(2 * sum(t.shape) for n, t in before.items() if ".layer." in n and t.ndim == 2)
    assert release.trained_parameters == thin + 2 * 16 + 2
    release.save(tmp_path)
    again = DPAdamRelease.load(tmp_path, CPU)
    assert np.array_equal(release.predict(task.train).log_probs, again.predict(task.train).log_probs)
    assert again.claim.epsilon > 0


def test_a_resumed_run_equals_the_unbroken_one(task, tmp_path: Path) -> None:
    """Carriers come from the weights and the number of the step, so nothing of them needs to be kept."""
    unbroken, _ = trainer_of(task, optimizer="adamw", learning_rate=0.01)
    resume.run_to_end(unbroken, tmp_path / "unbroken")
    first, _ = trainer_of(task, optimizer="adamw", learning_rate=0.01)
    for _ in range(2):
        first.step()
    resume.save(first, tmp_path / "at")
    first.close()
    second, _ = trainer_of(task, optimizer="adamw", learning_rate=0.01)
    resume.run_to_end(second, tmp_path / "at")
    assert all(torch.equal(unbroken.moved[name], p) for name, p in second.moved.items())
    assert len(second.moved) == 2 * 6 + 2


def test_a_rank_that_no_layer_has_is_said_before_training(task) -> None:
    assert "rgp_rank of at most 16, got 17" in str(DPAdam(adapt="rgp", rgp_rank=17).unfit(task.checkpoint, 80))
    with pytest.raises(ModelError, match="rgp_rank"):
        trainer_of(task, rank=17)
