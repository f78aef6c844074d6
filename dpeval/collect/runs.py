"""From stored answers to the runs that measures take: truth joined by record id, one run for each seed."""

from __future__ import annotations

from dpeval.collect.gather import Trained, groups_of, is_member
from dpeval.jobs import Trial, as_attack, candidates_of, targets_of
from dpeval.measure.inversion import InversionRun
from dpeval.measure.membership import MembershipRun
from dpeval.measure.tokens import content_tokens
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.dependence import is_pooled
from dpeval.plugin import InversionAttack
from dpeval.types import Recovered, Scores
from dpeval.views import positions


def membership_runs(trained: Trained, trial: Trial) -> list[MembershipRun]:
    """Scores with the coins they should tell."""
    runs = []
    for job, result in trained.results(trial):
        if not isinstance(result, Scores):
            raise TypeError(f"{trial.attack.label}: expected scores, got {type(result).__name__}")
        audited = candidates_of(job, trial)
        at = positions(result.ids, audited.ids)
        runs.append(
            MembershipRun(audited.ids, result.values[at], is_member(job, audited.ids), groups_of(audited, audited.ids))
        )
    return runs


def inversion_runs(trained: Trained, trial: Trial, checkpoint: Checkpoint) -> list[InversionRun]:
    """Guessed tokens with the true ones; special tokens and padding do not count."""
    content = content_tokens(vocabulary(checkpoint), checkpoint.special_ids)
    bags, runs = answers_bags(trial, checkpoint), []
    for job, result in trained.results(trial):
        if not isinstance(result, Recovered):
            raise TypeError(f"{trial.attack.label}: expected recovered tokens, got {type(result).__name__}")
        targets = targets_of(job, trial)
        guessed = dict(zip(result.ids, result.tokens, strict=True))
        answers = tuple(guessed[key] for key in targets.ids)
        truth = tuple(
            true_tokens(tokens, checkpoint.max_length if bags else len(answer), checkpoint.special_ids)
            for tokens, answer in zip(checkpoint.tokens(targets), answers, strict=True)
        )
        never = checkpoint.special_ids
        special = tuple(sum(token in never for token in tokens) for tokens in checkpoint.tokens(targets))
        tables = None if result.ranked is None else dict(zip(result.ids, result.ranked, strict=True))
        ranked = None if tables is None else tuple(tables[key] for key in targets.ids)
        runs.append(
            InversionRun(targets.ids, answers, truth, content, never, targets.groups, not bags, special, ranked)
        )
    return runs


def answers_bags(trial: Trial, checkpoint: Checkpoint) -> bool:
    """Whether the answers of this trial are bags of tokens: of its attack always, or of a pooled release."""
    attack = as_attack(trial.attack)
    always = isinstance(attack, InversionAttack) and attack.answers_bags
    return always or (trial.tap is not None and is_pooled(checkpoint, trial.tap))


def auxiliary_tokens(trained: Trained, checkpoint: Checkpoint, rows: int | None) -> list[tuple[int, ...]]:
    """The tokens of the first seed's auxiliary texts, padded to ``rows`` where the release has a fixed length."""
    job = trained.reports[0].job
    return [
        true_tokens(tokens, rows or len(tokens), checkpoint.special_ids)
        for tokens in checkpoint.tokens(job.split.auxiliary)
    ]


def vocabulary(checkpoint: Checkpoint) -> list[str]:
    """The token of each id."""
    tokens: list[str] = checkpoint.tokenizer.convert_ids_to_tokens(list(range(checkpoint.vocab_size)))
    return [token or "" for token in tokens]


def true_tokens(tokens: list[int], rows: int, special: frozenset[int]) -> tuple[int, ...]:
    """The token behind each released row; ``-1`` for special tokens and padding.

    >>> true_tokens([101, 7, 102], 5, frozenset({0, 101, 102}))
    (-1, 7, -1, -1, -1)
    """
    padded = [*tokens[:rows], *([-1] * (rows - len(tokens)))]
    return tuple(-1 if token in special else token for token in padded)
