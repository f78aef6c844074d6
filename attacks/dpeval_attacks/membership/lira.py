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
from dpeval_attacks.membership.hierarchy import SHARE, SMALLEST, learnable, predict
from dpeval_attacks.membership.references import References, ask, check_shadows, masked_mean
from dpeval_attacks.membership.signals import signal_values

Mode: TypeAlias = Literal["online", "offline"]
Variance: TypeAlias = Literal["auto", "shared", "per-record"]

MANY = 32
"""Shadows outside from which the one-sided test gives each record a variance of its own (the paper's Fig. 9)."""


@dataclass(frozen=True, kw_only=True)
class LiRA(MembershipAttack):
    """An adversary that trains the defense itself, many times, with and without each candidate.

    It has the candidates with their labels, black-box access, and a population to train shadow releases on, with the
    very defense that the target used. For each candidate it looks at the log-odds of the true class among shadows that
    were trained on it and among those that were not, fits a normal distribution to each, and scores the candidate by
    the ratio of the two likelihoods of what the target answers (``online``). ``offline`` uses only the shadows that
    were not trained on the candidate, as an adversary must who meets the candidates after its shadows were trained.

    ``variance`` says how. ``shared`` and ``per-record`` are the paper's: one spread for all records, inside and outside
    apart, or each record's own; offline the score is how far above the shadows the target answers, in standard
    deviations, which orders the candidates as the paper's one-sided test does. ``auto``, the default, fits the same
    normal model by empirical Bayes (:mod:`.hierarchy`), which a few shadows need and many do not mind: means and
    spreads are drawn towards those of records of like difficulty, and what remains open widens the likelihood. Offline
    it learns from auxiliary records, on some of which its shadows were trained, what training adds to an answer; where
    no shadow was trained on any, it makes the one-sided test. ``queries`` asks a randomised release, target and shadows
    alike, so many times and averages the probabilities.
    """

    source: ClassVar[str] = (
        "Carlini et al. 2022, arXiv:2112.03570, Algorithm 1 and §VI; "
        "empirical Bayes after Smyth 2004, doi:10.2202/1544-6115.1027"
    )
    version: ClassVar[int] = 2

    shadows: int = 16
    mode: Mode = "online"
    variance: Variance = "auto"
    queries: int = 1

    def __post_init__(self) -> None:
        check_shadows(self.shadows)
        check_queries(self.queries)

    def score(self, view: PredictionView, candidates: Records, knowledge: Knowledge, ctx: Context) -> Scores:
        """One score per candidate, float64 and finite; ValueError for fewer than two classes or an unknown label."""
        shadows = ctx.shadows(self.shadows)
        mine = _LogOdds.of(ask(view, shadows, candidates, self.queries))
        if self.mode == "online":
            return Scores(candidates.ids, likelihood_ratio(mine.target, mine.shadows, mine.inside, self.variance))
        others = knowledge.auxiliary
        known = others.take(i for i, label in enumerate(others.labels) if label >= 0)
        if self.variance != "auto" or not len(known):
            return Scores(candidates.ids, height_above(mine.target, mine.shadows, mine.inside, self.variance))
        theirs = _LogOdds.of(ask(view, shadows, known, self.queries))
        return Scores(
            candidates.ids, transferred_ratio(mine.target, mine.shadows, mine.inside, theirs.shadows, theirs.inside)
        )


@dataclass(frozen=True, eq=False)
class _LogOdds:
    """Log-odds of the true class by the target ``(n,)`` and the shadows ``(m, n)``, and who knew the record."""

    target: Floats
    shadows: Floats
    inside: NDArray[np.bool_]

    @classmethod
    def of(cls, found: References) -> _LogOdds:
        """Read off the answers."""
        shadows = [signal_values("confidence", answer, found.labels) for answer in found.shadows]
        return cls(signal_values("confidence", found.target, found.labels), np.stack(shadows), found.inside)


def likelihood_ratio(target: Floats, shadows: Floats, inside: NDArray[np.bool_], variance: Variance = "auto") -> Floats:
    """``log p(φ | in) - log p(φ | out)`` of each record, shape ``(n,)``, finite.

    With ``shared`` and ``per-record`` p is normal with the mean and spread of the record's own shadows: the paper's
    formula. A record that no shadow was trained on (or every shadow) takes its missing mean from the other side, moved
    by the mean shift of the other records. With ``auto`` p is what :func:`.hierarchy.predict` expects; fewer than ten
    records with shadows on both sides are too few for that, and take the shared spread.

    Args:
        target: log-odds φ by the target, shape ``(n,)``, float64.
        shadows: log-odds by m shadows, shape ``(m, n)``.
        inside: which shadow was trained on which record, shape ``(m, n)``.
    """
    if variance == "auto" and learnable(inside, ~inside):
        return predict(shadows, inside, ~inside).ratio(target)
    means = _means(shadows, inside)
    ins = _spread(shadows, inside, means[0], per_record=variance == "per-record")
    outs = _spread(shadows, ~inside, means[1], per_record=variance == "per-record")
    found: Floats = _log_normal(target, means[0], ins) - _log_normal(target, means[1], outs)
    return found


def transferred_ratio(
    target: Floats,
    shadows: Floats,
    inside: NDArray[np.bool_],
    known: Floats,
    known_inside: NDArray[np.bool_],
) -> Floats:
    """The likelihood ratio of records of which only the answers outside are used, shape ``(n,)``, finite.

    What training on a record does to its answer is learnt from other records, ``known`` by the same shadows ``(m, k)``
    and ``known_inside`` ``(m, k)``; where fewer than ten of these have answers on both sides, :func:`height_above`.
    """
    if not learnable(known_inside, ~known_inside):
        return height_above(target, shadows, inside)
    ins = np.concatenate([np.zeros_like(inside), known_inside], axis=1)
    outs = np.concatenate([~inside, ~known_inside], axis=1)
    expected = predict(np.concatenate([shadows, known], axis=1), ins, outs)
    return expected.first(len(target)).ratio(target)


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
    return bool((~inside).sum(axis=0).min() >= MANY)


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
