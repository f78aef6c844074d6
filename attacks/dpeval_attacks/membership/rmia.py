"""The robust membership attack: is this record's gain from training larger than that of random other people's records?

>>> gain = np.array([0.0, 1.0, 2.0])
>>> share_beaten(gain, np.array([0.5, 1.5]), gamma=1.0).round(3).tolist()
[0.04, 0.5, 0.96]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from dpeval.plugin import Context, Knowledge, MembershipAttack, PredictionView
from dpeval.types import Floats, Records, Scores
from dpeval_attacks.draws import check_queries
from dpeval_attacks.membership.lira import Mode
from dpeval_attacks.membership.references import FEWEST, References, ask, auc, check_shadows
from dpeval_attacks.membership.signals import FLOOR, signal_values

GRID = tuple(i / 10 for i in range(11))
TEMPERATURES = (1.0, 2.0, 4.0, 8.0)
UNTRIED = (2.0, 0.5)
"""Temperature and ``a`` of an adversary with one pair of shadows, too few to attack one with another."""
TRIED = 4
"""How many shadows the adversary attacks itself to choose temperature and ``a``."""


@dataclass(frozen=True, kw_only=True)
class RMIA(MembershipAttack):
    """An adversary with a few models of its own and a pile of other people's records to compare with.

    It has the candidates with their labels, black-box access, shadow releases of the same defense, and auxiliary
    records z of the same population. Training on a record raises the probability p(x|θ) of its true label above p(x),
    the average over models. The score is the share of records z whose ratio p(z|θ) / p(z) the candidate's ratio beats
    ``gamma`` times over. ``online`` averages p(x) over shadows that were trained on x and shadows that were not;
    ``offline`` has only the latter and takes the others' average as ``a p_out + (1 - a)``.

    A model that is sure of what it has seen and of much that it has not leaves nothing to gain near a probability of
    one, and all such records look alike. So the logits are divided by ``temperature`` first, as the paper's own signal
    does with 2; 1 takes the probabilities as they are. Without ``temperature`` or ``a`` it is chosen, of 1, 2, 4 and 8
    and from 0 to 1 in tenths, as what works best when the adversary attacks its own shadows, whose training records it
    knows. ``queries`` asks a randomised release so many times and averages the probabilities.
    """

    source: ClassVar[str] = "Zarifzadeh, Liu and Shokri 2024, arXiv:2312.03262, eqs. 3 and 4, and Appendix B.2.2"
    version: ClassVar[int] = 2

    shadows: int = 16
    mode: Mode = "online"
    gamma: float = 1.0
    a: float | None = None
    queries: int = 1
    temperature: float | None = None

    def __post_init__(self) -> None:
        check_shadows(self.shadows)
        check_queries(self.queries)
        if not self.gamma > 0:
            raise ValueError(f"gamma: expected a ratio above 0, got {self.gamma}")
        if self.a is not None and not 0 <= self.a <= 1:
            raise ValueError(f"a: expected a number from 0 to 1, got {self.a}")
        if self.temperature is not None and not self.temperature > 0:
            raise ValueError(f"temperature: expected a number above 0, got {self.temperature}")

    def score(self, view: PredictionView, candidates: Records, knowledge: Knowledge, ctx: Context) -> Scores:
        """One score per candidate, float64, from 0 to 1; ValueError for fewer than two classes or an unknown label."""
        shadows, inside = ctx.shadows(self.shadows), self.mode == "online"
        found = ask(view, shadows, candidates, self.queries)
        others = ask(view, shadows, _labelled(knowledge.auxiliary), self.queries)
        temperature, a = best_settings(
            {t: _true_class(found, t).shadows for t in ([self.temperature] if self.temperature else TEMPERATURES)},
            found.inside,
            GRID if self.a is None else (self.a,),
            use_inside=inside,
        )
        both = (_true_class(one, temperature) for one in (found, others))
        gains = [one.target - log_average(one.shadows, one.inside, a, use_inside=inside) for one in both]
        return Scores(candidates.ids, share_beaten(gains[0], gains[1], self.gamma))


@dataclass(frozen=True, eq=False)
class _TrueClass:
    """Log-probability of the true class by the target ``(n,)`` and the shadows ``(m, n)``, and who knew the record."""

    target: Floats
    shadows: Floats
    inside: NDArray[np.bool_]


def log_average(shadows: Floats, inside: NDArray[np.bool_], a: float, *, use_inside: bool) -> Floats:
    """``log p(x)``, shape ``(n,)``: half the average over shadows trained on x and half that over the others.

    Log-probabilities of m shadows come in as ``shadows`` ``(m, n)``. Without ``use_inside``, and for a record on which
    no shadow was trained, the average inside is taken as ``a p_out + 1 - a``. A record on which every shadow was
    trained has the average inside alone, or, without ``use_inside``, nothing to gain: its p(x) is one.
    """
    outs = _log_mean(shadows, ~inside)
    assumed = np.log(a * np.exp(outs) + 1 - a) if a < 1 else outs
    ins = np.where(inside.any(axis=0), _log_mean(shadows, inside), assumed) if use_inside else assumed
    if use_inside:
        outs = np.where((~inside).any(axis=0), outs, ins)
    average: Floats = np.logaddexp(outs, ins) - np.log(2)
    return average


def best_settings(
    shadows: Mapping[float, Floats], inside: NDArray[np.bool_], grid: Sequence[float], *, use_inside: bool
) -> tuple[float, float]:
    """The temperature and ``a`` with which the attack does best on the first shadows, each attacked with other pairs.

    Its own pair is left out: the other one was trained on just what it was not, which no target's shadows are. The
    offline ``a`` is chosen with the offline attack, as in the paper, also where an online one uses it for records
    without shadows inside; the least temperature and ``a`` of equally good ones are taken.

    Args:
        shadows: for each temperature, log-probabilities of the true class, shape ``(m, n)``.
        grid: the values of ``a`` to choose from.
    """
    if len(inside) < 2 * FEWEST:
        temperature, a = UNTRIED
        return temperature if temperature in shadows else min(shadows), a if len(grid) > 1 else grid[0]
    offline = {t: [_on_own(values, inside, a, use_inside=False) for a in grid] for t, values in shadows.items()}
    best = {t: grid[int(np.argmax(found))] for t, found in offline.items()}
    if not use_inside:
        temperature = max(best, key=lambda t: max(offline[t]))
    else:
        temperature = max(best, key=lambda t: _on_own(shadows[t], inside, best[t], use_inside=True))
    return temperature, best[temperature]


def _on_own(shadows: Floats, inside: NDArray[np.bool_], a: float, *, use_inside: bool) -> float:
    """The summed AUC of the attack on the adversary's own first shadows."""
    found = 0.0
    for i in range(min(TRIED, len(shadows))):
        rest = np.arange(len(shadows)) // 2 != i // 2
        usable = (~inside[rest]).any(axis=0)
        gain = shadows[i] - log_average(shadows[rest], inside[rest], a, use_inside=use_inside)
        found += auc(gain[usable], inside[i][usable])
    return found


def share_beaten(gains: Floats, others: Floats, gamma: float) -> Floats:
    """``P_z[gain(x) - gain(z) >= log gamma]`` of each record, shape ``(n,)``.

    Records that beat equally many z are ordered by their gain, by less than one z could make: ties there come from the
    number of z alone, and would hide what happens at a low false positive rate.
    """
    level = gains - np.log(gamma)
    beaten = np.searchsorted(np.sort(others), level, side="right")
    scale = max(float(np.std(others)), 1e-12)
    within = expit((level - float(np.median(others))) / scale)
    share: Floats = (beaten + within) / (len(others) + 1)
    return share


def _log_mean(values: Floats, mask: NDArray[np.bool_]) -> Floats:
    """The log of the mean probability where ``mask`` holds, shape ``(n,)``; 0 where it holds nowhere."""
    count = mask.sum(axis=0)
    mean: Floats = logsumexp(np.where(mask, values, -np.inf), axis=0) - np.log(np.maximum(count, 1))
    return np.where(count, mean, 0.0)


def softened(log_probs: Floats, temperature: float) -> Floats:
    """Log-probabilities with the logits divided by ``temperature``, shape ``(…, classes)``."""
    if temperature == 1:
        return log_probs
    divided = np.maximum(log_probs, FLOOR) / temperature
    found: Floats = divided - logsumexp(divided, axis=-1, keepdims=True)
    return found


def _true_class(found: References, temperature: float) -> _TrueClass:
    def read(log_probs: Floats) -> Floats:
        return signal_values("loss", softened(log_probs, temperature), found.labels)

    return _TrueClass(read(found.target), np.stack([read(answer) for answer in found.shadows]), found.inside)


def _labelled(records: Records) -> Records:
    """The records with a known label: only they have a true class."""
    kept = records.take(i for i, label in enumerate(records.labels) if label >= 0)
    if not len(kept):
        raise ValueError("RMIA compares with auxiliary records whose label is known, got none; raise [split] auxiliary")
    return kept
