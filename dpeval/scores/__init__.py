"""Scores in, report out: the measures of a run for membership scores made elsewhere, no model needed.

>>> from dpeval.scores import audit_scores
>>> found = audit_scores([0.9, 0.8, 0.7, 0.6] * 30, [0.1, 0.2, 0.3, 0.65] * 30)
>>> found.auc.value
0.9375
"""

from __future__ import annotations

from dpeval.scores.audit import audit_scores
from dpeval.scores.results import Inclusion, ScoreAudit

__all__ = ["Inclusion", "ScoreAudit", "audit_scores"]
