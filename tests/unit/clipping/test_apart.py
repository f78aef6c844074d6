"""Models and losses that mix examples are refused by themselves, before a step is taken; those that do not are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpeval_defenses.dp_adam.clipping import ClippedGradients, ClippingError
from dpeval_defenses.dp_adam.clipping.layout import leading_options

Middle = Callable[[nn.Module, Tensor], Tensor]
Errors = Callable[..., tuple[float, float]]
D, V = 6, 11


class Net(nn.Module):
    """A table, a layer used as a test says, and a head."""

    def __init__(self, middle: Middle) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.layer, self.head = nn.Embedding(V, D), nn.Linear(D, D), nn.Linear(D, 1)
        self.middle = middle
        self.double()

    def forward(self, ids: Tensor, **_: Any) -> Tensor:
        return self.head(torch.tanh(self.middle(self.layer, self.table(ids)))).flatten(1).mean(1)


def halves_exchanged(h: Tensor) -> Tensor:
    k = len(h) // 2
    return torch.cat([h[len(h) - k :], h[k : len(h) - k], h[:k]])


MIXED: dict[str, Middle] = {
    "flipped": lambda layer, h: layer(h.flip(0)).flip(0),
    "rolled": lambda layer, h: layer(h.roll(1, 0)).roll(-1, 0),
    "halves exchanged": lambda layer, h: halves_exchanged(layer(halves_exchanged(h))),
    "row by row": lambda layer, h: torch.stack([layer(row) for row in h]),
    "in two chunks": lambda layer, h: torch.cat([layer(part) for part in h.chunk(2)]),
    "steps first, flattened": lambda layer, h: layer(h.transpose(0, 1).reshape(-1, D)).view(-1, len(h), D).mT.mT,
    "twice the batch": lambda layer, h: layer(torch.cat([h, h.sin()]))[: len(h)],
    "centred": lambda layer, h: layer(h - h.mean(0)),
    "softmax over the batch": lambda layer, h: layer(h).softmax(0),
    "divided by the batch, detached": lambda layer, h: layer(h) / (1 + h.detach().abs().mean()),
    "mixed up": lambda layer, h: layer(0.7 * h + 0.3 * h.flip(0)),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("rows", [4, 5])
def test_a_model_that_mixes_or_reorders_examples_is_refused(name: str, rows: int) -> None:
    """Also where the batch (5) is as large as the sequence is long, and where the mixture is detached."""
    model = Net(MIXED[name])
    with pytest.raises(ClippingError):
        ClippedGradients(model, 1.0).backward(model(torch.randint(0, V, (rows, 5))))
    assert all(p.grad is None for p in model.parameters())


APART: dict[str, Middle] = {
    "windows": lambda layer, h: layer(functional.pad(h, (0, 0, 0, 1)).unfold(1, 2, 1).mean(-1)),
    "copies of each": lambda layer, h: layer(h.repeat_interleave(2, 0)).view(len(h), -1, D),
    "step by step": lambda layer, h: torch.stack([layer(h[:, j]) for j in range(h.shape[1])], 1),
    "examples second": lambda layer, h: layer(h.transpose(0, 1)).transpose(0, 1),
    "flattened": lambda layer, h: layer(h.reshape(-1, D)).view_as(h),
    "reversed in time": lambda layer, h: layer(h.flip(1)),
    "heads in the batch": lambda layer, h: layer(h.view(len(h), -1, 2, 3).transpose(1, 2).reshape(2 * len(h), -1, D))
    .view(len(h), -1, D),
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
@pytest.mark.parametrize(("rows", "steps"), [(4, 6), (6, 6), (2, 2), (3, 2), (1, 4)])
def test_a_model_that_keeps_examples_apart_is_exact(name: str, rows: int, steps: int, errors: Errors) -> None:
    """However it lays them out."""
    model = Net(APART[name])
    ids = torch.randint(0, V, (rows, steps), generator=torch.Generator().manual_seed(1))
    assert max(errors(model, lambda: model(ids))) < 1e-10


@pytest.mark.parametrize(
    "coupled",
    [
        lambda losses: losses - losses.mean(),
        lambda losses: losses.softmax(0),
        lambda losses: losses.flip(0),
        lambda losses: losses.roll(1),
        lambda losses: losses.cumsum(0),
    ],
    ids=["centred", "softmax", "reversed", "rolled", "summed up"],
)
@pytest.mark.parametrize("mode", ["book-keeping", "two-pass", "per-layer"])
def test_losses_that_mix_examples_are_refused_in_the_first_step(coupled: Callable[[Tensor], Tensor], mode: Any) -> None:
    """Without a call of ``verify``; nothing is added to the gradients."""
    model = Net(lambda layer, h: layer(h))
    clip = ClippedGradients(model, 1.0, mode)
    ids = torch.randint(0, V, (6, 5))
    with pytest.raises(ClippingError, match="depends on other examples"):
        clip.backward(coupled(model(ids).square()))
    assert all(p.grad is None for p in model.parameters())
    assert clip.backward(model(ids)).shape == (6,)


def test_tokens_picked_from_frozen_features_are_refused() -> None:
    """As many in all as there are examples, but not one of each: rows belong to nobody in particular."""

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(V, D).requires_grad_(False), nn.Linear(D, 1)

        def forward(self, ids: Tensor, picked: Tensor) -> Tensor:
            return self.head(self.table(ids)[picked]).squeeze(1)

    model, picked = Masked(), torch.zeros(4, 5, dtype=torch.bool)
    picked[0, 0] = picked[0, 3] = picked[2, 1] = picked[3, 1] = True
    with pytest.raises(ClippingError):
        ClippedGradients(model, 1.0).backward(model(torch.randint(0, V, (4, 5)), picked))


@pytest.mark.parametrize("rows", [4, 6])
@pytest.mark.parametrize("first", [True, False])
def test_an_argument_without_examples_is_recognised(rows: int, first: bool, errors: Errors) -> None:
    """Positions of shape (T,), given before or after the ids, also where there are as many as examples."""

    class Placed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.places, self.head = nn.Embedding(V, D), nn.Embedding(9, D), nn.Linear(D, 1)

        def forward(self, ids: Tensor, places: Tensor) -> Tensor:
            return self.head(torch.tanh(self.table(ids) + self.places(places))).flatten(1).mean(1)

    model, ids, places = Placed().double(), torch.randint(0, V, (rows, 6)), torch.arange(6)
    given = {"places": places, "ids": ids} if first else {"ids": ids, "places": places}
    assert max(errors(model, lambda: model(**given))) < 1e-10


def test_the_likeliest_number_of_rows_comes_first() -> None:
    """That of most tensors; in a tie, of the one with more dimensions; 1 last."""
    assert leading_options([(5, 3), (5,), (3,)])[0] == (5, frozenset({0, 1}))
    assert leading_options([(3,), (5, 3)])[0] == (5, frozenset({1}))
    assert leading_options([(1, 7), (4, 7)])[0] == (4, frozenset({1}))
    assert leading_options([(1, 7)]) == [(1, frozenset({0}))]
    assert leading_options([(), ()]) == []
    assert (5, frozenset({0})) in leading_options([(5, 5), (5,)])


def test_the_extra_backward_pass_comes_once_for_each_kind_of_call() -> None:
    """One call more of a tensor's hook in the first step, none later."""
    model = Net(lambda layer, h: layer(h))
    clip, calls = ClippedGradients(model, 1.0), []
    for _ in range(3):
        losses = model(torch.randint(0, V, (4, 5)))
        losses.register_hook(calls.append)
        clip.backward(losses)
    assert len(calls) == 4


@pytest.mark.parametrize("mode", ["book-keeping", "two-pass", "per-layer"])
def test_gradients_of_inputs_are_not_doubled_by_the_check(mode: Any) -> None:
    """A tensor of the caller's own that is trained beside the model has its gradient once."""
    model = nn.Linear(D, 1)
    features = torch.randn(4, D, requires_grad=True)
    ClippedGradients(model, 1.0, mode).backward(model(features).squeeze(1))
    torch.testing.assert_close(features.grad, model.weight.detach().expand(4, -1))


@pytest.mark.parametrize("mode", ["book-keeping", "two-pass", "per-layer"])
def test_a_batch_without_one_finite_gradient_adds_nothing(mode: Any) -> None:
    """All are counted, and gradients are zero."""
    model = Net(lambda layer, h: layer(h))
    clip = ClippedGradients(model, 1.0, mode)
    norms = clip.backward(model(torch.randint(0, V, (3, 5))) * float("nan"))
    assert not norms.isfinite().any()
    assert clip.nonfinite == 3
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_trial_runs_leave_no_attribute_behind() -> None:
    """What a forward pass stores on its module is that of the caller's run, a plain count included."""

    class Storing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls, self.last = nn.Linear(3, 1), 0, None

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.last = x
            return self.layer(x).squeeze(1)

    model, x = Storing(), torch.randn(4, 3)
    ClippedGradients(model, 1.0)
    model(x)
    assert model.calls == 1
    assert model.last is x


@pytest.mark.parametrize("own", [True, False])
def test_noise_in_the_forward_pass_is_not_taken_for_mixing(own: bool) -> None:
    """From a generator on the module, whose state trial runs put back, or from one out of reach."""
    elsewhere = torch.Generator().manual_seed(0)

    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 1)
            if own:
                self.generator = torch.Generator().manual_seed(0)

        def forward(self, x: Tensor) -> Tensor:
            h = self.one(x)
            generator = self.generator if own else elsewhere
            return self.two(h + torch.randn(h.shape, generator=generator)).squeeze(1)

    model, x = Noisy(), torch.randn(4, 3)
    plain = model(x) if own else None
    if own:
        model.generator.manual_seed(0)
    clip = ClippedGradients(model, 1.0)
    losses = model(x)
    assert plain is None or torch.equal(losses, plain)
    assert clip.backward(losses).shape == (4,)
