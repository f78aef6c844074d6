"""Whether an attack makes sense at a tap of a model: asked before anything is trained, of every attack alike.

An attack says for itself what it cannot do (``unfit``). One that says nothing, as a first plug-in of one's own may,
is still kept from the place where it could only fail: a pooled release has no row per token to read.

>>> from pathlib import Path
>>> import tempfile
>>> from dpeval.plugin import InversionAttack
>>> from dpeval.tiny import tiny_checkpoint
>>> class Guesser(InversionAttack):
...     def recover(self, view, targets, knowledge, ctx): ...
>>> checkpoint = tiny_checkpoint(Path(tempfile.mkdtemp()))
>>> why_unfit(Guesser(), checkpoint, "output")
'one pooled row, no row per token: this attack does not say that it reads pooled releases'
>>> why_unfit(Guesser(), checkpoint, "embedding")
"""

from __future__ import annotations

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.dependence import is_pooled
from dpeval.plugin import Attack, InversionAttack

POOLED = "one pooled row, no row per token"


def why_unfit(attack: Attack, checkpoint: Checkpoint, tap: str | None) -> str | None:
    """Why ``attack`` cannot be run on this model at this tap, or ``None``: its own reason, or that of its goal."""
    own = attack.unfit(checkpoint, tap)
    if own is not None or tap is None or not isinstance(attack, InversionAttack) or attack.reads_pooled:
        return own
    if is_pooled(checkpoint, tap):
        return f"{POOLED}: this attack does not say that it reads pooled releases"
    return None
