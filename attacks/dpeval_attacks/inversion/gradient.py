"""Embedding inversion by gradient descent over a relaxed vocabulary.

A matrix names it ``use = "invert-gradient"``. By hand, with a view, the targets' ids and a
:class:`~dpeval.plugin.Knowledge`::

    recovered = GradientInversion(restarts=3).recover(view, targets, knowledge, ctx)

>>> GradientInversion(temperature=2.0)
Traceback (most recent call last):
    ...
ValueError: GradientInversion: expected temperature above 0 and at most 1, got 2.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.dependence import is_pooled
from dpeval.plugin import Context, EmbeddingView, InversionAttack, Knowledge
from dpeval.types import Ints, Recovered, Rows
from dpeval_attacks.draws import check_queries, mean_rows, order_of
from dpeval_attacks.inversion.forward import Forward, LayersForward, MapForward, Placed
from dpeval_attacks.inversion.nearest import NearestInversion
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.own import OwnTexts, answers_of, asked_rows, noise_scale, release_own
from dpeval_attacks.inversion.pooled import invert_pooled
from dpeval_attacks.inversion.prefix import depth_of, fit_prefix
from dpeval_attacks.inversion.reader import Reader, ReadsRows
from dpeval_attacks.inversion.relaxation import Descent, Problem, Schedule, descend
from dpeval_attacks.inversion.search import NO_ANSWER

Through = Literal["auto", "layers", "map"]
_NO_SIGNAL = 1e-12
_SOLVED = 1e-8


@dataclass(frozen=True, kw_only=True)
class GradientInversion(InversionAttack):
    """An adversary on the wire who knows the public layers before the tap, and searches for a text that explains a row.

    It puts in place of each word a weighted mean of candidate words, runs that through the public layers to the tap,
    scales it as the release does, and moves the weights by gradient descent until the rows are those that were
    released, as far as the published noise allows; the temperature of the weights falls until each is one word. Unlike
    a row-by-row reading this uses what the layers mix in from neighbouring words. Where the tap is deep (more than
    ``deepest`` layers), or the layers were trained and are not public, it descends through the map from words to rows
    that it has learnt on texts of its own instead; ``through`` forces one or the other. On one pooled row for a whole
    text it looks for a bag of words.

    ``shortlist`` candidates are tried for each row, those that :class:`NearestInversion` finds likeliest; 0 takes the
    whole vocabulary. ``restarts`` descents begin at different weights, the first at that reading; whichever whole words
    explain the release best are answered. ``steps`` and ``learning_rate`` are those of Adam; a descent stops earlier
    when it has converged. ``batch`` texts descend together. Special tokens are never an answer; a row that tells
    nothing (zeros, not finite, no gradient) stays unanswered.
    """

    source: ClassVar[str] = (
        "Song and Raghunathan 2020 (arXiv:2004.00053), sec. 3; Du et al. 2023 (arXiv:2309.06746), 6.3"
    )
    reads_pooled: ClassVar[bool] = True

    through: Through = "auto"
    deepest: int = 2
    shortlist: int = 16
    temperature: float = 0.05
    restarts: int = 2
    steps: int = 120
    learning_rate: float = 0.1
    tolerance: float = 1e-4
    batch: int = 32
    queries: int = 1
    max_auxiliary: int = 500

    def __post_init__(self) -> None:
        check_queries(self.queries)
        if self.through not in ("auto", "layers", "map"):
            raise ValueError(f"GradientInversion: expected through to be auto, layers or map, got {self.through!r}")
        if not 0 < self.temperature <= 1:
            raise ValueError(f"GradientInversion: expected temperature above 0 and at most 1, got {self.temperature}")
        for name, least in (("deepest", 0), ("shortlist", 0), ("restarts", 1), ("steps", 1), ("batch", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"GradientInversion: expected {name} >= {least}, got {getattr(self, name)}")
        if not self.learning_rate > 0 or not self.tolerance >= 0:
            got = f"{self.learning_rate} and {self.tolerance}"
            raise ValueError(f"GradientInversion: expected learning_rate > 0 and tolerance >= 0, got {got}")
        if self.max_auxiliary < 2:
            raise ValueError(f"GradientInversion: expected max_auxiliary >= 2 texts, got {self.max_auxiliary}")

    def recover(self, view: EmbeddingView, targets: Sequence[str], knowledge: Knowledge, ctx: Context) -> Recovered:
        """For each target a token id per released row; ``-1`` where the row is special, padding or tells nothing."""
        found = mean_rows(lambda draw: view.intercepted(draw=draw), self.queries)
        rows = [found.rows(i) for i in order_of(found.ids, targets)]
        if not rows:
            return Recovered((), ())
        if is_pooled(knowledge.checkpoint, view.tap):
            schedule = self._schedule
            options = {"queries": self.queries, "most": self.max_auxiliary, "batch": self.batch}
            return Recovered(
                tuple(targets), invert_pooled(view, np.concatenate(rows), knowledge, ctx, schedule, **options)
            )
        own = release_own(view, knowledge, ctx, queries=self.queries, most=self.max_auxiliary, who=type(self).__name__)
        asked, places = asked_rows(rows, own.study)
        reader = _reader(self, own, view, knowledge, ctx)
        forward = self._forward(own, reader, view, knowledge, ctx)
        read = _Search(self, own, forward, reader, asked, places, ctx).read()
        return Recovered(tuple(targets), answers_of(read, places, rows, own.special_ids))

    @property
    def _schedule(self) -> Schedule:
        return Schedule(self.steps, self.learning_rate, hot=1.0, cold=self.temperature, tolerance=self.tolerance)

    def _forward(
        self, own: OwnTexts, reader: ReadsRows, view: EmbeddingView, knowledge: Knowledge, ctx: Context
    ) -> Forward:
        """The public layers where the tap is shallow and they explain the release at least as well; else the map."""
        learnt = MapForward.of(_as_picture(reader, own), own)
        if self.through == "map" or not self._may_use_layers(knowledge.checkpoint, view.tap):
            return learnt
        prefix = fit_prefix(knowledge.checkpoint, view.tap, own, ctx.device)
        if prefix is None:
            return learnt
        if self.through == "auto" and prefix.spread > learnt.unexplained:
            return learnt
        noise = noise_scale(view, own.texts, knowledge.claim, self.queries)
        return LayersForward.of(prefix, own, noise, knowledge.checkpoint.pad_id)

    def _may_use_layers(self, checkpoint: Checkpoint, tap: str) -> bool:
        if self.through == "layers":
            return True
        depth = None if checkpoint.lacks(tap) is not None else depth_of(checkpoint, tap)
        return depth is not None and depth <= self.deepest


def _reader(
    attack: GradientInversion, own: OwnTexts, view: EmbeddingView, knowledge: Knowledge, ctx: Context
) -> ReadsRows:
    nearest = NearestInversion(queries=attack.queries, max_auxiliary=attack.max_auxiliary)
    return nearest.reader(own, view, knowledge, ctx)


def _as_picture(reader: ReadsRows, own: OwnTexts) -> Reader:
    if not isinstance(reader, Reader):
        raise TypeError(f"expected a reader with a picture, got {type(reader).__name__}")
    del own
    return reader


@dataclass(frozen=True, eq=False)
class _Search:
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
            found = descend(problem, start.to(device), self.attack._schedule)  # noqa: SLF001 - its own attack
            best = _better(best, found, problem.text)
            signal = torch.maximum(signal, found.signal)
        tokens = self._tokens(best.choice.cpu().numpy(), candidates)
        dead = ((signal <= _NO_SIGNAL) & (best.value > _SOLVED)).cpu().numpy()
        return np.where(dead[text], NO_ANSWER, tokens)

    @staticmethod
    def _solved(problem: Problem, best: Descent) -> bool:
        """Without noise a text that explains its rows to the last digit is the text; no other start can do better."""
        return problem.noise == 0 and bool((best.value <= _SOLVED).all())

    def _candidates(self, sample: Sample) -> Ints:
        """The shortlist of each row, (N, k), or the whole vocabulary, (V,)."""
        k = self.attack.shortlist
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
