"""What DP-Adam lets out with the objective ``infilling``: class log-probabilities through the label words.

Whoever uses the release puts texts into the public template on their own device. The rows let out at a position are
those of the text's own tokens; the template's rows are left out, so that each row stands for a token of the text.

>>> issubclass(PromptedRelease, DPAdamRelease)
True
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dpeval.errors import ModelError
from dpeval.files import write_json
from dpeval.models.checkpoint import Checkpoint, load_checkpoint
from dpeval.models.claim_json import claim_from_json
from dpeval.models.config import ModelConfig
from dpeval.models.encoding import Batch, to_device
from dpeval.models.release import check_same_checkpoint
from dpeval.models.weights import load_changed
from dpeval.types import Records
from dpeval_defenses.dp_adam.infilling import Infilling, infilling
from dpeval_defenses.dp_adam.prefix import load_prefix
from dpeval_defenses.dp_adam.release import DPAdamRelease

_FILE = "prompt.json"


@dataclass(frozen=True, eq=False, kw_only=True)
class PromptedRelease(DPAdamRelease):
    """A masked-LM classifier with its prompt."""

    prompt: Infilling

    def save(self, folder: Path) -> None:
        """As any release of DP-Adam, with template and label words beside it."""
        super().save(folder)
        write_json(folder / _FILE, {"template": self.prompt.template, "label_words": list(self.prompt.label_words)})

    @classmethod
    def load(cls, folder: Path, device: torch.device, *, checkpoint: Checkpoint | None = None) -> PromptedRelease:
        """The release that :meth:`save` wrote, without its log."""
        stored = json.loads((folder / "release.json").read_text(encoding="utf-8"))
        about = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        if checkpoint is None:
            checkpoint = load_checkpoint(ModelConfig(**stored["model"]), Path(stored["base"]))
        check_same_checkpoint(checkpoint, stored, folder)
        prompt = infilling(checkpoint, about["template"], tuple(about["label_words"]))
        classifier = prompt.build(stored["num_labels"], 0)
        load_changed(classifier, folder / "weights.safetensors")
        load_prefix(classifier, folder)
        claim = claim_from_json(stored["claim"])
        return cls(classifier.to(device).eval(), checkpoint, claim, prompt=prompt)

    def _public(self) -> Infilling:
        return self.prompt

    def _batches(self, records: Records) -> Iterator[tuple[list[int], Batch]]:
        self.classifier.eval()
        for rows, batch in self.prompt.encode(records).evaluation_batches(self.prompt.max_length):
            yield rows, to_device(batch, self.classifier.device)

    def _tapped(self, records: Records, rows: list[int], batch: Batch, tap: str, draw: int) -> list[Tensor]:
        tensors = super()._tapped(records, rows, batch, tap, draw)[: len(rows)]
        if tap != "output" and self.prompt.is_pair:
            raise ModelError(
                f"{tap}: a template joins the two texts of a pair, so that rows and tokens do not match; "
                "with pairs and objective = 'infilling' only 'output' can be asked"
            )
        return [
            tensor if len(tensor) == 1 else tensor[self.prompt.rows(str(records.texts[row]))]
            for row, tensor in zip(rows, tensors, strict=True)
        ]
