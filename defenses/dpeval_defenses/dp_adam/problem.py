"""What trains and its loss: one loss for each text, from the whole classifier or from kept outputs of a frozen encoder.

>>> from pathlib import Path
>>> import tempfile
>>> from dpeval.tiny import tiny_checkpoint, tiny_dataset
>>> checkpoint = tiny_checkpoint(Path(tempfile.mkdtemp()))
>>> task = Task(tiny_dataset().records, num_labels=2, checkpoint=checkpoint)
>>> loss = text_loss(checkpoint.build(2, seed=0), task, torch.device("cpu"))
>>> tuple(loss(np.arange(4)).shape)
(4,)
"""

from __future__ import annotations

import numpy as np
import torch

from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import to_device
from dpeval.models.fit import cross_entropy
from dpeval.plugin import Task
from dpeval.types import Ints, Records
from dpeval_defenses.dp_adam.adapt import Adapted
from dpeval_defenses.dp_adam.features import Head, Source, pooled_features
from dpeval_defenses.dp_adam.trainer import PerExampleLoss


def problem_of(
    classifier: TextClassifier, adapted: Adapted, task: Task, source: Source, device: torch.device
) -> tuple[torch.nn.Module, PerExampleLoss]:
    """What trains, and its loss; a head alone trains on the encoder's outputs, computed once."""
    if all(name.startswith("head.") for name in adapted.trained):
        return head_problem(classifier, task, device, source)
    return classifier, text_loss(classifier, task, device, source)


def text_loss(
    classifier: TextClassifier, task: Task, device: torch.device, source: Source | None = None
) -> PerExampleLoss:
    """Cross-entropy of each text through the whole classifier. Positions count texts from the shortest to the longest,
    so that micro-batches hold texts of like length. ``source`` encodes the texts; by default the task's checkpoint."""
    texts, targets = (source or task.checkpoint).encode(task.train), _targets(task, device)
    by_length = np.argsort(texts.lengths, kind="stable")

    def loss(positions: Ints) -> torch.Tensor:
        rows = by_length[positions].tolist()
        return cross_entropy(classifier(**to_device(texts.batch(rows), device)), targets[rows])

    return loss


def head_problem(
    classifier: TextClassifier, task: Task, device: torch.device, source: Source | None = None
) -> tuple[torch.nn.Module, PerExampleLoss]:
    """The head as a model of its own, and cross-entropy of each text from the frozen encoder's outputs."""
    origin = source or task.checkpoint
    model = Head(classifier.dropout, classifier.head)
    targets = _targets(task, device)
    by_length = np.argsort(origin.encode(task.train).lengths, kind="stable")
    features = pooled_features(origin, task.num_labels, task.train.texts, device)

    def loss(positions: Ints) -> torch.Tensor:
        rows = by_length[positions].tolist()
        return cross_entropy(model(features[rows]), targets[rows])

    return model, loss


def _targets(task: Task, device: torch.device) -> torch.Tensor:
    _check_labels(task.train, task.num_labels)
    return torch.tensor(task.train.labels, dtype=torch.long, device=device)


def _check_labels(records: Records, num_labels: int) -> None:
    bad = sorted({label for label in records.labels if not 0 <= label < num_labels})
    if bad:
        raise ValueError(f"dp-adam: expected labels 0..{num_labels - 1}, got {bad[:5]}")
