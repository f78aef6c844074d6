"""The defense plug-in: where the noise goes, how much, and what is trained.

>>> DPForward(training="frozen-fresh", epochs=5).num_releases
5
>>> DPForward(level="token-attention", position="encoder.0.qkv").client.joint
True
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from dpeval.errors import LeakError, ModelError
from dpeval.models.bypass import check_release_point
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.dependence import released_shape
from dpeval.models.fit import Forward, Recipe, fit_rows
from dpeval.plugin import Context, Defense, Release, Task
from dpeval.privacy.steps import default_delta
from dpeval_defenses.dp_forward.accounting import Mechanism, NoisePlan, Shape, plan_noise
from dpeval_defenses.dp_forward.attention import check_rows_are_local, joint_maps, joint_stretch
from dpeval_defenses.dp_forward.checks import check_settings
from dpeval_defenses.dp_forward.client import Client
from dpeval_defenses.dp_forward.labelling import LabelMechanism, LabelResponse
from dpeval_defenses.dp_forward.matrix import Basis, MatrixRelease, check_condition
from dpeval_defenses.dp_forward.noise import NoisyRelease
from dpeval_defenses.dp_forward.reduction import attach, let_learn
from dpeval_defenses.dp_forward.release import ForwardRelease
from dpeval_defenses.dp_forward.statement import Shuffling, Statement
from dpeval_defenses.dp_forward.training import TrainingTexts, freeze_before, freeze_but_last

if TYPE_CHECKING:
    from dpeval.types import Dataset

Level: TypeAlias = Literal["sequence", "token", "token-attention"]
Training: TypeAlias = Literal["frozen", "frozen-fresh", "trained"]


@dataclass(frozen=True, kw_only=True)
class DPForward(Defense):
    """Each text leaves the device once, as a noised tensor: local privacy for any two texts, or any two tokens."""

    source: ClassVar[str] = "Du et al. 2023 (DP-Forward), arXiv:2309.06746"
    version: ClassVar[int] = 4

    position: str = "output"
    """Where the noise is: ``embedding``, ``encoder.I.mha|add_norm_1|ffn|add_norm_2``, ``encoder.I.qkv``, ``output``, or
    a module path."""
    epsilon: float = 8.0
    """Of all releases of one text in training together, labels apart."""
    delta: float | None = None
    """By default 1/(2N) for N training records."""
    clip: float = 1.0
    """Frobenius norm C of a text's tensor, or of each row at token level; the sensitivity is 2C."""
    normalise: bool = True
    """Scale to norm C exactly, or only down to at most C."""
    level: Level = "sequence"
    """``token``: one token is protected, at a position where each row is made of its own token (``embedding``).
    ``token-attention``: the same in an attention; rows are bounded before the maps to queries, keys and values, and the
    three are noised together (position ``encoder.0.qkv``)."""
    mechanism: Mechanism = "analytic"
    """``analytic``: equal noise. ``matrix``: U·N·Vᵀ with the scales below. ``classic`` (ε < 1) and ``mvg``: baselines;
    the claim states what their noise gives exactly, beside the nominal ε."""
    row_scales: tuple[float, ...] = (1.0,)
    """With ``matrix``: singular values of U relative to each other, repeated over the rows."""
    column_scales: tuple[float, ...] = (1.0,)
    """With ``matrix``: those of V, over the columns."""
    basis: Basis = "axes"
    """With ``matrix``: singular vectors along rows and columns, or ``random`` orthogonal ones from ``basis_seed``."""
    basis_seed: int = 0
    training: Training = "frozen"
    """``frozen``: the part before the noise is the public one and each training text is noised once. ``frozen-fresh``:
    noised anew in each epoch, all epochs together within ε. ``trained``: the part before the noise learns from clear
    texts, and the claim covers only the texts sent to the finished model.
    """
    layers_before: int | None = None
    """With ``trained``: how many layers before the noise learn, counted back from it; by default everything."""
    label_epsilon: float | None = None
    """ε of randomised response on each training label, made once; by default labels are used in clear."""
    label_mechanism: LabelMechanism = "rr"
    """Over all labels, or only over those that the public ``label_prior`` makes worth answering."""
    label_prior: tuple[float, ...] = ()
    inference: Literal["same", "none"] | float = "same"
    """Noise on a text that is sent to the finished model: as in training, none, or that of another ε for one answer."""
    reduce_to: int | None = None
    """Columns k that are released instead of the position's d: M1 maps d to k before the noise, M2 back after it. M1 is
    public and random where what comes before the noise is frozen, and learns with it otherwise; M2 learns."""
    length_is_public: bool = False
    """Release one row for each token, and so their number, instead of ``max_length`` rows for every text."""
    shuffled: bool = False
    """State also what a trusted shuffler of the training releases proves, and what the paper's translation prints."""
    paper_compat: bool = False
    """The published calibration: sensitivity 1 where 2C holds, no composition, the mask in clear. ε is then nominal,
    and the claim states the honest one."""
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 1e-4
    """Of the pretrained layers after the noise."""
    head_learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        check_settings(self)
        self._recipe()

    @property
    def num_releases(self) -> int:
        """How often each training text is released."""
        return self.epochs if self.training == "frozen-fresh" else 1

    @property
    def client(self) -> Client:
        """What runs on the user's device."""
        rows: Literal["fixed", "public", "padded"] = "public" if self.length_is_public else "fixed"
        return Client(self.position, "padded" if self.paper_compat else rows, joint=self.level == "token-attention")

    def releases_at(self) -> str | None:
        """The position of the noise."""
        return self.position

    def unfit(self, checkpoint: Checkpoint, num_train: int) -> str | None:
        """The position must exist and must not be one that clear text goes round."""
        del num_train
        why = checkpoint.lacks(self.position)
        if why is None and self.layers_before and "encoder.0.add_norm_2" not in checkpoint.positions():
            return f"layers_before = {self.layers_before}: the layers of this model are not known by name"
        sure = checkpoint.is_sure(self.position) and self.level == "sequence" and self.reduce_to is None
        if why is not None or sure:
            return why
        try:
            classifier = checkpoint.build(2, seed=0)
            self._check_position(classifier, checkpoint)
            self._reduce(classifier, checkpoint)
        except (LeakError, ModelError, ValueError) as error:
            return str(error)
        return None

    def unfit_data(self, dataset: Dataset, checkpoint: Checkpoint) -> str | None:
        """A prior over the labels must have one probability for each."""
        del checkpoint
        response = self._response()
        try:
            if response is not None:
                response.answers(len(dataset.label_names))
        except ValueError as error:
            return str(error)
        return None

    def _check_position(self, classifier: TextClassifier, checkpoint: Checkpoint) -> None:
        check_release_point(classifier, self.position, checkpoint)
        if self.level != "sequence":
            check_rows_are_local(classifier, self.position, checkpoint)

    def train(self, task: Task, ctx: Context) -> Release:
        """Train what follows the noise on noised tensors; state what that is worth."""
        classifier = task.checkpoint.build(task.num_labels, ctx.seed).to(ctx.device)
        self._check_position(classifier, task.checkpoint)
        self._reduce(classifier, task.checkpoint)
        shape = self._shape(classifier, task.checkpoint)
        delta = default_delta(len(task.train)) if self.delta is None else self.delta

        def plan() -> NoisePlan:
            return self._plan(classifier, shape, self.epsilon, delta, self.num_releases)

        labels = self._labels(task, ctx)
        training = TrainingTexts.of(classifier, self.client, task.train, task.checkpoint, ctx)
        forward = self._forward(training, lambda: self._transform(plan(), shape))
        lengths = self._lengths(training)
        fit_rows(forward, labels, lengths, classifier, self._recipe(), ctx)
        final = plan()  # where the maps of an attention learned, its noise followed them
        answers = self._answer_plan(final, classifier, shape)
        statement = self._statement(final, answers.sigma if answers else 0.0, shape, task)
        release = ForwardRelease(
            classifier.eval(), task.checkpoint, statement.claim(), self.position,
            self._answer_transform(answers, shape), ctx.seed, self.client, self.inference != "none",
        )  # fmt: skip
        release.check()
        return release

    def _recipe(self) -> Recipe:
        return Recipe(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            head_learning_rate=self.head_learning_rate,
        )

    # --- noise ---

    def _shape(self, classifier: TextClassifier, checkpoint: Checkpoint) -> Shape:
        released = released_shape(classifier, self.position, checkpoint.max_length)
        norm = self.clip * (released.rows**0.5 if self.level == "token" else 1.0)
        return Shape(rows=released.rows, width=self.reduce_to or released.width, norm=norm)

    def _reduce(self, classifier: TextClassifier, checkpoint: Checkpoint) -> None:
        if self.reduce_to is not None:
            attach(classifier, released_shape(classifier, self.position, checkpoint.max_length).width, self.reduce_to)

    def _plan(self, classifier: TextClassifier, shape: Shape, epsilon: float, delta: float, releases: int) -> NoisePlan:
        stretch = joint_stretch(joint_maps(classifier, self.position)) if self.client.joint else 1.0
        return plan_noise(
            epsilon=epsilon, delta=delta, clip=self.clip, releases=releases, stretch=stretch,
            mechanism=self.mechanism, shape=shape, paper_compat=self.paper_compat,
        )  # fmt: skip

    def _transform(self, plan: NoisePlan, shape: Shape) -> NoisyRelease:
        plain = NoisyRelease(self.clip, plan.sigma, self.normalise, rows=self.level != "sequence")
        if self.mechanism != "matrix":
            return plain
        transform = MatrixRelease(
            **vars(plain), row_scales=self.row_scales, column_scales=self.column_scales,
            basis=self.basis, basis_seed=self.basis_seed,
        )  # fmt: skip
        check_condition(transform, plan, shape)
        return transform

    def _answer_plan(self, training: NoisePlan, classifier: TextClassifier, shape: Shape) -> NoisePlan | None:
        if self.inference == "none":
            return None
        if self.inference == "same":
            return training
        return self._plan(classifier, shape, float(self.inference), training.delta, 1)

    def _answer_transform(self, plan: NoisePlan | None, shape: Shape) -> NoisyRelease:
        if plan is not None:
            return self._transform(plan, shape)
        return NoisyRelease(self.clip, 0.0, self.normalise, rows=self.level != "sequence")

    # --- training ---

    def _lengths(self, training: TrainingTexts) -> list[int]:
        whole = self.training != "trained" and self.client.rows == "fixed"
        return [1] * len(training.texts) if whole else training.texts.lengths

    def _forward(self, training: TrainingTexts, transform: Callable[[], NoisyRelease]) -> Forward:
        classifier = training.classifier
        if self.training == "trained":
            if self.layers_before is not None:
                freeze_but_last(classifier, self.position, self.layers_before)
            let_learn(classifier, before=True)
            fixed = None if self.client.joint else transform()
            return training.end_to_end(lambda: fixed or transform())
        clear = training.clear()
        freeze_before(classifier, self.position)
        let_learn(classifier, before=False)
        return training.cached(clear, transform(), fresh=self.training == "frozen-fresh")

    def _response(self) -> LabelResponse | None:
        if self.label_epsilon is None:
            return None
        return LabelResponse(epsilon=self.label_epsilon, mechanism=self.label_mechanism, prior=self.label_prior)

    def _labels(self, task: Task, ctx: Context) -> tuple[int, ...]:
        response = self._response()
        if response is None:
            return task.train.labels
        return response.randomised(task.train.labels, task.num_labels, ctx.rng("label response"))

    def _shuffling(self, task: Task) -> Shuffling:
        rarest = min(Counter(task.train.labels).values()) if self.label_epsilon is None else None
        return Shuffling(users=len(task.train), clip=self.clip, alike=rarest)

    def _statement(self, plan: NoisePlan, answer_sigma: float, shape: Shape, task: Task) -> Statement:
        response = self._response()
        joint = (("largest singular value", plan.sensitivity / (2 * self.clip)),) if self.client.joint else ()
        reduced = () if self.reduce_to is None else (("columns released", self.reduce_to),)
        return Statement(
            plan, answer_sigma, self.training, self.position, shape.rows,
            epochs=self.epochs,
            level=self.level,
            lengths=self.client.rows if shape.rows > 1 else "fixed",
            mechanism=self.mechanism,
            paper_compat=self.paper_compat,
            labels=None if response is None else response.noise(task.num_labels),
            shuffling=self._shuffling(task) if self.shuffled else None,
            further=(("clip", self.clip), *joint, *reduced),
        )  # fmt: skip
