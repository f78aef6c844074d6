"""Exact per-example gradient clipping: usable on its own in a plain PyTorch loop.

>>> ClippedGradients.__name__
'ClippedGradients'
"""

from .checks import ClippingError
from .engine import ClippedGradients, ModeName
from .verify import Verification, VerificationError

__all__ = ["ClippedGradients", "ClippingError", "ModeName", "Verification", "VerificationError"]
