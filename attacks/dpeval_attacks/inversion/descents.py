"""The descents of all targets of a gradient attack, batch by batch, and which of their ends is answered.

With a :class:`~dpeval_attacks.inversion.gradient.GradientInversion` and what it has learnt at hand::

    best = Search(attack, own, forward, reader, asked, places, ctx).best()
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeval.plugin import Context
from dpeval.types import Ints, Rows
from dpeval_attacks.inversion.forward import Forward, Placed
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.own import OwnTexts, led_by
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

    def best(self) -> Ints:
        """For each asked row the token that is answered, or no answer; then the other candidates as the row alone
        ranks them, (n, top_k)."""
        candidates, first = self._candidates()
        read, k = self._read(candidates, first), self.attack.top_k
        if k == 1:
            return read[:, None]
        ranked = self.reader.best(self.asked, k) if candidates.ndim == 1 or k > candidates.shape[1] else candidates
        return led_by(read, ranked)[:, :k]

    def _read(self, candidates: Ints, first: Ints) -> Ints:
        read = np.full(len(self.asked), NO_ANSWER, dtype=np.int64)
        ends = np.cumsum([count for _, count in self.places])
        # Texts of like length descend together: little is spent on padding.
        order = sorted(range(len(self.places)), key=lambda i: (self.places[i][1], i))
        batches = [order[i : i + self.attack.batch] for i in range(0, len(order), self.attack.batch)]
        for texts in self.ctx.progress(batches, "gradient inversion"):
            rows = [np.arange(ends[i] - self.places[i][1], ends[i]) for i in texts]
            good = [mine[_answerable(self.asked, mine)] for mine in rows]
            if sum(len(mine) for mine in good):
                at = np.concatenate(good)
                read[at] = self._batch(texts, good, candidates[at] if candidates.ndim == 2 else candidates, first[at])
        return read

    def _batch(self, texts: list[int], rows: list[Ints], candidates: Ints, start: Ints) -> Ints:
        at = np.concatenate(rows)
        sample = Sample(self.asked.rows[at], self.asked.tokens[at], self.asked.positions[at], self.asked.gains[at])
        text = np.repeat(np.arange(len(texts)), [len(mine) for mine in rows])
        device = self.ctx.device
        placed = Placed(sample, text, [self.places[i] for i in texts], device)
        problem = self.forward.problem(placed, candidates)
        if self.attack.protocol == "published":
            return self._as_published(replace(problem, noise=0.0), candidates)
        first = torch.from_numpy(start).to(device)
        best = Descent(first, problem.value(first), 0, torch.zeros(len(texts), device=device))
        # Through layers that mix words a step is dear: texts that are already explained take none.
        solved = _solved(problem, best).cpu().numpy() & self.forward.mixes
        if solved.any():
            return self._unsolved(texts, rows, candidates, start, solved)
        best, signal = self._descended(problem, best, [(i, len(mine)) for i, mine in zip(texts, rows, strict=True)])
        tokens = _tokens(best.choice.cpu().numpy(), candidates)
        dead = ((signal <= _NO_SIGNAL) & (best.value > _SOLVED)).cpu().numpy()
        return np.where(dead[text], NO_ANSWER, tokens)

    def _unsolved(
        self, texts: list[int], rows: list[Ints], candidates: Ints, start: Ints, solved: NDArray[np.bool_]
    ) -> Ints:
        """The first reading of texts that are ``solved``; the others descend as a batch of their own."""
        read = _tokens(start, candidates)
        open_rows = np.repeat(~solved, [len(mine) for mine in rows])
        left = [i for i in range(len(texts)) if not solved[i] and len(rows[i])]
        if left:
            mine = candidates[open_rows] if candidates.ndim == 2 else candidates
            read[open_rows] = self._batch([texts[i] for i in left], [rows[i] for i in left], mine, start[open_rows])
        return read

    def _descended(self, problem: Problem, first: Descent, texts: list[tuple[int, int]]) -> tuple[Descent, Tensor]:
        """The best end of all restarts, and the strongest signal of each text; ``texts`` are (number, rows)."""
        best, signal = first, first.signal
        for restart in range(self.attack.restarts):
            if restart and bool(_solved(problem, best).all()):
                break
            start = _start(first.choice, problem.log_prior.shape[-1], texts, restart, self.ctx)
            found = descend(problem, start.to(self.ctx.device), self.attack.schedule)
            best = _better(best, found, problem.text)
            signal = torch.maximum(signal, found.signal)
        return best, signal

    def _as_published(self, problem: Problem, candidates: Ints) -> Ints:
        n, width = len(problem.text), problem.log_prior.shape[-1]
        bound = (6 / (n + width)) ** 0.5  # Glorot and Bengio 2010
        start = bound * (2 * torch.rand(n, width, generator=self.ctx.generator("published", n)) - 1)
        found = descend(problem, start.to(problem.seen.device), self.attack.schedule)
        return _tokens(found.choice.cpu().numpy(), candidates)

    def _candidates(self) -> tuple[Ints, Ints]:
        """The shortlist of each asked row (N, k), or the whole vocabulary (V,); and where in it each row's own reading
        stands, (N,)."""
        k = 0 if self.attack.protocol == "published" else self.attack.shortlist
        allowed = self.own.allowed
        if k and k < len(allowed):
            found = self.reader.best(self.asked, k)
            # A row with fewer candidates repeats its best one; a row without any gets the first of the vocabulary.
            best = np.where(found[:, :1] >= 0, found[:, :1], allowed[0])
            return np.where(found >= 0, found, best), np.zeros(len(found), dtype=np.int64)
        read = self.reader.read(self.asked)
        return allowed, np.searchsorted(allowed, np.maximum(read, allowed[0]))


def _tokens(choice: Ints, candidates: Ints) -> Ints:
    found: Ints = candidates[choice] if candidates.ndim == 1 else candidates[np.arange(len(choice)), choice]
    return found


def _solved(problem: Problem, best: Descent) -> Tensor:
    """Without noise a text that explains its rows to the last digit is the text; no other start can do better."""
    return (best.value <= _SOLVED) & (problem.noise == 0)


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
