"""From what the jobs stored to a :class:`~dpeval.results.RunResult`: joins labels, measures, judges, says it."""

from __future__ import annotations

from dpeval.collect.run import collect

__all__ = ["collect"]
