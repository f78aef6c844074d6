"""The page a plug-in author reads: what a defense and an attack are, and what they are given.

A plug-in is a frozen keyword-only dataclass. Its fields are at once the config schema of the matrix file, the identity
of its results and the columns of the report. Register it as an entry point (``dpeval.defenses`` or ``dpeval.attacks``)
or hand its file over with ``--plugin``. ``dpeval check FILE:Class`` tests everything this page promises.

>>> @dataclass(frozen=True, kw_only=True)
... class CoinFlip(MembershipAttack):
...     '''An adversary with no skill: flips a coin for each candidate.'''
...     source: ClassVar[str] = "folklore"
...     def score(self, view, candidates, knowledge, ctx):
...         return Scores(candidates.ids, ctx.rng("coin").random(len(candidates)))
>>> CoinFlip().access
<Access.PREDICTIONS: 'predictions'>
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

import numpy as np

from dpeval.types import (
    Access,
    Embeddings,
    Inferred,
    Predictions,
    PrivacyClaim,
    Records,
    Recovered,
    Scores,
)

if TYPE_CHECKING:
    import torch

    from dpeval.models.checkpoint import Checkpoint

T = TypeVar("T")


class Context(Protocol):
    """What the harness hands to a plug-in at run time. Randomness comes from here and from nowhere else."""

    @property
    def seed(self) -> int:
        """A number that differs between training seeds and between plug-ins; derive nothing else from the clock."""
        ...

    def rng(self, *names: str | int) -> np.random.Generator:
        """A numpy generator of its own for each list of names, the same in every run."""
        ...

    def generator(self, *names: str | int) -> torch.Generator:
        """A torch CPU generator of its own for each list of names, the same in every run."""
        ...

    @property
    def device(self) -> torch.device:
        """Where models run."""
        ...

    def progress(self, items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
        """Iterate over ``items`` and show how far the work is."""
        ...


# --- defenses ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """What a defense trains on: the members, the number of classes and the public checkpoint to start from."""

    train: Records
    num_labels: int
    checkpoint: Checkpoint


class Release(ABC):
    """What an adversary meets: predictions, and the tensor that leaves the user's device at inference.

    ``draw`` numbers the repetitions of a randomised answer: the same draw gives the same noise, another draw fresh
    noise. A release that adds no noise ignores it.
    """

    @property
    @abstractmethod
    def claim(self) -> PrivacyClaim:
        """The guarantee that the defense states."""

    @property
    @abstractmethod
    def taps(self) -> tuple[str, ...] | None:
        """The positions at which :meth:`embed` may be asked; ``None`` for every position of the model."""

    @abstractmethod
    def predict(self, records: Records, *, draw: int = 0) -> Predictions:
        """Class log-probabilities of ``records``; in evaluation mode and independent of the batch."""

    @abstractmethod
    def embed(self, records: Records, tap: str, *, draw: int = 0) -> Embeddings:
        """The tensor released at ``tap``: one row per token (or one row in all for a pooled tap)."""

    def predict_from(self, released: Embeddings) -> Predictions:
        """Class log-probabilities computed from what :meth:`embed` let out, and from nothing else.

        A release with a local claim must have it: it is how ``dpeval check`` shows that nothing goes round the noise.
        """
        del released
        raise NotImplementedError(
            f"{type(self).__name__} states a local claim but has no predict_from(released): nothing shows that its "
            "predictions depend on the released tensor alone"
        )

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write into the empty ``folder`` (safetensors and JSON; never pickle)."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, device: torch.device) -> Release:
        """The release that :meth:`save` wrote; answers equal to the bit on CPU."""


class Defense(ABC):
    """Trains a model on ``task.train`` and says what it promises."""

    source: ClassVar[str]
    """The paper or page it implements."""
    version: ClassVar[int] = 1
    """Part of every result's identity: raise it when results change."""

    @abstractmethod
    def train(self, task: Task, ctx: Context) -> Release:
        """Train and return what the adversary will meet."""

    def unfit(self, checkpoint: Checkpoint, num_train: int) -> str | None:
        """Why this defense cannot run on this model and data size, or ``None``; asked before anything is trained."""
        del checkpoint, num_train
        return None

    def releases_at(self) -> str | None:
        """The tap at which this defense releases, if it fixes one; ``None`` lets the matrix choose."""
        return None


# --- attacks -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Knowledge:
    """What any real adversary has, beside its access: public and auxiliary material, never the answers."""

    checkpoint: Checkpoint
    """The public base model and tokenizer that training started from."""
    defense: Defense
    """The defense and its settings, as published (Kerckhoffs's principle)."""
    auxiliary: Records
    """Texts from the same population, with labels and attributes; disjoint from every target."""
    num_labels: int
    num_attribute_values: int


class PredictionView(Protocol):
    """Black-box access: class log-probabilities of any records, asked as often as the adversary likes."""

    def predict(self, records: Records, *, draw: int = 0) -> Predictions:
        """See :meth:`Release.predict`."""
        ...


class EmbeddingView(Protocol):
    """Access to released embeddings: the targets' as intercepted, and any text of the adversary's own."""

    @property
    def tap(self) -> str:
        """The position whose tensor is released."""
        ...

    def intercepted(self, *, draw: int = 0) -> Embeddings:
        """The targets' released rows, in the order of the target ids."""
        ...

    def embed(self, records: Records, *, draw: int = 0) -> Embeddings:
        """What the public client would release for the adversary's own ``records``, noise and all."""
        ...


class Attack(ABC):
    """The common part of all attacks: declared needs, checked before anything is trained."""

    source: ClassVar[str]
    version: ClassVar[int] = 1
    access: ClassVar[Access]
    goal: ClassVar[str]

    def unfit(self, checkpoint: Checkpoint, tap: str | None) -> str | None:
        """Why this attack cannot run on this model at this tap, or ``None``; asked before anything is trained."""
        del checkpoint, tap
        return None


class MembershipAttack(Attack):
    """Says of each candidate how likely it was trained on. Never sees who was; never computes a metric."""

    access: ClassVar[Access] = Access.PREDICTIONS
    goal: ClassVar[str] = "membership"

    @abstractmethod
    def score(self, view: PredictionView, candidates: Records, knowledge: Knowledge, ctx: Context) -> Scores:
        """One score per candidate; higher means more likely a member."""


class InversionAttack(Attack):
    """Recovers the tokens of texts of which only the released embedding is seen."""

    access: ClassVar[Access] = Access.EMBEDDINGS
    goal: ClassVar[str] = "inversion"

    @abstractmethod
    def recover(self, view: EmbeddingView, targets: Sequence[str], knowledge: Knowledge, ctx: Context) -> Recovered:
        """For each target id the token guessed for each released row; ``-1`` for no answer."""


class AttributeAttack(Attack):
    """Infers a sensitive attribute of the author or text from the released embedding."""

    access: ClassVar[Access] = Access.EMBEDDINGS
    goal: ClassVar[str] = "attribute"

    @abstractmethod
    def infer(self, view: EmbeddingView, targets: Sequence[str], knowledge: Knowledge, ctx: Context) -> Inferred:
        """For each target id a score for each attribute value."""


class ExtractionAttack(Attack):
    """Extracts planted or memorised text from a model. The place for canary attacks; none ships yet."""

    access: ClassVar[Access] = Access.PREDICTIONS
    goal: ClassVar[str] = "extraction"

    @abstractmethod
    def extract(self, view: PredictionView, candidates: Records, knowledge: Knowledge, ctx: Context) -> Scores:
        """One score per candidate canary; higher means more likely planted."""


__all__ = [
    "Access", "Attack", "AttributeAttack", "Context", "Defense", "EmbeddingView", "Embeddings",
    "ExtractionAttack", "Inferred", "InversionAttack", "Knowledge", "MembershipAttack", "PredictionView",
    "Predictions", "Records", "Recovered", "Release", "Scores", "Task",
]  # fmt: skip
