"""Finding planted canaries by how well the model knows their random labels.

>>> import numpy as np
>>> from dpeval.types import Predictions
>>> class Remembers:
...     def predict(self, records, *, draw=0):
...         return Predictions(records.ids, np.log([[0.9, 0.1], [0.5, 0.5]]))
>>> canaries = Records(ids=("planted", "withheld"), texts=("a", "b"), labels=(0, 0))
>>> CanaryExtraction().extract(Remembers(), canaries, None, None).values.round(2).tolist()
[2.2, 0.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpeval.plugin import Context, ExtractionAttack, Knowledge, PredictionView
from dpeval.types import Records, Scores
from dpeval_attacks.draws import check_queries
from dpeval_attacks.membership.lira import likelihood_ratio
from dpeval_attacks.membership.references import answers, ask, check_shadows
from dpeval_attacks.membership.signals import signal_values


@dataclass(frozen=True, kw_only=True)
class CanaryExtraction(ExtractionAttack):
    """An adversary that knows which canaries may have been planted and asks the model for the label of each.

    A canary's words and label are random, so nothing but training on it makes a model sure of the label. The score is
    the log-odds of that label; dpeval ranks each planted canary among those held out, which gives its exposure, and
    audits the claim with the coins that planted them. ``queries`` asks a randomised release so many times and averages
    the probabilities. With ``shadows``, which plant canaries by coins of their own, the score is how much likelier such
    log-odds are from shadow releases that were trained on the canary than from those that were not
    (:func:`.lira.likelihood_ratio`): a canary whose label suits its words by chance then stands out less.
    """

    source: ClassVar[str] = (
        "Carlini et al. 2019, arXiv:1802.08232, §4; Steinke, Nasr and Jagielski 2023, arXiv:2305.08846"
    )
    version: ClassVar[int] = 2

    shadows: int = 0
    queries: int = 1

    def __post_init__(self) -> None:
        if self.shadows:
            check_shadows(self.shadows)
        check_queries(self.queries)

    def extract(self, view: PredictionView, candidates: Records, knowledge: Knowledge, ctx: Context) -> Scores:
        """One score per canary, float64 and finite; ValueError for fewer than two classes or an unknown label."""
        del knowledge
        if not self.shadows:
            labels = np.asarray(candidates.labels, dtype=np.int64)
            return Scores(candidates.ids, signal_values("confidence", answers(view, candidates, self.queries), labels))
        found = ask(view, ctx.shadows(self.shadows), candidates, self.queries)
        target = signal_values("confidence", found.target, found.labels)
        shadows = np.stack([signal_values("confidence", answer, found.labels) for answer in found.shadows])
        return Scores(candidates.ids, likelihood_ratio(target, shadows, found.inside))
