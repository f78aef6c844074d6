"""From stored answers to the runs that measures take: truth joined by record id, one run for each seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from sklearn.linear_model import LogisticRegression

from dpeval.collect.gather import Trained, groups_of, is_member
from dpeval.jobs import Job, Trial, as_attack, candidates_of, targets_of
from dpeval.measure.attribute import AttributeRun
from dpeval.measure.inversion import InversionRun
from dpeval.measure.membership import MembershipRun
from dpeval.measure.textfeatures import count_texts, fit_reader
from dpeval.measure.tokens import content_tokens
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.dependence import is_pooled
from dpeval.plugin import InversionAttack
from dpeval.types import Floats, Inferred, Ints, Records, Recovered, Scores
from dpeval.views import positions

COVARIATES = "label and length"
"""The baseline that knows the task label and the number of words of each text, and nothing else of it."""


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
        runs.append(InversionRun(targets.ids, answers, truth, content, never, targets.groups, not bags, special))
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


def attribute_runs(trained: Trained, trial: Trial) -> list[AttributeRun]:
    """Inferred attribute values with the true ones, the shares in auxiliary data, and the raw-text ceiling."""
    runs = []
    for job, result in trained.results(trial):
        if not isinstance(result, Inferred):
            raise TypeError(f"{trial.attack.label}: expected attribute scores, got {type(result).__name__}")
        targets = targets_of(job, trial)
        at = positions(result.ids, targets.ids)
        known = attribute_knowledge(job, targets)
        runs.append(
            AttributeRun(
                targets.ids,
                result.scores[at].argmax(axis=1),
                np.array(targets.attributes, dtype=np.int64),
                job.num_attribute_values,
                targets.groups,
                baselines=known.baselines,
                prior=known.prior,
                ceiling=known.ceiling,
            )
        )
    return runs


@dataclass(frozen=True, eq=False)
class AttributeKnowledge:
    """What auxiliary texts alone give: the share of each value, and what a reader of the raw text would answer."""

    prior: Floats
    ceiling: Ints | None
    baselines: Mapping[str, Ints] = field(default_factory=dict)
    """What the task label and the length of a text give away, which no embedding is needed for."""


def attribute_knowledge(job: Job, targets: Records) -> AttributeKnowledge:
    """Fitted on the auxiliary records that have the attribute; no ceiling where they have one value only."""
    pairs = [
        (t, a) for t, a in zip(job.split.auxiliary.texts, job.split.auxiliary.attributes, strict=True) if a is not None
    ]
    values = np.array([a for _, a in pairs], dtype=np.int64)
    prior = np.bincount(values, minlength=job.num_attribute_values) / max(1, len(values))
    if len(np.unique(values)) < 2:
        return AttributeKnowledge(prior, None)
    counts = count_texts([t for t, _ in pairs] + list(targets.texts))
    reader = fit_reader(counts.take(np.arange(len(pairs))), values, job.num_attribute_values)
    scores = reader.scores(counts.take(np.arange(len(pairs), len(pairs) + len(targets))))
    return AttributeKnowledge(prior, scores.argmax(axis=1), {COVARIATES: _from_covariates(job, targets)})


def _from_covariates(job: Job, targets: Records) -> Ints:
    """The value that task label and text length make likeliest, values weighing alike however rare."""
    own = job.split.auxiliary.take(i for i, a in enumerate(job.split.auxiliary.attributes) if a is not None)
    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    model.fit(_covariates(own, job.num_labels), np.array(own.attributes, dtype=np.int64))
    found: Ints = model.predict(_covariates(targets, job.num_labels)).astype(np.int64)
    return found


def _covariates(records: Records, labels: int) -> Floats:
    """A column for each task label, and the logarithm of the number of words."""
    known = np.array(records.labels)[:, None] == np.arange(labels)
    words = [
        len(text.split()) if isinstance(text, str) else sum(len(t.split()) for t in text) for text in records.texts
    ]
    return np.hstack([known.astype(np.float64), np.log1p(np.array(words, dtype=np.float64))[:, None]])
