"""The likelihood-ratio attack: how much likelier is this answer from models that saw the record than from the others?

>>> rng = np.random.default_rng(0)
>>> inside = rng.random((16, 400)) < 0.5
>>> hardness = rng.normal(0, 3, 400)
>>> answers = hardness + 2 * inside + rng.normal(size=(16, 400))
>>> member = rng.random(400) < 0.5
>>> target = hardness + 2 * member + rng.normal(size=400)
>>> found = likelihood_ratio(target, answers, inside)
>>> bool(found[member].mean() > 1 > -1 > found[~member].mean())
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpeval.plugin import Context, Knowledge, MembershipAttack, PredictionView
from dpeval.types import Floats, Records, Scores
from dpeval_attacks.draws import check_queries
from dpeval_attacks.membership.references import ask, check_shadows, masked_mean
from dpeval_attacks.membership.signals import signal_values

Mode: TypeAlias = Literal["online", "offline"]
Variance: TypeAlias = Literal["auto", "shared", "per-record"]

MANY = 32
"""Shadows inside, and outside, from which each record gets a variance of its own (64 in all in the paper's Fig. 9)."""
SMALLEST = 1e-6
"""The least spread of log-odds that is believed: answers are computed in single precision."""
SHARE = 1e-2
"""The least spread of one record, as a share of the spread of all: a few equal answers are chance, not certainty."""


@dataclass(frozen=True, kw_only=True)
class LiRA(MembershipAttack):
    """An adversary that trains the defense itself, many times, with and without each candidate.

    It has the candidates with their labels, black-box access, and a population to train shadow releases on, with the
    very defense that the target used. For each candidate it looks at the log-odds of the true class among shadows that
    were trained on it and among those that were not, fits a normal distribution to each, and scores the candidate by
    the ratio of the two likelihoods of what the target answers (``online``). ``offline`` uses only the shadows that
    were not trained on the candidate, as an adversary must who meets the candidates after its shadows were trained:
    the score is how far above those the target answers, in standard deviations, which orders the candidates as the
    one-sided test of the paper does.

    ``variance``: ``shared`` is one spread for all records, inside and outside apart; ``per-record`` fits each record's
    own; ``auto`` takes the latter where every record has at least 32 shadows on either side. ``queries`` asks a
    randomised release, target and shadows alike, so many times and averages the probabilities.
    """

    source: ClassVar[str] = "Carlini et al. 2022, arXiv:2112.03570, Algorithm 1 and §VI"

    shadows: int = 16
    mode: Mode = "online"
    variance: Variance = "auto"
    queries: int = 1

    def __post_init__(self) -> None:
        check_shadows(self.shadows)
        check_queries(self.queries)

    def score(self, view: PredictionView, candidates: Records, knowledge: Knowledge, ctx: Context) -> Scores:
        """One score per candidate, float64 and finite; ValueError for fewer than two classes or an unknown label."""
        del knowledge
        found = ask(view, ctx.shadows(self.shadows), candidates, self.queries)
        target = signal_values("confidence", found.target, found.labels)
        shadows = np.stack([signal_values("confidence", answer, found.labels) for answer in found.shadows])
        test = likelihood_ratio if self.mode == "online" else height_above
        return Scores(candidates.ids, test(target, shadows, found.inside, self.variance))


def likelihood_ratio(target: Floats, shadows: Floats, inside: NDArray[np.bool_], variance: Variance = "auto") -> Floats:
    """``log N(φ; μ_in, σ_in) - log N(φ; μ_out, σ_out)`` of each record, shape ``(n,)``, finite.

    Args:
        target: log-odds φ by the target, shape ``(n,)``, float64.
        shadows: log-odds by m shadows, shape ``(m, n)``.
        inside: which shadow was trained on which record, shape ``(m, n)``. A record that no shadow was trained on (or
            every shadow) takes its missing mean from the other side, moved by the mean shift of the other records.
    """
    means = _means(shadows, inside)
    per_record = _per_record(inside, variance)
    ins = _spread(shadows, inside, means[0], per_record=per_record)
    outs = _spread(shadows, ~inside, means[1], per_record=per_record)
    found: Floats = _log_normal(target, means[0], ins) - _log_normal(target, means[1], outs)
    return found


def height_above(target: Floats, shadows: Floats, inside: NDArray[np.bool_], variance: Variance = "auto") -> Floats:
    """``(φ - μ_out) / σ_out`` of each record, shape ``(n,)``: monotone in Pr[N(μ_out, σ_out) < φ], and without ties."""
    _, outside = _means(shadows, inside)
    spread = _spread(shadows, ~inside, outside, per_record=_per_record(inside, variance))
    height: Floats = (target - outside) / spread
    return height


def _means(shadows: Floats, inside: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    ins, outs = masked_mean(shadows, inside), masked_mean(shadows, ~inside)
    known = ~np.isnan(ins) & ~np.isnan(outs)
    shift = float((ins[known] - outs[known]).mean()) if known.any() else 0.0
    return np.where(np.isnan(ins), outs + shift, ins), np.where(np.isnan(outs), ins - shift, outs)


def _per_record(inside: NDArray[np.bool_], variance: Variance) -> bool:
    if variance != "auto":
        return variance == "per-record"
    return bool(min(inside.sum(axis=0).min(), (~inside).sum(axis=0).min()) >= MANY)


def _spread(shadows: Floats, mask: NDArray[np.bool_], mean: Floats, *, per_record: bool) -> Floats:
    """The standard deviation around each record's own mean, shape ``(n,)``: of each record, or one for all."""
    squares = np.where(mask, np.square(shadows - mean), 0.0).sum(axis=0)
    freedom = np.maximum(mask.sum(axis=0) - 1, 0)
    pooled = max(float(np.sqrt(squares.sum() / max(1, freedom.sum()))), SMALLEST)
    if not per_record:
        return np.full(len(mean), pooled)
    own = np.sqrt(squares / np.maximum(freedom, 1))
    return np.where(freedom > 0, np.maximum(own, SHARE * pooled), pooled)


def _log_normal(x: Floats, mean: Floats, spread: Floats) -> Floats:
    """The normal log-density up to a constant."""
    density: Floats = -np.log(spread) - 0.5 * np.square((x - mean) / spread)
    return density
