"""Accuracy of a trained defense, with its interval over seeds and records, and the majority answer beside it."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dpeval.collect.gather import Answered, Trained
from dpeval.measure.influence import Part, ratio_part
from dpeval.measure.intervals import estimate
from dpeval.types import Measured, Records, Undefined


def accuracy(trained: Trained, stage: str, level: float) -> Measured:
    """Accuracy on the records of a stage (``test`` or ``train``), over the seeds."""
    parts: list[Part] = []
    for _, folder in trained.folders(stage):
        answered = Answered.read(folder)
        if not answered.known_ids:
            return Undefined("no record with a known label")
        parts.append(ratio_part(answered.correct, np.ones(len(answered.known_ids)), answered.known_ids))
    if not parts:
        failure = trained.failure("release", stage)
        return Undefined(f"not measured: {failure.message if failure else 'nothing was trained'}")
    return estimate(parts, level=level)


def majority_accuracy(train: Records, test: Records) -> float:
    """Accuracy on ``test`` of always answering the most frequent class of ``train``."""
    majority = Counter(train.labels).most_common(1)[0][0]
    known = [label for label in test.labels if label >= 0]
    return sum(label == majority for label in known) / max(1, len(known))
