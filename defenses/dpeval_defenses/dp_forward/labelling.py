"""Training labels under randomised response: drawn once for each record, with an ε of their own.

>>> LabelResponse(epsilon=2.2, mechanism="prior", prior=(0.5, 0.49, 0.01)).answers(3)
(0, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from dpeval.privacy.claims import LabelNoise
from dpeval.privacy.labels import randomise_labels, randomise_labels_with_prior, top_labels

LabelMechanism: TypeAlias = Literal["rr", "prior"]


@dataclass(frozen=True, kw_only=True)
class LabelResponse:
    """k-ary randomised response, over all labels or over those that a public prior makes worth answering."""

    epsilon: float
    mechanism: LabelMechanism = "rr"
    prior: tuple[float, ...] = ()
    """Label frequencies known from elsewhere; never those of the private labels."""

    def answers(self, num_labels: int) -> tuple[int, ...]:
        """The labels that can be answered."""
        if self.mechanism == "rr":
            return tuple(range(num_labels))
        if len(self.prior) != num_labels:
            raise ValueError(f"label_prior: expected {num_labels} probabilities, one a label, got {len(self.prior)}")
        return top_labels(self.epsilon, self.prior)

    def noise(self, num_labels: int) -> LabelNoise:
        """What a claim says of it. Two answers are as far apart as two of randomised response over the answered labels;
        the uniform answer of a label outside them is a mixture of those, and no further from any."""
        return LabelNoise(epsilon=self.epsilon, num_labels=len(self.answers(num_labels)))

    def randomised(self, labels: Sequence[int], num_labels: int, rng: np.random.Generator) -> tuple[int, ...]:
        """``labels``, each answered once."""
        given = np.asarray(labels, dtype=np.int64)
        if self.mechanism == "rr":
            return tuple(int(x) for x in randomise_labels(given, self.epsilon, num_labels, rng))
        self.answers(num_labels)
        return tuple(int(x) for x in randomise_labels_with_prior(given, self.epsilon, self.prior, rng))
