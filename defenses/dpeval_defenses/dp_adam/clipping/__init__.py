"""Exact per-example gradient clipping: usable on its own in a plain PyTorch loop.

>>> ClippedGradients.__name__
'ClippedGradients'
"""

from .checks import CannotClip
from .engine import ClippedGradients, ModeName
from .verify import NotPrivate, Verification

__all__ = ["CannotClip", "ClippedGradients", "ModeName", "NotPrivate", "Verification"]
