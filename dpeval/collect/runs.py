"""From stored answers to the runs that measures take: truth joined by record id, one run for each seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpeval.collect.gather import Gathered, Trained, by_id, groups_of, is_member
from dpeval.jobs import Job, Trial, targets_of
from dpeval.measure.attribute import AttributeRun
from dpeval.measure.inversion import InversionRun
from dpeval.measure.membership import MembershipRun
from dpeval.models.checkpoint import Checkpoint
from dpeval.types import Inferred, Recovered, Records, Scores


@dataclass(frozen=True, eq=False)
class InversionRuns:
    """Runs of an inversion attack, on all targets, and on members and non-members apart."""

    all: list[InversionRun]
    members: list[InversionRun]
    nonmembers: list[InversionRun]


def membership_runs(trained: Trained, trial: Trial) -> list[MembershipRun]:
    """Scores with the coins they should tell."""
    runs = []
    for job, result in trained.results(trial):
        if not isinstance(result, Scores):
            raise TypeError(f"{trial.attack.label}: expected scores, got {type(result).__name__}")
        audited = job.split.members + job.split.nonmembers
        at = by_id(result.ids, audited.ids)
        runs.append(MembershipRun(audited.ids, result.values[at], is_member(job, audited.ids), groups_of(audited, audited.ids)))
    return runs


def inversion_runs(gathered: Gathered, trained: Trained, trial: Trial, model: int) -> InversionRuns:
    """Guessed tokens with the true ones; special tokens and padding do not count."""
    checkpoint = gathered.checkpoint(model)
    found = InversionRuns([], [], [])
    for job, result in trained.results(trial):
        if not isinstance(result, Recovered) or checkpoint is None:
            raise TypeError(f"{trial.attack.label}: expected recovered tokens, got {type(result).__name__}")
        targets = targets_of(job, trial)
        guessed = dict(zip(result.ids, result.tokens, strict=True))
        for wanted, into in ((None, found.all), (True, found.members), (False, found.nonmembers)):
            keep = targets if wanted is None else _side(job, targets, member=wanted)
            if len(keep):
                into.append(_inversion_run(checkpoint, keep, guessed))
    return found


def _inversion_run(checkpoint: Checkpoint, targets: Records, guessed: dict[str, tuple[int, ...]]) -> InversionRun:
    answers = tuple(guessed[key] for key in targets.ids)
    truth = tuple(
        true_tokens(tokens, len(answer), checkpoint.special_ids)
        for tokens, answer in zip(checkpoint.tokens(targets), answers, strict=True)
    )
    return InversionRun(targets.ids, answers, truth, groups_of(targets, targets.ids))


def true_tokens(tokens: list[int], rows: int, special: frozenset[int]) -> tuple[int, ...]:
    """The token behind each released row; ``-1`` for special tokens and padding.

    >>> true_tokens([101, 7, 102], 5, frozenset({0, 101, 102}))
    (-1, 7, -1, -1, -1)
    """
    padded = [*tokens[:rows], *([-1] * (rows - len(tokens)))]
    return tuple(-1 if token in special else token for token in padded)


def attribute_runs(trained: Trained, trial: Trial) -> list[AttributeRun]:
    """Scores of each attribute value with the true value."""
    runs = []
    for job, result in trained.results(trial):
        if not isinstance(result, Inferred):
            raise TypeError(f"{trial.attack.label}: expected attribute scores, got {type(result).__name__}")
        targets = targets_of(job, trial)
        truth = np.array([-1 if value is None else value for value in targets.attributes], dtype=np.int64)
        at = by_id(result.ids, targets.ids)
        runs.append(AttributeRun(targets.ids, result.scores[at], truth, groups_of(targets, targets.ids)))
    return runs


def _side(job: Job, targets: Records, *, member: bool) -> Records:
    coins = is_member(job, targets.ids)
    return targets.take(i for i, coin in enumerate(coins) if bool(coin) is member)
