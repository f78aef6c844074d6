"""A small network from a released vector to scores of tokens, stopped by texts that were held out.

It starts where it knows nothing but how often tokens occur (last layer zero, biases from frequencies): on a release
that tells nothing it stays there, and answers what anybody would guess.

>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(0, 3, 300)
>>> rows = (np.eye(3)[labels] + 0.1 * rng.standard_normal((300, 3))).astype(np.float32)
>>> lesson = Lesson([Vectors(rows[:240], np.zeros(240, int))], labels[:240], Vectors(rows[240:], np.zeros(60, int)),
...                 labels[240:])
>>> fitted = fit_decoder(lesson, Training(epochs=30), several=False, log_prior=np.zeros(3), generator=torch.Generator())
>>> float(np.mean(fitted.scores(lesson.held_out).argmax(axis=1) == labels[240:]))
1.0
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpeval.types import Floats, Ints, Rows

_MADE_UP_WEIGHT = 2.0


@dataclass(frozen=True, eq=False)
class Vectors:
    """Released vectors (n, d), float32, and the position of each (n,); zeros where there are no positions."""

    rows: Rows
    positions: Ints


@dataclass(frozen=True, eq=False)
class Lesson:
    """The same texts released several times over, with what they hold; and held-out texts.

    ``truth`` is a class number for each row (n,), or for each text which classes it holds (n, classes) as 0 and 1.
    """

    views: Sequence[Vectors]
    truth: NDArray[np.generic]
    held_out: Vectors
    held_out_truth: NDArray[np.generic]
    made_up: tuple[Vectors, NDArray[np.generic]] | None = None
    """Further texts with what they hold, in which classes are not as frequent as in real ones."""
    table: Rows | None = None
    """A public vector of each class, (classes, e): a linear map into it serves classes that are rarely met."""


@dataclass(frozen=True)
class Training:
    """How long, how fast and how large."""

    epochs: int = 40
    patience: int = 4
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4
    hidden: int = 0
    """Units of the hidden layer; 0 for a linear decoder."""
    batch: int = 256
    """At most; a small lesson is cut into twenty steps an epoch."""


class _Network(nn.Module):
    """Standardise, add what the position adds, one hidden layer beside a linear path, scores."""

    def __init__(
        self,
        rows: Tensor,
        positions: int,
        hidden: int,
        log_prior: Tensor,
        draw: torch.Generator,
        table: Tensor | None = None,
    ) -> None:
        super().__init__()
        width, classes = rows.shape[1], len(log_prior)
        self.mean: Tensor
        self.spread: Tensor
        self.register_buffer("mean", rows.mean(dim=0))
        self.register_buffer("spread", rows.std(dim=0, correction=0).mean().clamp(min=1e-12))
        self.place = nn.Parameter(torch.zeros(positions, width))
        self.direct = nn.Parameter(torch.zeros(width, classes))
        self.bias = nn.Parameter(log_prior.clone())
        self.made_up_bias = nn.Parameter(log_prior.clone())
        self.table: Tensor | None
        self.register_buffer("table", table)
        self.into_table = None if table is None else nn.Parameter(torch.zeros(width, table.shape[1]))
        self.inner = nn.Parameter(torch.randn(width, hidden, generator=draw) / width**0.5) if hidden else None
        self.outer = nn.Parameter(torch.zeros(hidden, classes)) if hidden else None

    def forward(self, rows: Tensor, positions: Tensor, made_up: bool = False) -> Tensor:
        """Scores, (n, classes)."""
        clear = (rows - self.mean) / self.spread + self.place[positions.clamp(max=len(self.place) - 1)]
        scores: Tensor = clear @ self.direct + (self.made_up_bias if made_up else self.bias)
        if self.table is not None and self.into_table is not None:
            scores = scores + (clear @ self.into_table) @ self.table.T / self.table.shape[1] ** 0.5
        if self.inner is not None and self.outer is not None:
            scores = scores + torch.tanh(clear @ self.inner) @ self.outer
        return scores


@dataclass(frozen=True, eq=False)
class Decoder:
    """A fitted network."""

    network: nn.Module
    device: torch.device

    def scores(self, asked: Vectors) -> Floats:
        """Scores of each class, (n, classes): log-odds, or logits of a softmax."""
        with torch.inference_mode():
            parts = [
                self.network(_rows(asked, part, self.device), _positions(asked, part, self.device))
                .double()
                .cpu()
                .numpy()
                for part in np.array_split(np.arange(len(asked.rows)), max(1, len(asked.rows) // 4096))
            ]
        found: Floats = np.concatenate(parts)
        return found


def fit_decoder(
    lesson: Lesson,
    training: Training,
    *,
    several: bool,
    log_prior: Floats,
    generator: torch.Generator,
    device: torch.device | None = None,
) -> Decoder:
    """Train on one view after the other; keep what does best on the held-out texts; stop when that stays.

    ``several`` says whether a vector holds several classes (binary cross-entropy of each) or one (softmax).
    """
    device = device or torch.device("cpu")
    everything = torch.from_numpy(np.concatenate([view.rows for view in lesson.views]))
    positions = 1 + max(int(view.positions.max(initial=0)) for view in lesson.views)
    prior = torch.from_numpy(log_prior.astype(np.float32))
    table = None if lesson.table is None else torch.from_numpy(lesson.table.astype(np.float32))
    network = _Network(everything, positions, training.hidden, prior, generator, table).to(device)
    optimiser = torch.optim.AdamW(network.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
    batch = int(np.clip(len(lesson.truth) // 20, 16, training.batch))
    best, kept, since = _held_out_loss(network, lesson, several, device), copy.deepcopy(network.state_dict()), 0
    for epoch in range(training.epochs):
        _epoch(network, optimiser, lesson, epoch, batch, several, generator, device)
        loss = _held_out_loss(network, lesson, several, device)
        since = 0 if loss < best else since + 1
        if loss < best:
            best, kept = loss, copy.deepcopy(network.state_dict())
        if since >= training.patience:
            break
    network.load_state_dict(kept)
    return Decoder(network.eval(), device)


def _epoch(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    lesson: Lesson,
    epoch: int,
    batch: int,
    several: bool,
    generator: torch.Generator,
    device: torch.device,
) -> None:
    view = lesson.views[epoch % len(lesson.views)]
    order = torch.randperm(len(view.rows), generator=generator).numpy()
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        scores = network(_rows(view, part, device), _positions(view, part, device))
        loss = _loss(scores, _truth(lesson.truth, part, device), several)
        if lesson.made_up is not None:
            loss = loss + _made_up_loss(network, lesson.made_up, len(part) / len(order), several, generator, device)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def _made_up_loss(
    network: nn.Module,
    made_up: tuple[Vectors, NDArray[np.generic]],
    share: float,
    several: bool,
    generator: torch.Generator,
    device: torch.device,
) -> Tensor:
    """Of a random part of the made-up texts: as much of them as of the real ones a step takes."""
    vectors, truth = made_up
    count = max(1, round(share * len(vectors.rows)))
    part = torch.randint(len(vectors.rows), (count,), generator=generator).numpy()
    scores = network(_rows(vectors, part, device), _positions(vectors, part, device), made_up=True)
    return _MADE_UP_WEIGHT * _loss(scores, _truth(truth, part, device), several)


def _held_out_loss(network: nn.Module, lesson: Lesson, several: bool, device: torch.device) -> float:
    total, n = 0.0, len(lesson.held_out.rows)
    with torch.inference_mode():
        for part in np.array_split(np.arange(n), max(1, n // 4096)):
            scores = network(_rows(lesson.held_out, part, device), _positions(lesson.held_out, part, device))
            total += float(_loss(scores, _truth(lesson.held_out_truth, part, device), several)) * len(part)
    return total / max(n, 1)


def _loss(scores: Tensor, truth: Tensor, several: bool) -> Tensor:
    if several:
        return nn.functional.binary_cross_entropy_with_logits(scores, truth.float(), reduction="sum") / len(scores)
    return nn.functional.cross_entropy(scores, truth.long())


def _rows(vectors: Vectors, part: NDArray[np.generic], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(vectors.rows[part])).to(device)


def _positions(vectors: Vectors, part: NDArray[np.generic], device: torch.device) -> Tensor:
    return torch.from_numpy(vectors.positions[part].astype(np.int64)).to(device)


def _truth(truth: NDArray[np.generic], part: NDArray[np.generic], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(truth[part])).to(device)
