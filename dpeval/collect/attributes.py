"""Attribute attacks: inferred values with the true ones, beside what can be told without any embedding.

The baselines, fitted on the adversary's auxiliary records, know the task label and the length of each text, and the
covariates of the ``[data]`` table where there are any; the ceiling reads the text itself. Attacks are given neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.linear_model import LogisticRegression

from dpeval.collect.gather import Gathered, Trained
from dpeval.jobs import Job, Trial, targets_of
from dpeval.measure.attribute import AttributeRun
from dpeval.measure.textfeatures import Reader, TextCounts, count_texts, fit_reader
from dpeval.measure.textfree import FOLDS, deal, fit_guess, learnable
from dpeval.types import Covariate, Floats, Inferred, Ints, Records
from dpeval.views import positions

LABEL_AND_LENGTH = "label and length"
"""The baseline that knows the task label and the number of words of each text, and nothing else of it."""
STRENGTHS = (1.0, 10.0, 100.0)
"""Inverse penalties that the reader of the raw text chooses from; word counts need weak ones."""


def attribute_runs(gathered: Gathered, trained: Trained, trial: Trial) -> list[AttributeRun]:
    """What an attack inferred, for each seed, with baselines and the raw-text ceiling."""
    runs = []
    for job, result in trained.results(trial):
        if not isinstance(result, Inferred):
            raise TypeError(f"{trial.attack.label}: expected attribute scores, got {type(result).__name__}")
        targets = targets_of(job, trial)
        known = _known(gathered, job, targets)
        runs.append(
            AttributeRun(
                targets.ids,
                result.scores[positions(result.ids, targets.ids)].argmax(axis=1),
                np.array(targets.attributes, dtype=np.int64),
                job.num_attribute_values,
                targets.groups,
                baselines=known.baselines,
                by_frequency=known.by_frequency,
                prior=known.prior,
                ceiling=known.ceiling,
            )
        )
    return runs


def _known(gathered: Gathered, job: Job, targets: Records) -> AttributeKnowledge:
    """Depends on data and seed alone: worked out once for all defenses, attacks and taps."""
    key = (job.data, job.seed, targets.ids)
    if key not in gathered.known:
        dataset = gathered.dataset(job.data)
        gathered.known[key] = attribute_knowledge(
            job, targets, *(Columns(dataset.records.ids, dataset.covariates),) if dataset else ()
        )
    found = gathered.known[key]
    assert isinstance(found, AttributeKnowledge)  # noqa: S101 - told to the type checker; nobody else writes there
    return found


@dataclass(frozen=True, eq=False)
class Columns:
    """Covariates by record id."""

    ids: tuple[str, ...] = ()
    covariates: tuple[Covariate, ...] = ()

    def of(self, records: Records) -> list[Covariate]:
        """The covariates of ``records``, in their order."""
        if not self.covariates:
            return []
        at = positions(self.ids, records.ids)
        return [Covariate(one.name, tuple(one.values[i] for i in at)) for one in self.covariates]


@dataclass(frozen=True, eq=False)
class AttributeKnowledge:
    """What auxiliary records alone give: the share of each value, and what could be answered without an embedding."""

    prior: Floats
    ceiling: Ints | None
    """What a reader of the raw text would answer; None where the auxiliary records have one value only."""
    baselines: Mapping[str, Ints] = field(default_factory=dict)
    """What is given away without any embedding, each value counting alike."""
    by_frequency: Mapping[str, Ints] = field(default_factory=dict)
    """The same baselines where they may prefer common values, for overall accuracy."""


def attribute_knowledge(job: Job, targets: Records, columns: Columns = Columns()) -> AttributeKnowledge:
    """Fitted on the auxiliary records that have the attribute."""
    own = job.split.auxiliary.take(i for i, a in enumerate(job.split.auxiliary.attributes) if a is not None)
    values = np.array(own.attributes, dtype=np.int64)
    prior = np.bincount(values, minlength=job.num_attribute_values) / max(1, len(values))
    kept = np.flatnonzero(learnable(values))
    if len(np.unique(values[kept])) < 2:
        return AttributeKnowledge(prior, None)
    own, values = own.take(kept.tolist()), values[kept]
    model = LogisticRegression(class_weight="balanced", max_iter=1000).fit(_label_and_length(own, job), values)
    scores = model.predict_log_proba(_label_and_length(targets, job))
    common = np.log(prior[model.classes_])
    balanced = {LABEL_AND_LENGTH: _best(model.classes_, scores)}
    frequent = {LABEL_AND_LENGTH: _best(model.classes_, scores + common)}
    if columns.covariates:
        name = f"{LABEL_AND_LENGTH}, {', '.join(one.name for one in columns.covariates)}"
        known, asked = (_covariates(records, columns) for records in (own, targets))
        guess = fit_guess(known, values, np.array(own.groups))
        balanced[name], frequent[name] = guess.balanced(asked), guess.plain(asked)
    return AttributeKnowledge(prior, _ceiling(own, values, targets, job.num_attribute_values), balanced, frequent)


def _best(classes: Ints, scores: Floats) -> Ints:
    found: Ints = np.asarray(classes, dtype=np.int64)[scores.argmax(axis=1)]
    return found


def _label_and_length(records: Records, job: Job) -> Floats:
    """A column for each task label, and the logarithm of the number of words."""
    known = np.array(records.labels)[:, None] == np.arange(job.num_labels)
    return np.hstack([known.astype(np.float64), np.array(_lengths(records), dtype=np.float64)[:, None]])


def _lengths(records: Records) -> list[float]:
    several = [(text,) if isinstance(text, str) else text for text in records.texts]
    return [float(np.log1p(sum(len(part.split()) for part in parts))) for parts in several]


def _covariates(records: Records, columns: Columns) -> Sequence[Covariate]:
    label = Covariate("label", tuple(map(str, records.labels)))
    return [label, Covariate("length", tuple(_lengths(records))), *columns.of(records)]


def _ceiling(own: Records, values: Ints, targets: Records, classes: int) -> Ints:
    """Answers of a classifier on word and character counts of the clear texts, values weighing alike."""
    counts = count_texts(own.texts + targets.texts)
    known, asked = counts.take(np.arange(len(own))), counts.take(np.arange(len(own), len(own) + len(targets)))
    folds = deal(values, np.array(own.groups))
    hits = [_held_out(known, values, folds, strength) for strength in STRENGTHS]
    strength = STRENGTHS[int(np.argmax(np.round(hits, 9)))]
    found: Ints = _reader(known, values, strength, classes).scores(asked).argmax(axis=1)
    return found


def _held_out(counts: TextCounts, values: Ints, folds: Ints, strength: float) -> float:
    """Balanced accuracy on held-out records, pooled over the folds."""
    right = np.zeros(len(values))
    for fold in range(FOLDS):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        inside = inside[learnable(values[inside])]
        if len(outside) and len(np.unique(values[inside])) > 1:
            reader = _reader(counts.take(inside), values[inside], strength, int(values.max()) + 1)
            right[outside] = reader.scores(counts.take(outside)).argmax(axis=1) == values[outside]
    return float(np.mean([right[values == value].mean() for value in np.unique(values)]))


def _reader(counts: TextCounts, values: Ints, strength: float, classes: int) -> Reader:
    return fit_reader(counts, values, classes, balanced=True, strength=strength)
