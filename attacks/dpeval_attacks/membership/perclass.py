"""Scores that one threshold cuts class by class: each in units of the spread among known non-members of its class.

Models are surer of some classes than of others, so that one line through raw scores mostly separates the classes. Song
and Mittal (2021) draw a line for each class. An adversary without labelled members does the same soundly with its
auxiliary records, of which it knows that the target was not trained on them: it measures each class by their median and
spread. A threshold t on the result is the threshold median_y + t · spread_y of each class y, and is still chosen, once,
on records apart.

>>> known = np.array([0.0, 1.0, 2.0, 10.0, 20.0, 30.0])
>>> standardised(np.array([2.0, 30.0]), np.array([0, 1]), known, np.array([0, 0, 0, 1, 1, 1]), fewest=3).tolist()
[1.0, 1.0]
"""

from __future__ import annotations

import numpy as np

from dpeval.types import Floats, Ints

FEWEST = 20
"""Known records of a class below which it is measured together with all the others."""


def standardised(scores: Floats, classes: Ints, known: Floats, known_classes: Ints, fewest: int = FEWEST) -> Floats:
    """``(score - median_y) / spread_y`` with median and mean absolute deviation of the known scores of class y.

    Args:
        scores, classes: of the records to be judged, shape ``(n,)``.
        known, known_classes: of records that were not trained on, shape ``(k,)``.
        fewest: classes with fewer known records, or with no spread, use those of all.
    """
    out = np.empty(len(scores))
    common = _measure(known)
    for label in np.unique(classes):
        mine = known[known_classes == label]
        middle, spread = _measure(mine) if len(mine) >= fewest else common
        if spread == 0:
            middle, spread = common
        out[classes == label] = (scores[classes == label] - middle) / (spread or 1.0)
    return out


def _measure(known: Floats) -> tuple[float, float]:
    if not len(known):
        return 0.0, 1.0
    middle = float(np.median(known))
    return middle, float(np.abs(known - middle).mean()) * len(known) / max(1, len(known) - 1)
