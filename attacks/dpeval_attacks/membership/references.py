"""What the target and the shadow releases answer about the same records, and which shadows were trained on which.

One question for each shadow and draw covers all records, whatever their number; a shadow is opened once for it.

>>> import numpy as np
>>> from dpeval.plugin import Shadow
>>> from dpeval.types import Predictions
>>> class Even:
...     def predict(self, records, *, draw=0):
...         return Predictions(records.ids, np.log(np.full((len(records), 2), 0.5)))
>>> both = Records(("a", "b"), ("a", "b"), (0, 1))
>>> found = ask(Even(), [Shadow(frozenset("a"), Even()), Shadow(frozenset("b"), Even())], both)
>>> found.inside.tolist(), found.shadows.shape
([[True, False], [False, True]], (2, 2, 2))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeval.plugin import PredictionView, Shadow
from dpeval.types import Floats, Ints, Records
from dpeval_attacks.draws import mean_probabilities, order_of

FEWEST = 2


@dataclass(frozen=True, eq=False)
class References:
    """Log-probabilities of n records by the target ``(n, classes)`` and by m shadows ``(m, n, classes)``, float64.

    ``inside`` ``(m, n)`` tells which shadow was trained on which record; ``labels`` ``(n,)``.
    """

    labels: Ints
    target: Floats
    shadows: Floats
    inside: NDArray[np.bool_]


def ask(view: PredictionView, shadows: Sequence[Shadow], records: Records, queries: int = 1) -> References:
    """Ask everyone about ``records``, ``queries`` times where answers are randomised; probabilities are averaged.

    Raises:
        ValueError: fewer than two shadows.
    """
    if len(shadows) < FEWEST:
        raise ValueError(f"expected at least {FEWEST} shadow releases to compare with, got {len(shadows)}")
    return References(
        labels=np.asarray(records.labels, dtype=np.int64),
        target=answers(view, records, queries),
        shadows=np.stack([answers(shadow.view, records, queries) for shadow in shadows]),
        inside=np.array([[key in shadow.trained_on for key in records.ids] for shadow in shadows], dtype=np.bool_),
    )


def answers(view: PredictionView, records: Records, queries: int) -> Floats:
    """Log of the mean probabilities over ``queries`` draws, shape ``(n, classes)``, in the order of ``records``."""
    answer = mean_probabilities(lambda draw: view.predict(records, draw=draw), queries)
    found: Floats = answer.log_probs[order_of(answer.ids, records.ids)]
    return found


def check_shadows(shadows: int) -> None:
    """Refuse fewer shadow releases than one that was trained on a record and one that was not."""
    if shadows < FEWEST or shadows % 2:
        raise ValueError(f"shadows: expected an even number of at least {FEWEST} (they come in pairs), got {shadows}")


def masked_mean(values: Floats, mask: NDArray[np.bool_]) -> Floats:
    """The mean over the first axis where ``mask`` holds, shape ``(n,)``; NaN where it holds nowhere."""
    count = mask.sum(axis=0)
    total: Floats = np.where(mask, values, 0.0).sum(axis=0) / np.where(count, count, np.nan)
    return total


def auc(scores: Floats, inside: NDArray[np.bool_]) -> float:
    """How well the adversary tells its own shadow's training records apart: P(in > out), ties counted half."""
    from scipy.stats import rankdata

    ins, outs = int(inside.sum()), int((~inside).sum())
    if not ins or not outs:
        return 0.5
    return float((rankdata(scores)[inside].sum() - ins * (ins + 1) / 2) / (ins * outs))
