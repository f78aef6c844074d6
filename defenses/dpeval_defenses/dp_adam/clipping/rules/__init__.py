"""Exact rules for the operations that use parameters: one file for each kind.

>>> len(RULES)
6
"""

from . import embedding, linear, norm

RULES = {**linear.RULES, **embedding.RULES, **norm.RULES}
