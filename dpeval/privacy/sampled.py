"""DP-SGD's privacy arithmetic in one place: what was done, what it is worth, and the noise that a target needs.

>>> sigma = calibrate(8.0, 1e-5, 0.01, 1000, accountant="pld")
>>> report = epsilon(SampledGaussian(sigma, 0.01, 1000), 1e-5, accountant="pld")
>>> f"{sigma:.3f} {report.value:.2f} {report.accountant}"
'0.586 8.00 pld'
"""

from __future__ import annotations

from dpeval.privacy.accountants import ACCOUNTANTS, Accountant, EpsilonReport, epsilon, rdp_at
from dpeval.privacy.calibration import UnattainableError, calibrate, calibrate_mechanism, with_noise
from dpeval.privacy.loss_distribution import central_limit_mu
from dpeval.privacy.mechanisms import FixedSizeGaussian, Mechanism, SampledGaussian, ShuffledGaussian
from dpeval.privacy.renyi import EXTENDED_ORDERS

__all__ = [
    "ACCOUNTANTS", "EXTENDED_ORDERS", "Accountant", "EpsilonReport", "FixedSizeGaussian", "Mechanism",
    "SampledGaussian", "ShuffledGaussian", "UnattainableError", "calibrate", "calibrate_mechanism",
    "central_limit_mu", "epsilon", "rdp_at", "with_noise",
]  # fmt: skip
