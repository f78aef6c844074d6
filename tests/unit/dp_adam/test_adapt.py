"""Which parameters train: those that were named, and no others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpeval.context import RunContext
from dpeval.errors import ModelError
from dpeval.plugin import Task
from dpeval_defenses.dp_adam.adapt import adapt_classifier, parse_adapt
from dpeval_defenses.dp_adam.clipping import ClippedGradients
from dpeval_defenses.dp_adam.defense import DPAdam
from dpeval_defenses.dp_adam.noise import SeededNoise
from dpeval_defenses.dp_adam.prefix import prefix_of
from dpeval_defenses.dp_adam.problem import head_problem, text_loss
from dpeval_defenses.dp_adam.release import DPAdamRelease
from dpeval_defenses.dp_adam.sampler import PoissonSampler
from dpeval_defenses.dp_adam.settings import TrainSettings
from dpeval_defenses.dp_adam.trainer import train_private

LAYER = "encoder.encoder.layer"
WAYS = ["full", "lora", "prefix", "bitfit", "last-1", "last-2", "head"]
FEW = {"epochs": 2, "batch_size": 40, "learning_rate": 0.05, "noise_multiplier": 1.0}


@pytest.fixture(scope="module")
def task(tiny) -> Task:
    return Task(train=tiny.records, num_labels=2, checkpoint=tiny.checkpoint)


def adapt(checkpoint, way: str):
    classifier = checkpoint.build(2, seed=0)
    generator = torch.Generator().manual_seed(0)
    return classifier, adapt_classifier(classifier, parse_adapt(way), rank=2, prefix_length=4, generator=generator)


@pytest.mark.parametrize(
    ("way", "some", "none"),
    [
        ("full", "encoder.embeddings.word_embeddings.weight", None),
        ("bitfit", f"{LAYER}.0.attention.output.LayerNorm.bias", f"{LAYER}.0.output.dense.weight"),
        ("last-1", f"{LAYER}.1.output.dense.weight", f"{LAYER}.0.output.dense.bias"),
        ("last-2", f"{LAYER}.0.output.dense.weight", "encoder.embeddings.LayerNorm.bias"),
        ("head", "head.weight", f"{LAYER}.1.output.dense.bias"),
        ("lora", f"{LAYER}.0.attention.self.query.lora_A.default.weight", "encoder.embeddings.LayerNorm.bias"),
        ("prefix", "prefix.keys_and_values.embedding.weight", "encoder.embeddings.LayerNorm.bias"),
    ],
)  # fmt: skip
def test_each_way_trains_its_own_parameters_and_the_head(task, way: str, some: str, none: str | None) -> None:
    classifier, adapted = adapt(task.checkpoint, way)
    assert {"head.weight", "head.bias", some} <= set(adapted.trained)
    assert none not in adapted.trained
    sizes = {name: p.numel() for name, p in classifier.named_parameters() if p.requires_grad}
    assert adapted.trained_parameters == sum(sizes.values())
    assert set(sizes) == set(adapted.trained)


@pytest.mark.parametrize("way", WAYS)
def test_frozen_tensors_are_bit_identical_after_training_and_the_trained_ones_moved(task, way: str) -> None:
    """Adapters end merged into the weights they adapt; everything else is the public checkpoint's to the bit."""
    release = DPAdam(adapt=way, lora_rank=2, prefix_length=4, **FEW).train(task, RunContext(1))
    _, adapted = adapt(task.checkpoint, way)
    trained = {name.split(".lora_")[0].removesuffix(".weight").removesuffix(".bias") for name in adapted.trained}
    before, after = task.checkpoint.build(2, seed=0).state_dict(), release.classifier.state_dict()
    for name, tensor in before.items():
        moves = name in adapted.trained or (way == "lora" and name.endswith("weight") and name[:-7] in trained)
        assert torch.equal(tensor, after[name]) != moves, name
    assert release.trained_parameters == adapted.trained_parameters
    assert dict(release.claim.details)["trained parameters"] == adapted.trained_parameters


@pytest.mark.parametrize("way", WAYS)
def test_a_release_answers_the_same_to_the_bit_after_save_and_load(task, way: str, tmp_path) -> None:
    release = DPAdam(adapt=way, lora_rank=2, prefix_length=4, **FEW).train(task, RunContext(1))
    (tmp_path / "at").mkdir()
    release.save(tmp_path / "at")
    again = DPAdamRelease.load(tmp_path / "at", torch.device("cpu"))
    assert np.array_equal(release.predict(task.train).log_probs, again.predict(task.train).log_probs)
    tap = "encoder.0.add_norm_2"
    assert np.array_equal(release.embed(task.train, tap).values, again.embed(task.train, tap).values)
    assert again.claim == release.claim
    assert sorted(path.suffix for path in (tmp_path / "at").iterdir()) in (
        [".json", ".json", ".safetensors"],
        [".json", ".json", ".safetensors", ".safetensors"],
    )


def test_a_prefix_changes_the_answers_and_is_saved_with_the_release(task, tmp_path) -> None:
    release = DPAdam(adapt="prefix", prefix_length=4, **FEW).train(task, RunContext(1))
    with_prefix = release.predict(task.train).log_probs
    release.save(tmp_path)
    assert prefix_of(release.classifier) is not None
    assert np.array_equal(with_prefix, release.predict(task.train).log_probs)
    release.classifier.prefix.hook.remove()
    assert np.abs(with_prefix - release.predict(task.train).log_probs).max() > 1e-3


@pytest.mark.parametrize("way", ["lora", "prefix", "bitfit", "last-1", "full"])
def test_training_is_exact_for_every_way(task, loop_engine, way: str) -> None:
    """The clipping engine and the loop of single-example backward passes end at the same weights."""
    ends = []
    for engine in (loop_engine, ClippedGradients):
        classifier, adapted = adapt(task.checkpoint, way)
        settings = TrainSettings(steps=3, max_norm=0.3, noise_multiplier=0.5, learning_rate=0.1, optimizer="sgd")
        loss = text_loss(classifier, task, torch.device("cpu"))
        train_private(
            classifier, loss, PoissonSampler(len(task.train), 0.2, 3), SeededNoise(4), settings, engine=engine
        )
        adapted.finish()
        ends.append(classifier.state_dict())
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], rtol=1e-4, atol=1e-6)


def test_the_head_trained_on_kept_features_equals_the_slow_way(task) -> None:
    """Same draws, noise and dropout; the encoder runs once instead of in every step."""
    ends = []
    for fast in (True, False):
        classifier, _ = adapt(task.checkpoint, "head")
        cpu = torch.device("cpu")
        model, loss = head_problem(classifier, task, cpu) if fast else (classifier, text_loss(classifier, task, cpu))
        assert classifier.dropout.p > 0
        settings = TrainSettings(steps=5, max_norm=0.3, noise_multiplier=0.5, learning_rate=0.1, optimizer="sgd")
        train_private(model, loss, PoissonSampler(len(task.train), 0.4, 3), SeededNoise(4), settings)
        ends.append(classifier.head.weight.detach().clone())
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-4, atol=1e-6)
    assert not torch.equal(ends[0], task.checkpoint.build(2, seed=0).head.weight)


def test_unknown_ways_are_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'lora'"):
        DPAdam(adapt="loras")
    with pytest.raises(ValueError, match="unknown 'last-0'"):
        DPAdam(adapt="last-0")


def test_what_a_model_does_not_have_is_said_before_training(task) -> None:
    reason = DPAdam(adapt="last-3").unfit(task.checkpoint, 80)
    assert reason is not None
    assert "has 2 layers" in reason
    with pytest.raises(ModelError, match="has 2 layers"):
        adapt(task.checkpoint, "last-3")
    too_long = DPAdam(adapt="prefix", prefix_length=400).unfit(task.checkpoint, 80)
    assert too_long is not None
    assert "lower max_length or prefix_length" in too_long
    assert DPAdam(adapt="full").unfit(task.checkpoint, 80) is None


def test_adapters_are_drawn_from_the_run_and_not_from_the_global_generator(task) -> None:
    state = torch.get_rng_state()
    ends = []
    for seed in (1, 1, 2):
        classifier, _ = task.checkpoint.build(2, seed=0), None
        adapt_classifier(
            classifier, parse_adapt("lora"), rank=2, prefix_length=4, generator=torch.Generator().manual_seed(seed)
        )
        ends.append(dict(classifier.named_parameters())[f"{LAYER}.0.attention.self.query.lora_A.default.weight"])
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])
    assert torch.equal(state, torch.get_rng_state())
