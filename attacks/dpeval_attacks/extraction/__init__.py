"""Attacks that extract planted or memorised text from a language model: canary and prefix attacks belong here.

Each is one module with a frozen dataclass on :class:`dpeval.plugin.ExtractionAttack`, registered in the entry-point
group ``dpeval.attacks``.

>>> from dpeval.plugin import ExtractionAttack
>>> ExtractionAttack.goal
'extraction'
"""
