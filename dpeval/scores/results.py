"""What an audit of scores found, as one frozen record.

>>> Inclusion("independent-coins") is Inclusion.COINS
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from dpeval.measure.epsilon import EpsilonBound
from dpeval.measure.membership import ppv_name, tpr_name
from dpeval.measure.results import Detail
from dpeval.types import Estimate, Measured, Undefined
from dpeval.verdict import Refuted, Verdict


class Inclusion(StrEnum):
    """How it was decided which records are members: it decides which bound on ε may refute a claim."""

    UNSTATED = "unstated"
    """Nothing is known; the scores are taken for independent trials, and the verdict says so."""
    TRIALS = "independent-trials"
    """Each score comes from its own training run, or from its own draw of the released noise."""
    COINS = "independent-coins"
    """One or a few training runs; each record was included by its own fair coin (records of one group share one)."""


ASSUMED: Mapping[Inclusion, str] = MappingProxyType(
    {
        Inclusion.UNSTATED: "each score is an independent trial, from its own training run or its own draw of noise; "
        "this was not stated, and scores of many records of one model are not",
        Inclusion.TRIALS: "each score is an independent trial, from its own training run or its own draw of noise, as "
        "was stated",
        Inclusion.COINS: "each record was included by its own fair coin, as was stated",
    }
)
"""What a verdict rests on."""
_ALONE = (
    "; and no two records of a group were trained on together, for that is more than the claim for one record covers"
)

RATES, GAUSSIAN, ONE_RUN = "two error rates", "Gaussian mechanism", "one run"


@dataclass(frozen=True, kw_only=True)
class ScoreAudit:
    """Every measure of one set of scores; each number with its interval, or the reason why it has none."""

    members: int
    nonmembers: int
    models: int
    groups: int | None
    """How many groups the records fall into, where groups were given."""
    estimates: Mapping[str, Measured]
    """``auc``, ``tpr@1%fpr``, ``balanced_accuracy``, ``advantage``, ``ppv@10%`` …, in this order."""
    bounds: Mapping[str, EpsilonBound | Undefined]
    """Lower bounds on ε at ``delta``: by two error rates, for a Gaussian mechanism, and from one run of coins."""
    inclusion: Inclusion
    delta: float
    level: float
    prevalence: float
    detectable_auc: float | None
    """The smallest AUC that would have been told from 0.5 with 80 % power; ``None`` for one class."""
    thresholds: tuple[float, ...] = ()
    """The frozen threshold of each model, chosen on the calibration half."""
    verdict: Verdict | None = None
    """What became of the stated claim; ``None`` where none was stated."""
    invalid: bool = False
    """Whether the blind attacker, which sees the texts and no score, tells members from non-members."""
    warnings: tuple[str, ...] = ()
    exposed: tuple[Mapping[str, Detail], ...] = ()
    """The most exposed members by id, most exposed first: ``id``, ``excess``, ``p``, ``models_as_member``."""
    details: Mapping[str, Detail] = field(default_factory=dict)

    @property
    def auc(self) -> Measured:
        """Area under the ROC curve."""
        return self.estimates["auc"]

    @property
    def balanced_accuracy(self) -> Measured:
        """(TPR + TNR) / 2 at the frozen threshold."""
        return self.estimates["balanced_accuracy"]

    @property
    def advantage(self) -> Measured:
        """TPR minus FPR at the frozen threshold."""
        return self.estimates["advantage"]

    @property
    def ppv(self) -> Measured:
        """The share of true members among those called so, where members are as rare as ``prevalence``."""
        return self.estimates[ppv_name(self.prevalence)]

    def tpr_at(self, fpr: float) -> Measured:
        """The true positive rate at a false positive rate, where it was asked for."""
        name = tpr_name(fpr)
        if name not in self.estimates:
            raise KeyError(f"{name} was not measured; measured are {', '.join(self.estimates)}")
        return self.estimates[name]

    @property
    def epsilon(self) -> EpsilonBound | Undefined:
        """The lower bound on ε that the stated design supports, and that judges a claim."""
        return self.bounds[ONE_RUN if self.inclusion is Inclusion.COINS else RATES]

    @property
    def epsilon_rates(self) -> EpsilonBound | Undefined:
        """ε from two error rates (Clopper-Pearson), threshold chosen on one half and bounded on the other."""
        return self.bounds[RATES]

    @property
    def epsilon_gaussian(self) -> EpsilonBound | Undefined:
        """ε if the mechanism's trade-off curve is Gaussian: for reading, never for refuting."""
        return self.bounds[GAUSSIAN]

    @property
    def epsilon_one_run(self) -> EpsilonBound | Undefined:
        """ε from one run whose records were included by independent coins, where that was stated."""
        return self.bounds[ONE_RUN]

    @property
    def refuted(self) -> bool:
        """Whether the stated claim is refuted."""
        return isinstance(self.verdict, Refuted)

    @property
    def assumption(self) -> str:
        """What the verdict, and the bound behind it, rests on."""
        alone = "" if self.groups is None or self.inclusion is Inclusion.COINS else _ALONE
        return ASSUMED[self.inclusion] + alone

    @property
    def distinguishable(self) -> bool:
        """Whether the AUC's interval excludes 0.5."""
        return isinstance(self.auc, Estimate) and self.auc.excludes(0.5)

    def markdown(self) -> str:
        """The report as markdown."""
        from dpeval.scores.render import markdown

        return markdown(self)

    def json(self) -> dict[str, Any]:
        """The report as plain values; undefined ones are null with their reason."""
        from dpeval.scores.render import as_json

        return as_json(self)
