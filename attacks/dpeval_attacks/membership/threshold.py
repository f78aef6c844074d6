"""Membership inference with one score read off the model's answer and no training: the attack to try first.

>>> import numpy as np
>>> from dpeval.types import Predictions, Records
>>> class Overfit:
...     def predict(self, records, *, draw=0):
...         return Predictions(records.ids, np.log([[0.99, 0.01], [0.6, 0.4]]))
>>> candidates = Records(ids=("seen", "new"), texts=("a", "b"), labels=(0, 0))
>>> ThresholdAttack().score(Overfit(), candidates, None, None).values.round(2).tolist()
[4.6, 0.41]
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpeval.plugin import Context, Knowledge, MembershipAttack, PredictionView
from dpeval.types import Floats, Ints, Records, Scores
from dpeval_attacks.draws import check_queries
from dpeval_attacks.membership.perclass import standardised
from dpeval_attacks.membership.references import answers
from dpeval_attacks.membership.signals import LABEL_FREE, SIGNALS, Signal, signal_values


@dataclass(frozen=True, kw_only=True)
class ThresholdAttack(MembershipAttack):
    """An adversary that may ask the model and believes that models are surer of what they were trained on.

    It has the candidate texts with their labels and black-box access to class probabilities; it wants to know which
    candidates were trained on. It asks for each candidate, ``queries`` times where the answer is randomised, averages
    the probabilities, and calls the surest answers members. Where the line is drawn is not its business: it returns
    the score and dpeval freezes a threshold on records apart.

    ``signal`` is what it reads off the answer, always turned so that higher means member: ``confidence`` (log-odds of
    the true class), ``loss`` (log-probability of the true class), ``entropy`` and ``modified-entropy`` (Song and Mittal
    2021), ``top-confidence`` (log-odds of the predicted class, for an adversary without labels), ``margin`` (lead over
    the strongest wrong class). For one query ``confidence`` and ``loss`` put the candidates in the same order, since
    one is an increasing function of the other; they differ where probabilities are so close to one that the loss
    rounds to zero, and as the input of anything that fits a distribution. With two classes ``margin`` equals
    ``confidence``.

    ``thresholds = "per-class"`` scores each candidate in units of its class (:mod:`.perclass`), so that the one frozen
    threshold is a threshold for each class; signals without the true label take the predicted class.
    ``protocol = "published"`` is that of Du et al. (2023), with perturbed non-members, for comparison: what it tells
    apart is edited text from unedited, so the sound version always stands beside it and no conclusion is drawn.
    """

    source: ClassVar[str] = "Yeom et al. 2018 (arXiv:1709.01604); Song and Mittal 2021 (arXiv:2003.10595)"

    signal: Signal = "confidence"
    queries: int = 1
    thresholds: Literal["global", "per-class"] = "global"
    protocol: Literal["sound", "published"] = "sound"

    @property
    def sound(self) -> ThresholdAttack:
        """The same attack on candidates as they were drawn."""
        return self if self.protocol == "sound" else dataclasses.replace(self, protocol="sound")

    def __post_init__(self) -> None:
        if self.signal not in SIGNALS:
            raise ValueError(f"ThresholdAttack: expected signal to be one of {', '.join(SIGNALS)}, got {self.signal!r}")
        check_queries(self.queries)

    def score(self, view: PredictionView, candidates: Records, knowledge: Knowledge, ctx: Context) -> Scores:
        """One score per candidate, float64 and finite; errors as in :func:`.signals.signal_values`."""
        del ctx
        values, classes = self._read(view, candidates)
        if self.thresholds == "per-class":
            values = standardised(values, classes, *self._read(view, self._usable(knowledge.auxiliary)))
        return Scores(candidates.ids, values)

    def _read(self, view: PredictionView, records: Records) -> tuple[Floats, Ints]:
        """The signal of each record, and the class that it is compared within."""
        log_probs = answers(view, records, self.queries)
        labels = np.asarray(records.labels, dtype=np.int64)
        classes = log_probs.argmax(axis=1) if self.signal in LABEL_FREE else labels
        return signal_values(self.signal, log_probs, labels), classes

    def _usable(self, records: Records) -> Records:
        """The records whose signal can be read."""
        free = self.signal in LABEL_FREE
        return records.take(i for i, label in enumerate(records.labels) if free or label >= 0)
