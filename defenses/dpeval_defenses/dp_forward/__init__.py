"""DP-Forward (Du et al. 2023, arXiv:2309.06746): noise on the forward pass, so that each text is private locally.

>>> DPForward(position="encoder.2.add_norm_2", epsilon=4).releases_at()
'encoder.2.add_norm_2'
"""

from __future__ import annotations

from dpeval_defenses.dp_forward.defense import DPForward
from dpeval_defenses.dp_forward.noise import NoisyRelease, bounded

__all__ = ["DPForward", "NoisyRelease", "bounded"]
