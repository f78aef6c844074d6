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
from dpeval_defenses.dp_adam.infilling import Infilling, some_infilling


def why_unfit(
    checkpoint: Checkpoint,
    how: Adapt,
    *,
    prefix_length: int,
    rgp_rank: int = 1,
    prompt: bool = False,
    template: str | None = None,
    words: tuple[str, ...] = (),
) -> str | None:
    """The reason why the model has no such part or no room for it, or ``None``; ``prompt``: with infilling."""
    try:
        source = some_infilling(checkpoint, template, words) if prompt else checkpoint
        classifier = source.build(len(source.label_words) if isinstance(source, Infilling) else 2, 0)
        if how.kind == "prefix":
            _check_room(classifier.encoder, source.max_length, prefix_length)
        adapt_classifier(
            classifier, how, rank=1, prefix_length=prefix_length, generator=torch.Generator(), rgp_rank=rgp_rank
        )
        ClippedGradients(classifier, max_norm=1.0).detach()
    except (ModelError, ClippingError, ValueError) as error:
        return str(error)
    return None


def _check_room(encoder: Any, longest: int, prefix_length: int) -> None:
    room = getattr(encoder.config, "max_position_embeddings", None)
    if room is not None and prefix_length + longest > room:
        raise ModelError(
            f"adapt = 'prefix': {prefix_length} positions and texts of {longest} tokens exceed "
            f"the model's {room}; lower max_length or prefix_length"
        )
