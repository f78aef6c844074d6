"""DP-Forward's own "central ε": what its tables print, and why it is not a guarantee.

The paper (Du et al. 2023, section 3.4) turns local noise into a central ε by accounting k epochs over N records as k·N
Poisson-sampled Gaussian steps of rate 1/N and sensitivity C. Nothing is sampled like that when users send their noisy
embeddings, and any two inputs are 2C apart; the number is kept so that the published tables can be compared.

>>> report = translated_epsilon(0.5, 1e-5, num_records=1000, epochs=3)
>>> report.accountant, report.is_bound, round(report.value, 2)
('paper_translation', False, 3.94)
"""

from __future__ import annotations

from dataclasses import replace

from dpeval.privacy.accountants import EpsilonReport, epsilon
from dpeval.privacy.calibration import calibrate
from dpeval.privacy.mechanisms import SampledGaussian

PAPER_TRANSLATION = "paper_translation"


def translated_epsilon(sigma_over_clip: float, delta: float, *, num_records: int, epochs: int) -> EpsilonReport:
    """The paper's central ε for noise of deviation ``sigma_over_clip``·C; marked as no bound."""
    run = SampledGaussian(sigma_over_clip, 1 / num_records, epochs * num_records)
    report = epsilon(run, delta, accountant="pld")
    note = "the paper's translation: it accounts a sampling that does not take place, and sensitivity C in place of 2C"
    return replace(report, accountant=PAPER_TRANSLATION, is_bound=False, note=note)


def translation_sigma(central_epsilon: float, delta: float, *, num_records: int, epochs: int) -> float:
    """The noise (over C) that the paper's translation asks for; see the module for what it is not."""
    return calibrate(central_epsilon, delta, 1 / num_records, epochs * num_records, accountant="pld")
