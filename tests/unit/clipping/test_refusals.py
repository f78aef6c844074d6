"""What cannot be clipped exactly is refused, by name and with the reason; never silently wrong."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpeval_defenses.dp_adam.clipping import ClippedGradients, ClippingError


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.BatchNorm1d(3), "batch statistics"),
        (nn.InstanceNorm1d(3, track_running_stats=True), "running statistics"),
        (nn.Embedding(5, 3, max_norm=1.0), "max_norm"),
        (nn.Embedding(5, 3, scale_grad_by_freq=True), "scale_grad_by_freq"),
        (nn.EmbeddingBag(5, 3), "bags"),
        (nn.DataParallel(nn.Linear(3, 3)), "clip the wrapped module"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_refused_at_the_start_by_module_path(module: nn.Module, reason: str) -> None:
    """The message names the place and says why."""
    model = nn.ModuleDict({"fine": nn.Linear(3, 3), "odd": module})
    with pytest.raises(ClippingError, match=f"'odd'.*{reason}"):
        ClippedGradients(model, 1.0)


def test_frozen_modules_without_batch_statistics_are_not_refused() -> None:
    """A frozen recurrent layer or table is none of clipping's business: only the head is clipped, and rightly."""
    model = nn.ModuleDict({"head": nn.Linear(3, 1), "frozen": nn.LSTM(3, 3), "bag": nn.Embedding(4, 3, max_norm=1.0)})
    model["frozen"].requires_grad_(False)
    model["bag"].requires_grad_(False)
    x = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(0))
    clip = ClippedGradients(model, 1.0)
    hidden = model["frozen"](x.transpose(0, 1))[0][-1] + model["bag"](torch.arange(5) % 4)
    norms = clip.backward(model["head"](hidden).squeeze(-1))
    clip.detach()
    torch.testing.assert_close(norms, (hidden.square().sum(-1) + 1).sqrt())
    assert all(p.grad is None for name, p in model.named_parameters() if not name.startswith("head"))


def test_nothing_to_train_is_refused() -> None:
    """A wholly frozen model is a mistake."""
    with pytest.raises(ClippingError, match="no trainable parameter"):
        ClippedGradients(nn.Linear(2, 2).requires_grad_(False), 1.0)


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bound_that_bounds_nothing_is_refused(bound: float) -> None:
    """The norm bound is finite and positive."""
    with pytest.raises(ValueError, match="max_norm"):
        ClippedGradients(nn.Linear(2, 2), bound)


def test_an_unknown_mode_is_refused() -> None:
    """The message lists the modes."""
    with pytest.raises(ValueError, match="book-keeping"):
        ClippedGradients(nn.Linear(2, 2), 1.0, "ghost")  # type: ignore[arg-type]


def test_a_second_engine_on_the_same_model_is_refused() -> None:
    """Until the first lets go."""
    model = nn.Sequential(nn.Linear(2, 2))
    first = ClippedGradients(model, 1.0)
    with pytest.raises(ClippingError, match="detach"):
        ClippedGradients(model[0], 1.0)
    first.detach()
    ClippedGradients(model[0], 1.0).detach()


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_is_refused() -> None:
    """Both ways to compile a module."""
    with pytest.raises(ClippingError, match="compiled"):
        ClippedGradients(torch.compile(nn.Linear(2, 2)), 1.0)  # type: ignore[arg-type]
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].compile()
    with pytest.raises(ClippingError, match=r"'0'.*compiled"):
        ClippedGradients(model, 1.0)


def test_a_scalar_loss_is_refused_with_the_reason(zoo: SimpleNamespace) -> None:
    """The mean that a transformers model returns couples examples."""
    model, inputs = zoo.build("gpt2-lm"), zoo.batch("gpt2-lm")
    clip = ClippedGradients(model, 1.0)
    with pytest.raises(ClippingError, match="mixes examples"):
        clip.backward(model(**inputs, labels=inputs["input_ids"]).loss)


def test_losses_of_another_shape_are_refused() -> None:
    """Per-token losses, counts, and things that are not tensors."""
    model = nn.Linear(3, 2)
    clip = ClippedGradients(model, 1.0)
    with pytest.raises(ClippingError, match=r"\(4, 2\)"):
        clip.backward(model(torch.randn(4, 3)))
    with pytest.raises(TypeError, match="int64"):
        clip.backward(torch.zeros(3, dtype=torch.long))
    with pytest.raises(TypeError, match="float"):
        clip.backward(1.0)  # type: ignore[arg-type]


def test_losses_that_are_not_those_of_the_rows_are_refused() -> None:
    """Two rows averaged into one loss, and rows without a loss."""
    model = nn.Linear(3, 1)
    clip = ClippedGradients(model, 1.0)
    for losses in (lambda out: out.view(2, 2).mean(1), lambda out: out[:3, 0]):
        with pytest.raises(ClippingError, match="batch of 4 examples"):
            clip.backward(losses(model(torch.randn(4, 3))))
        assert model.weight.grad is None


def test_plain_backward_on_a_clipped_model_is_refused() -> None:
    """Otherwise weights would silently not be trained."""
    model = nn.Linear(3, 1)
    clip = ClippedGradients(model, 1.0)
    with pytest.raises(RuntimeError, match=r"clip\.backward"):
        model(torch.randn(4, 3)).sum().backward()
    clip.detach()
    model(torch.randn(4, 3)).sum().backward()


def test_a_penalty_on_the_weights_is_refused() -> None:
    """A parameter used outside the model's forward pass has a gradient that belongs to no example."""
    model = nn.Linear(3, 1)
    clip = ClippedGradients(model, 1.0)
    model.bias.grad = torch.ones(1)
    with pytest.raises(ClippingError, match=r"'weight'.*round the recording"):
        clip.backward(model(torch.randn(4, 3)).squeeze(1) + model.weight.square().sum())
    assert model.weight.grad is None
    assert model.bias.grad.tolist() == [1.0]


def test_a_custom_function_on_a_parameter_is_refused() -> None:
    """Autograd functions are not recorded: neither on a parameter nor on what is computed from one."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            return grads[0] * 2

    class Bare(nn.Module):
        def __init__(self, derived: bool) -> None:
            super().__init__()
            self.gain, self.derived = nn.Parameter(torch.ones(3)), derived

        def forward(self, x: Tensor) -> Tensor:
            return (x * Double.apply(self.gain.exp() if self.derived else self.gain)).sum(1)

    for derived, message in ((False, "round the recording"), (True, "cannot be recorded")):
        model = Bare(derived)
        with pytest.raises(ClippingError, match=message):
            ClippedGradients(model, 1.0).backward(model(torch.randn(4, 3)))


class Routed(nn.Module):
    """Tokens picked by a mask go through a layer of their own, as in a mixture of experts."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.expert, self.head = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, ids: Tensor) -> Tensor:
        h = self.table(ids)
        chosen = ids > 4
        out = torch.zeros_like(h)
        out[chosen] = self.expert(torch.tanh(h[chosen]))
        return self.head((out + h).mean(1)).squeeze(1)


@pytest.mark.parametrize(
    "ids",
    [
        [[5, 6, 7], [1, 2, 5], [1, 1, 1], [1, 1, 1]],
        [[5, 6, 7], [1, 2, 5], [1, 5, 5], [5, 5, 1]],
        [[5, 6, 1], [1, 2, 5], [1, 1, 1], [1, 1, 5]],
    ],
    ids=["four", "eight", "four-elsewhere"],
)
def test_tokens_routed_by_content_are_refused(ids: list[list[int]]) -> None:
    """Even where as many are picked as there are examples, or a multiple."""
    model = Routed()
    with pytest.raises(ClippingError, match="'expert'"):
        ClippedGradients(model, 1.0).backward(model(torch.tensor(ids)))


def test_rows_in_another_order_are_refused() -> None:
    """A layer that sees the examples shuffled."""

    class Shuffled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            order = torch.tensor([2, 0, 3, 1]) if len(x) == 4 else torch.arange(len(x))
            return self.two(torch.tanh(self.one(x)[order]))[order.argsort()].squeeze(1)

    model = Shuffled()
    with pytest.raises(ClippingError, match="'two'"):
        ClippedGradients(model, 1.0).backward(model(torch.randn(4, 3)))


def test_a_model_that_runs_with_one_number_of_rows_only_is_refused() -> None:
    """Where trial runs fail, what holds examples is not guessed; the model's own errors come through."""

    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x * torch.ones(4, 1)).squeeze(1)

    model = Fixed()
    clip = ClippedGradients(model, 1.0)
    with pytest.raises(ClippingError, match="trial run"):
        model(torch.randn(4, 3))
    with pytest.raises(RuntimeError, match="must match"):
        model(torch.randn(5, 3))
    clip.detach()


def test_rows_picked_in_order_are_exact(errors: Callable[..., tuple[float, float]]) -> None:
    """One token of each example, by index or by mask, as last-token heads pick it."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

        def forward(self, ids: Tensor) -> Tensor:
            h = self.table(ids)
            first = self.head(h[torch.arange(len(ids)), ids.argmax(1)])
            return first + self.head(torch.tanh(h[ids > 5]))

    model, ids = Last().double(), torch.randint(0, 6, (4, 5))
    ids[torch.arange(4), torch.tensor([2, 0, 4, 1])] = torch.tensor([7, 6, 7, 8])
    assert (
        max(errors(model, lambda: functional.cross_entropy(model(ids), torch.tensor([0, 1, 1, 0]), reduction="none")))
        < 1e-10
    )
