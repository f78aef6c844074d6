"""What DP-Adam lets out: a text classifier, how many parameters it trained, and a log for the experimenter.

>>> from dataclasses import fields
>>> [field.name for field in fields(DPAdamRelease)][-2:]
['trained_parameters', 'log']
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from dpeval.files import write_json
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.release import TextRelease
from dpeval.types import Claim
from dpeval_defenses.dp_adam.prefix import load_prefix, save_prefix, without_prefix
from dpeval_defenses.dp_adam.steplog import StepLog, summary

_WARNING = (
    "NOT PRIVATE: computed from the members' gradients without noise and covered by no claim. "
    "For experiments; do not publish it about real people's data."
)


@dataclass(frozen=True, eq=False)
class DPAdamRelease(TextRelease):
    """The standard release, a trained prefix included; ``log`` is not part of what is released and is not private."""

    trained_parameters: int = 0
    log: tuple[StepLog, ...] = ()

    @property
    def diagnostics(self) -> Mapping[str, float]:
        """Means over the steps, as in :func:`dpeval_defenses.dp_adam.steplog.summary`. NOT PRIVATE."""
        records = dict(self.stated.details).get("records") if isinstance(self.stated, Claim) else None
        return summary(self.log, num_records=None if records is None else int(records))

    def save(self, folder: Path) -> None:
        """As the standard release, with the prefix beside it, and the log, marked as what it is."""
        with without_prefix(self.classifier) as prefix:
            super().save(folder)
        if prefix is not None:
            save_prefix(prefix, folder)
        if self.log:
            write_json(folder / "training_log.json", {"warning": _WARNING, "steps": [e.plain() for e in self.log]})

    @classmethod
    def load(cls, folder: Path, device: torch.device, *, checkpoint: Checkpoint | None = None) -> DPAdamRelease:
        """The release that :meth:`save` wrote, without its log."""
        plain = TextRelease.load(folder, device, checkpoint=checkpoint)
        load_prefix(plain.classifier, folder)
        return cls(**{field.name: getattr(plain, field.name) for field in dataclasses.fields(TextRelease)})
