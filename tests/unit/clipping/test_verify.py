"""``verify`` passes what is right and catches what is not."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpeval_defenses.dp_adam.clipping import ClippedGradients, Verification, VerificationError

MODES = ("book-keeping", "two-pass", "per-layer")


@pytest.fixture
def lm(zoo: SimpleNamespace) -> tuple[nn.Module, dict[str, Tensor], Tensor]:
    """A language model, its inputs, and targets of different number for each example."""
    inputs = zoo.batch("gpt2-lm")
    return zoo.build("gpt2-lm"), inputs, zoo.targets("gpt2-lm", inputs)


def token_losses(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bound", [0.1, 1e4])
def test_what_is_right_passes_and_nothing_changes(mode: Any, bound: float, lm: Any, zoo: SimpleNamespace) -> None:
    """All errors are rounding; gradients, counts and modes are as before."""
    model, inputs, labels = lm
    model.train()
    clip = ClippedGradients(model, bound, mode)
    found = clip.verify(inputs, lambda out: zoo.losses(out.logits, labels))
    assert max(found.norm_error, found.sum_error, found.coupling) < 1e-9
    assert 0 < found.sensitivity <= 1 + 1e-9
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_the_loss_may_take_the_batch(lm: Any, zoo: SimpleNamespace) -> None:
    """A second parameter receives the batch that was run; then examples are run alone."""
    model, inputs, labels = lm
    batch = {**inputs, "labels": labels}

    class Labelled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, labels: Tensor, **inputs: Tensor) -> Tensor:
            return self.inner(**inputs).logits

    clip = ClippedGradients(Labelled(), 0.1)
    assert clip.verify(batch, lambda out, batch: zoo.losses(out, batch["labels"]), examples=9).examples == 5
    with pytest.raises(VerificationError, match="depends on the other examples"):
        clip.verify(batch, lambda out, b: token_losses(out, b["labels"]).sum(1) / (b["labels"] != -100).sum())


def test_losses_divided_by_the_tokens_of_the_whole_batch_are_caught(lm: Any) -> None:
    """Although the targets are out of sight, in a closure: the usual way to write a language model's loss."""
    model, inputs, labels = lm
    clip = ClippedGradients(model, 0.1)
    with pytest.raises(VerificationError, match="depends on the other examples"):
        clip.verify(inputs, lambda out: token_losses(out.logits, labels).sum(1) / (labels != -100).sum())


def whole_batch(out: Any, labels: Tensor) -> Tensor:
    return token_losses(out.logits, labels).sum(1) / (labels != -100).sum()


def test_targets_in_a_partial_function_are_found(lm: Any) -> None:
    """Wherever the loss keeps them."""
    model, inputs, labels = lm
    clip = ClippedGradients(model, 0.1)
    with pytest.raises(VerificationError, match="depends on the other examples"):
        clip.verify(inputs, functools.partial(whole_batch, labels=labels))


@pytest.mark.parametrize(
    "coupled",
    [
        lambda losses: losses - losses.mean(),
        lambda losses: losses / losses.detach().sum(),
        lambda losses: losses * (losses.argsort() + 1),
        lambda losses: losses.flip(0),
    ],
    ids=["centred", "normalised", "ranked", "reversed"],
)
def test_losses_that_mix_examples_are_caught(coupled: Any) -> None:
    """Centring, normalising, ranking and reordering."""
    model = nn.Linear(3, 1)
    clip = ClippedGradients(model, 1.0)
    with pytest.raises(VerificationError):
        clip.verify(torch.randn(6, 3), lambda out: coupled(out.squeeze(1).square()), examples=6)


def test_a_model_that_mixes_examples_is_caught() -> None:
    """A forward pass with a mean over the batch."""

    class Centred(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x - x.mean(0)).squeeze(1)

    with pytest.raises(VerificationError, match="depends on the other examples"):
        ClippedGradients(Centred(), 1.0).verify(torch.randn(4, 3), torch.square)


def test_inputs_are_put_back_after_the_check(lm: Any) -> None:
    """Rows are exchanged for a moment; afterwards batch and targets are as before."""
    model, inputs, labels = lm
    before = {key: value.clone() for key, value in inputs.items()}, labels.clone()
    ClippedGradients(model, 0.1).verify(inputs, lambda out: token_losses(out.logits, labels).mean(1))
    assert all(torch.equal(inputs[key], before[0][key]) for key in inputs)
    assert torch.equal(labels, before[1])


@pytest.mark.parametrize("batch", [torch.ones(3, 2), (torch.ones(3, 2),), {"input": torch.ones(3, 2)}])
def test_batches_of_every_form(batch: Any) -> None:
    """A tensor, positional arguments, keyword arguments."""
    found = ClippedGradients(nn.Linear(2, 1), 1.0).verify(batch, lambda out: out.squeeze(1))
    assert isinstance(found, Verification)


def test_a_broken_engine_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms that are too small clip too little: the check that the check can fail."""
    from dpeval_defenses.dp_adam.clipping import modes

    original = modes.total_squared_norms
    monkeypatch.setattr(modes, "total_squared_norms", lambda uses, count: original(uses, count) / 4)
    with pytest.raises(VerificationError, match="differ from brute force"):
        ClippedGradients(nn.Linear(2, 1), 0.01).verify(torch.randn(4, 2), lambda out: out.squeeze(1))
