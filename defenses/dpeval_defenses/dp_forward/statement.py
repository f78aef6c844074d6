"""The claim of a DP-Forward model: what was released how often, what that is worth, and what it leaves out.

>>> from dpeval_defenses.dp_forward.accounting import plan_noise
>>> plan = plan_noise(epsilon=8.0, delta=1e-5, clip=1.0, releases=1)
>>> claim = Statement(plan, answer_sigma=plan.sigma, training="frozen", position="output", rows=1).claim()
>>> print(claim)
ε = 8 per sequence, local, any-two-inputs, δ = 1.0e-05
>>> dict(claim.details)["epsilon of 10 answers"]
35.6174
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpeval.privacy.central import shuffled_gaussian
from dpeval.privacy.claims import ONE_ANSWER, Detail, LabelNoise, local_gaussian_claim
from dpeval.privacy.gaussian import compose_gaussian, epsilon_of_gaussian, gaussian_mu
from dpeval.privacy.labels import sequence_and_label
from dpeval.privacy.translation import PAPER_TRANSLATION, translated_epsilon
from dpeval.types import NoClaim, PrivacyClaim, Unit
from dpeval_defenses.dp_forward.accounting import MECHANISMS, NoisePlan
from dpeval_defenses.dp_forward.client import Rows

ANSWERS = (10, 100)


@dataclass(frozen=True, kw_only=True)
class Shuffling:
    """Training releases sent through a trusted shuffler, by how many users."""

    users: int
    clip: float
    alike: int | None = None
    """How many users at least send the same clear label: no others can hide one of them. ``None``: all ``users``."""


@dataclass(frozen=True)
class Statement:
    """What a training did, in the terms of its claim."""

    plan: NoisePlan
    answer_sigma: float
    """Deviation of the noise on a text that is sent to the finished model; 0: sent in clear."""
    training: str
    position: str
    rows: int
    epochs: int = 1
    level: str = "sequence"
    lengths: Rows = "fixed"
    mechanism: str = "analytic"
    paper_compat: bool = False
    labels: LabelNoise | None = None
    shuffling: Shuffling | None = None
    further: Sequence[Detail] = ()

    @property
    def covers_training(self) -> bool:
        """Whether training saw only what the training texts released."""
        return self.training != "trained"

    @property
    def unit(self) -> Unit:
        """What is protected."""
        return Unit.SEQUENCE if self.level == "sequence" else Unit.TOKEN

    def claim(self) -> PrivacyClaim:
        """The claim, or that nothing is left to claim."""
        plan, labels = self.plan, self.labels if self.covers_training else None
        if not self.covers_training and self.answer_sigma == 0:
            return NoClaim(
                "training used the clear texts (the layers before the noise learned), and texts are sent to the "
                'finished model without noise (inference = "none")'
            )
        sigma, releases = self._decisive(labels)
        return local_gaussian_claim(
            sigma=sigma,
            sensitivity=plan.sensitivity,
            releases=releases,
            delta=plan.delta,
            unit=self.unit,
            labels=labels if releases == plan.releases and sigma == plan.sigma else None,
            label_excluded=labels is None,
            nominal_epsilon=plan.nominal if self._nominal_matters else None,
            mechanism=MECHANISMS[self.mechanism],
            scope=self._scope(labels),
            also_excludes=tuple(self._excludes()),
            also_details=tuple(self._details()),
        )

    @property
    def _nominal_matters(self) -> bool:
        return self.paper_compat or self.mechanism in ("classic", "mvg")

    def _decisive(self, labels: LabelNoise | None) -> tuple[float, int]:
        """The noise and the number of releases of the part of the scope that is protected least."""
        plan, sent = self.plan, math.inf
        if self.answer_sigma:
            sent = epsilon_of_gaussian(gaussian_mu(self.answer_sigma, plan.sensitivity), plan.delta)
        if not self.covers_training:
            return self.answer_sigma, 1
        trained = plan.epsilon
        if labels is not None:
            trained = sequence_and_label(plan.mu, plan.delta, labels.epsilon, labels.num_labels).tight
        return (self.answer_sigma, 1) if self.answer_sigma and sent > trained else (plan.sigma, plan.releases)

    # --- words ---

    def _scope(self, labels: LabelNoise | None) -> str:
        what = _WHAT[self.level]
        if self.lengths != "fixed" and self.unit is Unit.SEQUENCE:
            what = "each text (its words and their order) against any other of as many tokens"
        many = f"the noised tensor of {self._row_words()} at {self.position}"
        parts = []
        if self.covers_training:
            times = "once" if self.plan.releases == 1 else f"{self.plan.releases} times, with fresh noise in each epoch"
            label = " and its label under randomised response" if labels else ""
            parts.append(f"a training text, of which training sees {many}{label}, released {times}")
        if self.answer_sigma:
            parts.append(f"a text that is sent to the finished model for an answer, released once as {many}")
        return f"{what}: {'; and '.join(parts)}"

    def _row_words(self) -> str:
        if self.rows == 1:
            return "1 row"
        return f"{self.rows} rows" if self.lengths == "fixed" else "a row for each token"

    def _excludes(self) -> list[str]:
        told = []
        if not self.covers_training:
            told.append(
                "the training records: their clear texts update the layers before the noise (a trusted trainer)"
            )
            if self.labels is not None:
                told.append(f"training labels beyond their own randomised response of ε = {self.labels.epsilon:g}")
        if self.answer_sigma == 0:
            told.append("texts that are sent to the finished model: they leave the device without noise")
        else:
            few = self._answers(ANSWERS[0])
            told.append(
                f"a text released more often: the guarantee is per answer, K answers compose to μ√K (ε = {few:.3g} "
                f"for {ANSWERS[0]}), and an answer adds to what training released of the same text"
            )
        told.append("anyone who holds the seed of the run, from which its noise can be drawn again")
        if self.lengths != "fixed":
            told.append(f"the number of tokens of a text, which is public ({_PUBLIC[self.lengths]})")
        elif self.unit is Unit.TOKEN:
            told.append("the number of tokens of a text, beyond what one token hides")
        if self.unit is Unit.TOKEN:
            told.append(
                "a change of one word that changes how the rest of the text is split into tokens, or puts a padding "
                "token into it"
            )
        if self.mechanism == "classic" and self.plan.nominal >= 1:
            told.append("the classic theorem, which is not proven for ε >= 1: its nominal ε is no valid claim")
        return told

    # --- numbers ---

    def _details(self) -> list[Detail]:
        details: list[Detail] = [
            ("level", self.level), ("rows", self.rows), ("position", self.position), ("training", self.training),
        ]  # fmt: skip
        if self.answer_sigma:
            details += [("sigma of an answer", self.answer_sigma), (ONE_ANSWER, _short(self._answers(1)))]
            details += [(f"epsilon of {count} answers", _short(self._answers(count))) for count in ANSWERS]
            if self.covers_training:
                details.append(("epsilon of a training text that is sent once more", _short(self._once_more())))
        details += self._beside()
        if self.paper_compat:
            details.append(("calibration", "published: sensitivity 1 for 2C, releases not composed, mask in clear"))
        details += self._central()
        return [*details, *self.further]

    def _beside(self) -> list[Detail]:
        """What training released, where the claim's own numbers are those of an answer."""
        plan = self.plan
        if self.covers_training:
            if (self.answer_sigma, 1) != self._decisive(self.labels) or self.answer_sigma == plan.sigma:
                return []
            own: list[Detail] = [("sigma in training", plan.sigma), ("releases in training", plan.releases)]
            labels = [] if self.labels is None else [("label epsilon", self.labels.epsilon)]
            return [*own, ("epsilon of training", plan.epsilon), *labels]
        seen = epsilon_of_gaussian(gaussian_mu(plan.sigma, plan.sensitivity, self.epochs), plan.delta)
        told: list[Detail] = [("sigma in training", plan.sigma)]
        told.append((f"epsilon of {self.epochs} noisy passes over a training text, its clear gradient apart", seen))
        return told if self.labels is None else [*told, ("label epsilon", self.labels.epsilon)]

    def _once_more(self) -> float:
        """Of training's releases and one answer about the same text; its label apart."""
        answer = gaussian_mu(self.answer_sigma, self.plan.sensitivity)
        return epsilon_of_gaussian(compose_gaussian([self.plan.mu, answer]), self.plan.delta)

    def _answers(self, count: int) -> float:
        return epsilon_of_gaussian(gaussian_mu(self.answer_sigma, self.plan.sensitivity, count), self.plan.delta)

    @property
    def _stands_out(self) -> str:
        """Why the other users' releases do not hide one user's, whatever the noise; empty where they do.

        A proof of amplification needs each release to be close to that of any other text.
        """
        if self.unit is Unit.TOKEN:
            return "only one token of a text is hidden, so that another user's text hides nothing of it"
        if self.lengths != "fixed":
            return "the number of tokens is public, so that only users with texts as long could hide each other"
        return ""

    def _central(self) -> list[Detail]:
        if self.shuffling is None:
            return []
        plan, labels = self.plan, self.labels
        translated = translated_epsilon(
            plan.sigma / self.shuffling.clip, plan.delta, num_records=self.shuffling.users, epochs=self.epochs
        )
        told: list[Detail] = []
        if not self.covers_training:
            told.append(("central epsilon, shuffled", "none: training used the clear texts"))
        elif self._stands_out:
            told.append(("central epsilon, shuffled", f"none: {self._stands_out}"))
        else:
            alike = self.shuffling.users if self.shuffling.alike is None else self.shuffling.alike
            found = shuffled_gaussian(
                plan.mu, alike, plan.delta,
                label_epsilon=None if labels is None else labels.epsilon,
                num_labels=2 if labels is None else labels.num_labels,
            )  # fmt: skip
            outside = "outside its range" if found.closed_form is None else found.closed_form
            told.append(("central epsilon, shuffled", found.epsilon if found.proven else f"none: {found.reason}"))
            told.append(("central epsilon, shuffled, closed form", outside))
            told.append(("users of the shuffler", self.shuffling.users))
            if alike != self.shuffling.users:
                told.append(("users with the rarest label, counted for its clear labels", alike))
        return [*told, (f"{PAPER_TRANSLATION} epsilon (no guarantee)", translated.value)]


_WHAT = {
    "sequence": "each text (its words, their order and their number) against any other",
    "token": "one token of a text against any other in its place",
    "token-attention": "one token of a text against any other in its place",
}
_PUBLIC = {
    "public": "length_is_public: only rows of tokens are released",
    "padded": "the published code consults the clear attention mask after the noise",
}


def _short(value: float) -> float:
    return float(f"{value:.6g}")
