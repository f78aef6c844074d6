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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

import numpy as np

from dpeval.types import (
    Access,
    Embeddings,
    Inferred,
    NoClaim,
    Predictions,
    PrivacyClaim,
    Records,
    Recovered,
    Scores,
)

if TYPE_CHECKING:
    import torch

    from dpeval.models.checkpoint import Checkpoint
    from dpeval.models.text_encoding import TextEncoding
    from dpeval.types import Dataset

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

    @property
    def scratch(self) -> Path | None:
        """A folder of this training's own that outlives an interruption, or ``None``; checkpoints go here.

        The harness removes it once the release is stored. What is read back from it must lead to the same release.
        """
        ...

    def shadows(self, count: int) -> Sequence[Shadow]:
        """Up to ``count`` shadow releases, trained with the target's own defense; declare them as ``Attack.shadows``.

        Shadow ``i`` is the same whoever asks and for how many, and is trained once. Each is trained on what another
        seed would have drawn from the same pool; shadows come in pairs, the second trained on the candidates that the
        first was not. Controls and smoke runs have fewer. ValueError for more than the attack declares.
        """
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

    @property
    def encoding(self) -> TextEncoding | None:
        """How texts become tokens, where the release works on tokens; attacks compare it with their own."""
        return None

    def noisier(self, factor: float) -> Release | None:
        """The same release with its noise multiplied by ``factor``; ``None`` where it adds no noise of known scale.

        ``dpeval check`` asks for overwhelming noise and shows that nothing of the texts is left.
        """
        del factor
        return None

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

    def unfit_data(self, dataset: Dataset, checkpoint: Checkpoint) -> str | None:
        """Why this defense cannot run on these records (pairs, number of classes), or ``None``; asked as above."""
        del dataset, checkpoint
        return None

    def releases_at(self) -> str | None:
        """The tap at which this defense releases, if it fixes one; ``None`` lets the matrix choose."""
        return None


@dataclass(frozen=True, eq=False)
class Shadow:
    """A release that the adversary trained itself with the public defense, knowing on what."""

    trained_on: frozenset[str]
    """Ids of the records that it was trained on."""
    view: PredictionView


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
    claim: PrivacyClaim = field(default_factory=NoClaim)
    """What the release states of itself, the noise scale among its details where noise is added."""


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

    @property
    def encoding(self) -> TextEncoding | None:
        """How the release turns texts into tokens, where it says; an attack that reads in another way must stop."""
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
    shadows: int = 0
    """How many shadow releases it asks of its context; a field where the user may choose. Each costs one training."""

    @property
    def sound(self) -> Attack:
        """Itself, or for an attack in a published protocol of doubtful worth the same attack without it.

        An attack that is not its own sound version stands in a report only beside that version, and never as evidence.
        """
        return self

    @property
    def caveat(self) -> str:
        """What is wrong with the published protocol that it follows, in a sentence; empty for a sound attack."""
        return ""

    def unfit(self, checkpoint: Checkpoint, tap: str | None) -> str | None:
        """Why this attack cannot run on this model at this tap, or ``None``; asked before anything is trained."""
        del checkpoint, tap
        return None


class MembershipAttack(Attack):
    """Says of each candidate how likely it was trained on. Never sees who was; never computes a metric."""

    access: ClassVar[Access] = Access.PREDICTIONS
    goal: ClassVar[str] = "membership"

    @property
    def sound(self) -> MembershipAttack:
        """Itself, or for an attack in a published protocol of doubtful worth the same attack without it.

        An attack that is not its own sound version is shown non-members that were perturbed after the split, is never
        used to test a claim, and stands in a report only beside its sound version.
        """
        return self

    @abstractmethod
    def score(self, view: PredictionView, candidates: Records, knowledge: Knowledge, ctx: Context) -> Scores:
        """One score per candidate; higher means more likely a member."""


class InversionAttack(Attack):
    """Recovers the tokens of texts of which only the released embedding is seen."""

    access: ClassVar[Access] = Access.EMBEDDINGS
    goal: ClassVar[str] = "inversion"
    reads_pooled: ClassVar[bool] = False
    """Whether it can attack one pooled row for a whole text; its answer is then a bag of tokens of any length."""

    @property
    def answers_bags(self) -> bool:
        """Whether its answers are bags of tokens in no order, of any length, also where there is a row per token."""
        return False

    @abstractmethod
    def recover(self, view: EmbeddingView, targets: Sequence[str], knowledge: Knowledge, ctx: Context) -> Recovered:
        """For each target id the token guessed for each released row; ``-1`` for no answer.

        A bag of tokens instead where one pooled row is released, or where :attr:`answers_bags` says so.
        """


class AttributeAttack(Attack):
    """Infers a sensitive attribute of the author or text from the released embedding."""

    access: ClassVar[Access] = Access.EMBEDDINGS
    goal: ClassVar[str] = "attribute"

    @abstractmethod
    def infer(self, view: EmbeddingView, targets: Sequence[str], knowledge: Knowledge, ctx: Context) -> Inferred:
        """For each target id a score for each attribute value."""


class ExtractionAttack(Attack):
    """Says of each canary how likely it was planted in the training data.

    Canaries are made by the core (``[canaries]`` in the matrix), each planted by its own fair coin.
    """

    access: ClassVar[Access] = Access.PREDICTIONS
    goal: ClassVar[str] = "extraction"

    @abstractmethod
    def extract(self, view: PredictionView, candidates: Records, knowledge: Knowledge, ctx: Context) -> Scores:
        """One score per candidate canary; higher means more likely planted."""


__all__ = [
    "Access", "Attack", "AttributeAttack", "Context", "Defense", "EmbeddingView", "Embeddings",
    "ExtractionAttack", "Inferred", "InversionAttack", "Knowledge", "MembershipAttack", "PredictionView",
    "Predictions", "Records", "Recovered", "Release", "Scores", "Shadow", "Task",
]  # fmt: skip
