"""Log-odds of the true class, finite however sure the model is.

>>> import numpy as np
>>> log_odds(np.array([[20.0, 0.0], [120.0, 0.0]]), np.array([0, 0]))
array([ 20., 120.])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from dpeval.types import Floats


def log_odds(log_values: ArrayLike, labels: ArrayLike) -> Floats:
    """``log p_y - log Σ_{j≠y} p_j`` per row (Carlini et al. 2022, §V.A), from logits or log-probabilities.

    The other classes are summed instead of subtracting p_y from 1, so that nothing saturates.

    Args:
        log_values: float, shape ``(n, classes)``, at least two classes; logits or natural log-probabilities.
        labels: int, shape ``(n,)``.
    """
    values, y = np.asarray(log_values, dtype=np.float64), np.asarray(labels)
    if values.ndim != 2 or values.shape[1] < 2 or y.shape != (len(values),):
        raise ValueError(f"expected values (n, classes >= 2) and labels (n,), got {values.shape} and {y.shape}")
    rows = np.arange(len(values))
    others = values.copy()
    others[rows, y] = -np.inf
    out: Floats = values[rows, y] - logsumexp(others, axis=1)
    return out
