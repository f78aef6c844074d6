"""A bag of words from one pooled row: the learnt map from word counts to the row, and a descent over counts.

The pooled row is taken for ``A · (mean word embedding) + b`` plus noise, fitted on own texts. Du et al. 2023 (section
6.3, the output layer) look for weights z ≥ 0 over the vocabulary whose mean embedding the row maps to; so does this,
under the fitted noise, with the frequency of words as the prior, and with the number of answers that did best on own
texts that were held out.

>>> bag_of(np.array([0.6, 0.1, 0.3]), np.array([7, 8, 9]), count=2)
(7, 9)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg
from torch import Tensor

from dpeval.plugin import Context, EmbeddingView, Knowledge
from dpeval.types import Floats, Ints, Rows
from dpeval_attacks.draws import mean_rows, order_of
from dpeval_attacks.inversion.observation import log_frequencies
from dpeval_attacks.inversion.own import HELD_OUT, check_reading, some_texts
from dpeval_attacks.inversion.relaxation import Problem, Schedule

_RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
_SHORTLIST = 512
_ROWS_AT_ONCE = 64
_HELD_OUT_MOST = 64
"""Held-out texts beyond which the number of answers is settled."""
_SHARES = (0.25, 0.5, 0.75, 1.0, 1.5)
"""Of the mean number of words: how many are answered is chosen among these on held-out texts."""


@dataclass(frozen=True, eq=False)
class BagMap:
    """``row ≈ words @ matrix + offset``, with the whitening of what is left."""

    vectors: Rows
    """Of each token, already mapped and whitened, (V, d), float32."""
    offset: Floats
    whitening: Floats
    log_prior: Floats
    length: float
    """Mean number of words of a text."""

    def queries(self, rows: NDArray[np.floating]) -> Floats:
        """Rows without the offset, whitened."""
        found: Floats = (rows.astype(np.float64) - self.offset) @ self.whitening
        return found


def invert_pooled(
    view: EmbeddingView,
    rows: Rows,
    knowledge: Knowledge,
    ctx: Context,
    schedule: Schedule,
    *,
    queries: int,
    most: int,
    batch: int,
) -> tuple[tuple[int, ...], ...]:
    """The bag of tokens of each pooled row of ``rows`` (n, d); empty for a row that is zero or not finite."""
    checkpoint = knowledge.checkpoint
    check_reading(view, checkpoint)
    texts = some_texts(knowledge.auxiliary, most, ctx, "GradientInversion")
    tokens = [[t for t in ids if t not in checkpoint.special_ids] for ids in checkpoint.tokens(texts)]
    released = mean_rows(lambda draw: view.embed(texts, draw=draw), queries)
    own = np.concatenate([released.rows(i) for i in order_of(released.ids, texts.ids)])
    usable = [i for i in range(len(texts)) if tokens[i] and np.isfinite(own[i]).all()]
    if len(usable) < 4:
        return ((),) * len(rows)
    own, tokens = own[usable], [tokens[i] for i in usable]
    held = ctx.rng("held-out").permutation(len(own))[: max(1, round(HELD_OUT * len(own)))]
    kept = np.setdiff1d(np.arange(len(own)), held)
    table = checkpoint.input_embeddings()
    allowed = np.array([v for v in range(len(table)) if v not in checkpoint.special_ids], dtype=np.int64)
    learnt = fit_bag_map(own[kept], [tokens[i] for i in kept], table)
    search = _BagSearch(learnt, allowed, schedule, batch, ctx.device)
    tried = held[:_HELD_OUT_MOST]
    share = search.best_share(own[tried], [tokens[i] for i in tried])
    return search.bags(rows, share)


def fit_bag_map(rows: NDArray[np.floating], tokens: Sequence[Sequence[int]], table: Rows) -> BagMap:
    """Ridge regression of pooled rows on mean word embeddings, the ridge by generalised cross-validation."""
    used = np.concatenate([np.asarray(t, dtype=np.int64) for t in tokens])
    centre, spread = table[used].mean(axis=0, dtype=np.float64), float(table[used].std()) or 1.0
    words = np.stack([table[list(t)].mean(axis=0, dtype=np.float64) for t in tokens])
    words = (words - centre) / spread
    offset = rows.mean(axis=0, dtype=np.float64)
    mean = words.mean(axis=0)
    solved = _ridge(words - mean, rows - offset)
    left = rows - offset - (words - mean) @ solved
    whitening = _whitening(left)
    onto = solved @ whitening
    vectors = table @ (onto / spread).astype(np.float32) - ((centre / spread + mean) @ onto).astype(np.float32)
    length = float(np.mean([len(t) for t in tokens]))
    return BagMap(vectors, offset, whitening, log_frequencies(used, len(table)), length)


def _ridge(words: Floats, rows: Floats) -> Floats:
    left, sizes, right = np.linalg.svd(words, full_matrices=False)
    along = left.T @ rows
    best, solved = np.inf, np.zeros((words.shape[1], rows.shape[1]))
    for ridge in _RIDGES:
        kept = sizes**2 / (sizes**2 + ridge * float(np.sum(sizes**2)) / max(len(sizes), 1) + 1e-12)
        residual = float(np.sum(np.square(rows - left @ (kept[:, None] * along))))
        freedom = max(1e-3, 1 - float(kept.sum()) / len(words))
        if residual / freedom**2 < best:
            best = residual / freedom**2
            solved = right.T @ ((kept / np.maximum(sizes, 1e-12))[:, None] * along)
    return solved


def _whitening(left: Floats) -> Floats:
    scatter = left.T @ left / max(len(left), 1)
    level = max(float(np.trace(scatter)) / len(scatter), 1e-20)
    shrink = min(1.0, len(scatter) / max(len(left), 1))
    shrunk = (1 - 0.5 * shrink) * scatter + (0.5 * shrink + 1e-6) * level * np.eye(len(scatter))
    lower = linalg.cholesky(shrunk, lower=True)
    whitening: Floats = linalg.solve_triangular(lower, np.eye(len(scatter)), lower=True).T
    return whitening


@dataclass(frozen=True, eq=False)
class _BagSearch:
    learnt: BagMap
    allowed: Ints
    schedule: Schedule
    batch: int
    device: torch.device

    def best_share(self, rows: Rows, tokens: Sequence[Sequence[int]]) -> float:
        """How many of the mean number of words to answer: what gives own held-out texts the best F1."""
        weights = self._weights(rows, batch=_ROWS_AT_ONCE)

        def f1(share: float) -> float:
            right = said = asked = 0
            for (mass, ids), truth in zip(weights, tokens, strict=True):
                bag = bag_of(mass, ids, count=self._count(share))
                right += (Counter(bag) & Counter(truth)).total()
                said, asked = said + len(bag), asked + len(truth)
            return 2 * right / max(1, said + asked)

        return max(_SHARES, key=f1)

    def bags(self, rows: Rows, share: float) -> tuple[tuple[int, ...], ...]:
        fine = np.isfinite(rows).all(axis=1) & np.any(rows, axis=1)
        weights = iter(self._weights(rows[fine]))
        return tuple(bag_of(*next(weights), count=self._count(share)) if good else () for good in fine)

    def _count(self, share: float) -> int:
        return max(1, round(share * self.learnt.length))

    def _weights(self, rows: Rows, batch: int | None = None) -> list[tuple[Floats, Ints]]:
        """Weights and the candidates they belong to, heaviest first or not, of each row."""
        queries, top, size = self.learnt.queries(rows), self._shortlists(rows), batch or self.batch
        found: list[tuple[Floats, Ints]] = []
        for start in range(0, len(rows), size):
            ids = top[start : start + size]
            mass = self._descend(queries[start : start + size], self.learnt.vectors[ids], self.learnt.log_prior[ids])
            found.extend(zip(mass, ids, strict=True))
        return found

    def _shortlists(self, rows: Rows) -> Ints:
        """The tokens that explain each row best as one word of a text of average length, (n, few)."""
        size, vectors = 1 / max(1.0, self.learnt.length), self.learnt.vectors
        few = min(_SHORTLIST, len(self.allowed))
        own = (self.learnt.log_prior - 0.5 * size**2 * np.einsum("vd,vd->v", vectors, vectors))[self.allowed]
        queries, found = (size * self.learnt.queries(rows)).astype(np.float32), []
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            scores = (queries[start : start + _ROWS_AT_ONCE] @ vectors.T)[:, self.allowed] + own.astype(np.float32)
            found.append(np.argpartition(-scores, few - 1, axis=1)[:, :few])
        return self.allowed[np.concatenate(found)] if found else np.zeros((0, few), dtype=np.int64)

    def _descend(self, queries: Floats, vectors: Rows, log_prior: Floats) -> Floats:
        """Weights over each row's candidates: ``softmax(z)`` is its bag, one row a text."""
        seen, mixed, prior = (
            torch.from_numpy(x.astype(np.float32)).to(self.device) for x in (queries, vectors, log_prior)
        )
        problem = Problem(
            seen=seen.unsqueeze(1),
            weight=torch.ones(len(seen), 1, device=self.device),
            vectors=mixed,
            log_prior=prior,
            text=torch.arange(len(seen), device=self.device),
            forward=lambda rows: rows.unsqueeze(1),
            noise=1.0,
        )
        z = prior.clone().requires_grad_(True)
        optimiser = torch.optim.Adam([z], lr=self.schedule.learning_rate)
        for _ in range(self.schedule.steps):
            shares = torch.softmax(z, dim=1)
            value = problem.objective(problem.mixed(shares), self._fit(shares, prior)).sum()
            (z.grad,) = torch.autograd.grad(value, z)
            optimiser.step()
        found: Floats = torch.softmax(z.detach(), dim=1).double().cpu().numpy()
        return found

    def _fit(self, shares: Tensor, prior: Tensor) -> Tensor:
        """Log-likelihood of a bag of average length under the prior: -length · KL(shares ‖ prior)."""
        tiny = torch.finfo(shares.dtype).tiny
        return -self.learnt.length * (shares * (shares.clamp(min=tiny).log() - prior)).sum(dim=1)


def bag_of(mass: Floats, ids: Ints, *, count: int) -> tuple[int, ...]:
    """The ``count`` tokens of largest weight, heaviest first."""
    return tuple(int(t) for t in ids[np.argsort(-mass, kind="stable")[:count]])
