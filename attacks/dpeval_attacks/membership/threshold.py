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

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpeval.plugin import Context, Knowledge, MembershipAttack, PredictionView
from dpeval.types import Records, Scores
from dpeval_attacks.draws import check_queries, mean_probabilities, order_of
from dpeval_attacks.membership.signals import SIGNALS, Signal, signal_values


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
    """

    source: ClassVar[str] = "Yeom et al. 2018 (arXiv:1709.01604); Song and Mittal 2021 (arXiv:2003.10595)"

    signal: Signal = "confidence"
    queries: int = 1

    def __post_init__(self) -> None:
        if self.signal not in SIGNALS:
            raise ValueError(f"ThresholdAttack: expected signal to be one of {', '.join(SIGNALS)}, got {self.signal!r}")
        check_queries(self.queries)

    def score(self, view: PredictionView, candidates: Records, knowledge: Knowledge, ctx: Context) -> Scores:
        """One score per candidate, float64 and finite; errors as in :func:`.signals.signal_values`."""
        del knowledge, ctx
        answer = mean_probabilities(lambda draw: view.predict(candidates, draw=draw), self.queries)
        log_probs = answer.log_probs[order_of(answer.ids, candidates.ids)]
        labels = np.asarray(candidates.labels, dtype=np.int64)
        return Scores(candidates.ids, signal_values(self.signal, log_probs, labels))
