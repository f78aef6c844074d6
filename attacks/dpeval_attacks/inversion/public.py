"""The public model as the adversary's own copy: what the checkpoint, before any training, makes of its texts.

With a :class:`~dpeval.plugin.Knowledge`, a view and token ids at hand::

    clear = public_sample(knowledge.checkpoint, texts, tokens, view.tap, width=384, device=ctx.device)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.release import TextRelease
from dpeval.types import NoClaim, Records
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.study import aligned


def public_sample(
    checkpoint: Checkpoint,
    texts: Records,
    tokens: Sequence[Sequence[int]],
    tap: str,
    *,
    width: int,
    device: torch.device,
) -> Sample | None:
    """The clear rows of ``texts`` at ``tap`` in the public checkpoint, aligned with their ``tokens``.

    ``None`` where the public model says nothing about the release: it has no such position, or rows of another width
    than the released ``width``, or no row per token there.
    """
    if checkpoint.lacks(tap) is not None:
        return None
    classifier = checkpoint.build(num_labels=2, seed=0).to(device)
    public = TextRelease.of(classifier, checkpoint, claim=NoClaim()).embed(texts, tap)
    counts = np.diff(public.offsets).tolist()
    if public.values.shape[1] != width or counts != [len(row) for row in tokens]:
        return None
    return aligned([public.rows(i) for i in range(len(texts))], tokens, np.ones(len(texts)))
