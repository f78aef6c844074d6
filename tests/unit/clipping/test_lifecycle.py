"""An engine leaves no trace: between steps, in evaluation, after errors and when detached; and keeps nothing."""

from __future__ import annotations

import copy
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dpeval_defenses.dp_adam.clipping import ClippedGradients

MODES = ("book-keeping", "two-pass", "per-layer")


def traces(model: nn.Module) -> list[object]:
    """What an engine could leave behind."""
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    kinds = [type(p) for p in model.parameters()]
    attributes = [sorted(vars(m)) for m in model.modules()]
    return [hooks, kinds, attributes, [p._backward_hooks for p in model.parameters()]]


def test_detach_leaves_the_model_as_it_was(zoo: SimpleNamespace) -> None:
    """Hooks, classes, attributes, and gradients by the usual way."""
    model, inputs = zoo.build("t5-lm"), zoo.batch("t5-lm")
    before = traces(model)
    clip = ClippedGradients(model, 1.0)
    clip.backward(model(**inputs).logits.mean((1, 2)))
    clip.detach()
    assert traces(model) == before
    model.zero_grad()
    model(**inputs).logits.mean().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_between_steps_the_parameters_are_plain(zoo: SimpleNamespace) -> None:
    """Optimizers, state dicts and copies meet nothing unusual while an engine is attached."""
    model, inputs = zoo.build("bert-cls"), zoo.batch("bert-cls")
    clip = ClippedGradients(model, 1.0)
    clip.backward(model(**inputs).logits[:, 0])
    assert {type(p) for p in model.parameters()} == {nn.Parameter}
    assert {type(v) for v in model.state_dict().values()} == {torch.Tensor}
    torch.optim.AdamW(model.parameters()).step()


def test_forward_values_are_those_of_the_stock_model(zoo: SimpleNamespace) -> None:
    """Recording changes no output, to the bit, and draws no random numbers."""
    for name in ("bert-cls", "gpt2-lm", "t5-lm", "deberta-v2-cls"):
        model, inputs = zoo.build(name).train(), zoo.batch(name)
        torch.manual_seed(0)
        plain = model(**inputs).logits
        ClippedGradients(model, 1.0)
        torch.manual_seed(0)
        torch.testing.assert_close(model(**inputs).logits, plain, rtol=1e-12, atol=1e-12)


def test_an_error_in_the_forward_pass_leaves_no_trace() -> None:
    """The parameters are plain again, and the next step is exact."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    clip = ClippedGradients(model, 1.0)
    with pytest.raises(RuntimeError):
        model(torch.randn(4, 5))
    assert {type(p) for p in model.parameters()} == {nn.Parameter}
    assert clip.backward(model(torch.randn(4, 3)).squeeze(1)).shape == (4,)


def test_an_error_in_the_backward_pass_leaves_no_trace() -> None:
    """Gradients are as before."""
    model = nn.Linear(3, 1)
    clip = ClippedGradients(model, 1.0)
    losses = model(torch.randn(4, 3)).squeeze(1)
    clip.backward(losses)
    before = model.weight.grad.clone()
    with pytest.raises(RuntimeError, match="second time"):
        clip.backward(losses)
    assert torch.equal(model.weight.grad, before)
    assert {type(p) for p in model.parameters()} == {nn.Parameter}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_evaluation_between_steps_changes_nothing(training: bool, gradients: bool, zoo: SimpleNamespace) -> None:
    """Also in training mode, and also with gradients on and no backward pass."""

    def step(evaluate: int) -> list[Tensor | None]:
        model, inputs = zoo.build("bert-cls"), zoo.batch("bert-cls")
        model.train(training)
        clip = ClippedGradients(model, 0.5)
        torch.manual_seed(0)
        clip.backward(model(**inputs).logits[:, 0])
        with torch.set_grad_enabled(gradients):
            for k in range(evaluate):
                model(**zoo.batch("bert-cls", rows=3, seed=k))
        torch.manual_seed(1)
        clip.backward(model(**inputs).logits[:, 0])
        return [p.grad for p in model.parameters()]

    for a, b in zip(step(0), step(5), strict=True):
        assert a is b is None or torch.equal(a, b)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_kept_after_backward(mode: str, zoo: SimpleNamespace) -> None:
    """Neither inputs nor output gradients outlive the call, nor do forward passes that were never used."""
    model, inputs = zoo.build("gpt2-lm"), zoo.batch("gpt2-lm")
    clip = ClippedGradients(model, 0.5, mode)  # type: ignore[arg-type]
    clip.backward(model(**inputs).logits.mean((1, 2)))
    alive = living_tensors()
    for _ in range(3):
        clip.backward(model(**inputs).logits.mean((1, 2)))
        unused = model(**inputs).logits
        kept = weakref.ref(unused)
        del unused
        assert kept() is None
    assert living_tensors() == alive


def living_tensors() -> int:
    """How many tensors there are."""
    gc.collect()
    return sum(1 for o in gc.get_objects() if issubclass(type(o), Tensor))


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(value, Tensor):
                self.elements = max(self.elements, value.untyped_storage().nbytes() // value.element_size())
        return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("steps", [2, 40])
def test_no_per_example_tensor_of_parameter_size_is_built(mode: str, steps: int) -> None:
    """With short sequences and with long ones: never more than one example's gradient of a large matrix or table."""
    model = nn.Sequential(nn.Embedding(3000, 64), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3000))
    clip = ClippedGradients(model, 0.5, mode)  # type: ignore[arg-type]
    ids = torch.randint(0, 3000, (16, steps))
    losses = model(ids).logsumexp(2).mean(1)
    activations = 16 * steps * 3000
    with Largest() as largest:
        clip.backward(losses)
    assert largest.elements <= max(activations, 3000 * 64)


class Plain(nn.Module):
    """A language model written without nn.Linear: a bare table, its transpose as the head, and a bare matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.matrix = nn.Parameter(torch.randn(2000, 32)), nn.Parameter(torch.randn(32, 32))

    def forward(self, ids: Tensor) -> Tensor:
        return torch.tanh(self.table[ids] @ self.matrix) @ self.table.to(torch.float32).T


def test_bare_matrices_and_tables_have_rules_too() -> None:
    """Products with a bare matrix or its transpose, and rows by index, build nothing per example either."""
    model, ids = Plain(), torch.randint(0, 2000, (16, 4))
    clip = ClippedGradients(model, 0.5)
    losses = model(ids).logsumexp(2).mean(1)
    with Largest() as largest:
        clip.backward(losses)
    assert largest.elements <= 16 * 4 * 2000


def test_buffers_and_caches_survive_the_trial_runs(zoo: SimpleNamespace) -> None:
    """Finding out where examples stand changes neither buffers nor objects passed in."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor, seen: list[int]) -> Tensor:
            self.calls += 1
            seen.append(len(x))
            return self.layer(x).squeeze(1)

    model, seen = Counting(), [0]
    ClippedGradients(model, 1.0)
    model(torch.randn(4, 3), seen)
    assert model.calls == 1
    assert seen == [0, 4]


def test_a_copy_of_a_clipped_model_is_independent(zoo: SimpleNamespace) -> None:
    """A deep copy made while an engine is attached has plain parameters of its own."""
    model, inputs = zoo.build("bert-cls"), zoo.batch("bert-cls")
    clip = ClippedGradients(model, 0.5)
    twin = copy.deepcopy(model)
    twin(**inputs).logits.sum().backward()
    assert all(p.grad is not None for p in twin.parameters())
    ClippedGradients(twin, 0.5)
    clip.backward(model(**inputs).logits[:, 0])


def test_growing_the_set_of_trained_parameters_is_followed() -> None:
    """Layers unfrozen after the start are clipped from then on."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    model[0].requires_grad_(False)
    clip = ClippedGradients(model, 1.0)
    features = torch.randn(4, 3)
    head = clip.backward(model(features).squeeze(1))
    model[0].requires_grad_(True)
    model.zero_grad()
    assert (clip.backward(model(features).squeeze(1)) > head).all()
    assert model[0].weight.grad is not None


def test_a_large_step_after_a_small_one_needs_no_new_look() -> None:
    """Batch size and sequence length may change from call to call."""
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 1))
    clip = ClippedGradients(model, 1.0)
    for rows, steps in ((2, 3), (5, 7), (1, 2), (7, 7)):
        assert clip.backward(model(torch.randint(0, 9, (rows, steps))).mean((1, 2))).shape == (rows,)
