"""A release that gives its members away, for the polarity check: higher scores must mean more likely a member.

Peers have shipped attacks whose scores had the wrong sign, and reported 0.18 for a signal worth 0.82 (guard V17).

>>> records = Records(("a", "b"), ("x", "y"), (0, 0))
>>> answers = Oracle(frozenset({"a"}), 2).predict(records).log_probs[:, 0]
>>> bool(answers[0] > answers[1])
True
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dpeval.plugin import Release
from dpeval.types import Embeddings, NoClaim, Predictions, PrivacyClaim, Records

APART = 6.0
"""How much larger the log-odds of the true class are on members, in nats; both sides have a deviation of one."""


@dataclass(frozen=True)
class Oracle(Release):
    """Sure of the labels of its members, and as sure of others as of a coin; the same text gets the same answer."""

    members: frozenset[str]
    """Their ids."""
    num_labels: int

    @property
    def claim(self) -> PrivacyClaim:
        """None."""
        return NoClaim("an oracle, not a defense")

    @property
    def taps(self) -> tuple[str, ...]:
        """None: there is no model inside."""
        return ()

    def predict(self, records: Records, *, draw: int = 0) -> Predictions:
        """Log-probabilities whose log-odds tell members apart."""
        del draw
        labels = np.maximum(np.array(records.labels, dtype=np.int64), 0)
        shifts = np.array([_noise(key) + APART * (key in self.members) for key in records.ids])
        logits = np.zeros((len(labels), self.num_labels))
        logits[np.arange(len(labels)), labels] = shifts + np.log(max(1, self.num_labels - 1))
        return Predictions(records.ids, logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))

    def embed(self, records: Records, tap: str, *, draw: int = 0) -> Embeddings:
        """Refused: attacks on predictions alone meet it."""
        del records, draw
        raise NotImplementedError(f"an oracle has no embedding at {tap}")

    def save(self, folder: Path) -> None:
        """Refused: it is made where it is needed."""
        raise NotImplementedError(f"an oracle is not kept, in {folder} or elsewhere")

    @classmethod
    def load(cls, folder: Path, device: torch.device) -> Oracle:
        """Refused, as above."""
        raise NotImplementedError(f"an oracle is not kept, in {folder} or elsewhere; nor on {device}")


def _noise(key: str) -> float:
    """A standard normal number that belongs to this id."""
    return float(np.random.default_rng(zlib.crc32(key.encode("utf-8", "surrogatepass"))).standard_normal())
