"""The descents of all targets of a gradient attack, batch by batch, and which of their ends is answered.

With a :class:`~dpeval_attacks.inversion.gradient.GradientInversion` and what it has learnt at hand::

    read = Search(attack, own, forward, reader, asked, places, ctx).read()
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from dpeval.plugin import Context
from dpeval.types import Ints, Rows
from dpeval_attacks.inversion.forward import Forward, Placed
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.own import OwnTexts
from dpeval_attacks.inversion.reader import ReadsRows
from dpeval_attacks.inversion.relaxation import Descent, Problem, descend
from dpeval_attacks.inversion.search import NO_ANSWER

if TYPE_CHECKING:
    from dpeval_attacks.inversion.gradient import GradientInversion

_NO_SIGNAL = 1e-12
_SOLVED = 1e-8


@dataclass(frozen=True, eq=False)
class Search:
    """The descents of all targets, batch by batch."""

    attack: GradientInversion
    own: OwnTexts
    forward: Forward
    reader: ReadsRows
    asked: Sample
    places: list[tuple[int, int]]
    ctx: Context

    def read(self) -> Ints:
        """A token, or no answer, for each asked row."""
        read = np.full(len(self.asked), NO_ANSWER, dtype=np.int64)
        ends = np.cumsum([count for _, count in self.places])
        # Texts of like length descend together: little is spent on padding.
        order = sorted(range(len(self.places)), key=lambda i: (self.places[i][1], i))
        batches = [order[i : i + self.attack.batch] for i in range(0, len(order), self.attack.batch)]
        for texts in self.ctx.progress(batches, "gradient inversion"):
            rows = [np.arange(ends[i] - self.places[i][1], ends[i]) for i in texts]
            good = [mine[_answerable(self.asked, mine)] for mine in rows]
            if sum(len(mine) for mine in good):
                read[np.concatenate(good)] = self._batch(texts, good)
        return read

    def _batch(self, texts: list[int], rows: list[Ints]) -> Ints:
        at = np.concatenate(rows)
        sample = Sample(self.asked.rows[at], self.asked.tokens[at], self.asked.positions[at], self.asked.gains[at])
        text = np.repeat(np.arange(len(texts)), [len(mine) for mine in rows])
        device = self.ctx.device
        candidates = self._candidates(sample)
        placed = Placed(sample, text, [self.places[i] for i in texts], device)
        problem = self.forward.problem(placed, candidates)
        if self.attack.protocol == "published":
            return self._as_published(replace(problem, noise=0.0), candidates)
        width = problem.log_prior.shape[-1]
        first = self._first(sample, candidates, width)
        best = Descent(first, problem.value(first), 0, torch.zeros(len(texts), device=device))
        signal = torch.zeros(len(texts), device=device)
        for restart in range(self.attack.restarts):
            if restart and self._solved(problem, best):
                break
            start = _start(
                first, width, [(i, len(mine)) for i, mine in zip(texts, rows, strict=True)], restart, self.ctx
            )
            found = descend(problem, start.to(device), self.attack.schedule)
            best = _better(best, found, problem.text)
            signal = torch.maximum(signal, found.signal)
        tokens = self._tokens(best.choice.cpu().numpy(), candidates)
        dead = ((signal <= _NO_SIGNAL) & (best.value > _SOLVED)).cpu().numpy()
        return np.where(dead[text], NO_ANSWER, tokens)

    def _as_published(self, problem: Problem, candidates: Ints) -> Ints:
        n, width = len(problem.text), problem.log_prior.shape[-1]
        bound = (6 / (n + width)) ** 0.5  # Glorot and Bengio 2010
        start = bound * (2 * torch.rand(n, width, generator=self.ctx.generator("published", n)) - 1)
        found = descend(problem, start.to(problem.seen.device), self.attack.schedule)
        return self._tokens(found.choice.cpu().numpy(), candidates)

    @staticmethod
    def _solved(problem: Problem, best: Descent) -> bool:
        """Without noise a text that explains its rows to the last digit is the text; no other start can do better."""
        return problem.noise == 0 and bool((best.value <= _SOLVED).all())

    def _candidates(self, sample: Sample) -> Ints:
        """The shortlist of each row, (N, k), or the whole vocabulary, (V,)."""
        k = 0 if self.attack.protocol == "published" else self.attack.shortlist
        if k == 0 or k >= len(self.own.allowed):
            return self.own.allowed
        found = self.reader.best(sample, k)
        # A row with fewer candidates repeats its best one; a row without any gets the first of the vocabulary.
        best = np.where(found[:, :1] >= 0, found[:, :1], self.own.allowed[0])
        return np.where(found >= 0, found, best)

    def _first(self, sample: Sample, candidates: Ints, width: int) -> Tensor:
        """Where the reading of each row alone stands among its candidates."""
        if candidates.ndim == 2:
            return torch.zeros(len(sample), dtype=torch.long, device=self.ctx.device)
        place = np.full(int(candidates.max()) + 1, 0)
        place[candidates] = np.arange(width)
        read = self.reader.read(sample)
        return torch.from_numpy(place[np.maximum(read, 0)]).to(self.ctx.device)

    @staticmethod
    def _tokens(choice: Ints, candidates: Ints) -> Ints:
        return candidates[choice] if candidates.ndim == 1 else candidates[np.arange(len(choice)), choice]


def _answerable(sample: Sample, at: Ints) -> np.ndarray:
    rows: Rows = sample.rows[at]
    return np.asarray(np.isfinite(rows).all(axis=1) & np.any(rows, axis=1))


def _start(first: Tensor, width: int, texts: list[tuple[int, int]], restart: int, ctx: Context) -> Tensor:
    """Small random weights of each text's own; the first descent leans towards the reading of each row alone."""
    noise = [torch.randn(count, width, generator=ctx.generator("restart", restart, text)) for text, count in texts]
    start = 0.1 * torch.cat(noise).to(first.device) if restart == 0 else torch.cat(noise).to(first.device)
    if restart == 0:
        start[torch.arange(len(first), device=first.device), first] += 1.0
    return start


def _better(one: Descent, other: Descent, text: Tensor) -> Descent:
    wins = other.value < one.value
    return Descent(
        choice=torch.where(wins[text], other.choice, one.choice),
        value=torch.where(wins, other.value, one.value),
        steps=max(one.steps, other.steps),
        signal=torch.maximum(one.signal, other.signal),
    )
