"""Whether a way to adapt fits a model, asked before anything is trained.

>>> from pathlib import Path
>>> import tempfile
>>> from dpeval.tiny import tiny_checkpoint
>>> from dpeval_defenses.dp_adam.adapt import parse_adapt
>>> checkpoint = tiny_checkpoint(Path(tempfile.mkdtemp()))
>>> why_unfit(checkpoint, parse_adapt("last-3"), prefix_length=10)
"adapt = 'last-3': BertModel has 2 layers; use at most 'last-2'"
"""

from __future__ import annotations

from typing import Any

import torch

from dpeval.errors import ModelError
from dpeval.models.checkpoint import Checkpoint
from dpeval_defenses.dp_adam.adapt import Adapt, adapt_classifier
from dpeval_defenses.dp_adam.clipping import ClippedGradients, ClippingError


def why_unfit(checkpoint: Checkpoint, how: Adapt, *, prefix_length: int) -> str | None:
    """The reason why the model has no such part or no room for it, or ``None``."""
    classifier: Any = checkpoint.build(num_labels=2, seed=0)
    if how.kind == "prefix":
        room = getattr(classifier.encoder.config, "max_position_embeddings", None)
        if room is not None and prefix_length + checkpoint.max_length > room:
            return (
                f"adapt = 'prefix': {prefix_length} positions and texts of {checkpoint.max_length} tokens exceed "
                f"the model's {room}; lower max_length or prefix_length"
            )
    try:
        adapt_classifier(classifier, how, rank=1, prefix_length=prefix_length, generator=torch.Generator())
        ClippedGradients(classifier, max_norm=1.0).detach()
    except (ModelError, ClippingError) as error:
        return str(error)
    return None
