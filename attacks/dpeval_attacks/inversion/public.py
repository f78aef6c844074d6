"""The public model as the adversary's own copy: what the checkpoint, before any training, makes of its texts.

With a :class:`~dpeval.plugin.Knowledge` and a view at hand::

    clear = public_rows(knowledge.checkpoint, knowledge.auxiliary, view.tap, ctx.device)
"""

from __future__ import annotations

import torch

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.release import TextRelease
from dpeval.types import Embeddings, NoClaim, Records


def public_rows(checkpoint: Checkpoint, records: Records, tap: str, device: torch.device) -> Embeddings:
    """The clear rows of ``records`` at ``tap`` in the public checkpoint: one row per token, no noise, no padding."""
    classifier = checkpoint.build(num_labels=2, seed=0).to(device)
    return TextRelease.of(classifier, checkpoint, claim=NoClaim()).embed(records, tap)
