"""The one-step distinguishing attack: is the noise really added what the claim says?

The strongest adversary for one step knows everything but whether the canary took part: it subtracts the other
gradients and looks along the canary's direction. Its empirical ε must respect the claim, and come close to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import stats

from dpeval.privacy.gaussian import epsilon_of_gaussian
from dpeval.privacy.sampled import SampledGaussian, epsilon
from dpeval_defenses.dp_adam import PoissonSampler, PrivateTrainer, SeededNoise, TrainSettings

CLIP, SIGMA, RECORDS, WIDTH, DELTA = 0.3, 1.0, 6, 5, 0.01


@dataclass(frozen=True)
class Halved:
    """A defense with a bug: half the noise that it is accounted for."""

    inner: SeededNoise
    repeatable: ClassVar[bool] = True

    def standard(self, step: int, index: int, shape: Sequence[int]) -> torch.Tensor:
        return self.inner.standard(step, index, shape) / 2


def observe(steps: int, noise: object, *, canary: bool, rate: float = 1.0) -> np.ndarray:
    """What the adversary sees along the canary's direction in each of ``steps`` independent steps, in units of C.

    The losses are linear, so that no gradient depends on the weights and each step repeats the same experiment.
    """
    x = torch.randn(RECORDS, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x[:, 0] = 0.0
    x[-1] = torch.tensor([50.0 if canary else 0.0, *[0.0] * (WIDTH - 1)])
    model = torch.nn.Linear(WIDTH, 1, bias=False).double()
    settings = TrainSettings(
        steps=steps, max_norm=CLIP, noise_multiplier=SIGMA, learning_rate=1.0, optimizer="sgd", schedule="constant"
    )
    trainer = PrivateTrainer(
        model,
        lambda at: model(x[at])[:, 0],
        PoissonSampler(RECORDS, rate, 5),
        noise,
        settings,  # type: ignore[arg-type]
    )
    seen = []
    for _ in range(steps):
        before = model.weight.detach().clone()
        trainer.step()
        seen.append(float((before - model.weight.detach())[0, 0]) * rate * RECORDS / CLIP)
    trainer.close()
    return np.array(seen)


def lower_bound(inside: np.ndarray, outside: np.ndarray, threshold: float, delta: float) -> float:
    """Clopper-Pearson, 97.5 % on each rate: ln((TPR - δ) / FPR), the threshold fixed beforehand."""
    tpr = stats.beta.ppf(0.025, (inside > threshold).sum(), (inside <= threshold).sum() + 1)
    fpr = stats.beta.ppf(0.975, (outside > threshold).sum() + 1, (outside <= threshold).sum())
    return float(np.log(max(tpr - delta, 1e-12) / fpr))


def audit(steps: int, make_noise: type[SeededNoise | Halved], rate: float = 1.0, threshold: float = 1.5) -> float:
    noises = [SeededNoise(21), SeededNoise(22)]
    if make_noise is Halved:
        noises = [Halved(n) for n in noises]  # type: ignore[misc]
    inside, outside = (observe(steps, n, canary=c, rate=rate) for n, c in zip(noises, (True, False), strict=True))
    return lower_bound(inside, outside, threshold, DELTA)


def test_the_attack_respects_the_claim_and_approaches_it() -> None:
    """1,500 steps with and without the canary: the bound is below ε, the Gaussian fit within 10 % of it."""
    claimed = epsilon(SampledGaussian(SIGMA, 1.0, 1), DELTA, accountant="pld").value
    inside, outside = (observe(1500, SeededNoise(e), canary=c) for e, c in ((21, True), (22, False)))
    assert 0.5 * claimed < lower_bound(inside, outside, 1.5, DELTA) < claimed
    mu = (inside.mean() - outside.mean()) / np.sqrt((inside.var() + outside.var()) / 2)
    assert epsilon_of_gaussian(mu, DELTA) == pytest.approx(claimed, rel=0.1)
    assert stats.kstest(outside, "norm", args=(0, SIGMA)).pvalue > 1e-4


def test_half_the_noise_is_refuted() -> None:
    """The same attack on a defense with a bug ends above the claim: the test above can fail."""
    claimed = epsilon(SampledGaussian(SIGMA, 1.0, 1), DELTA, accountant="pld").value
    assert audit(1500, Halved, threshold=1.25) > claimed


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_with_poisson_sampling_the_attack_respects_the_smaller_claim(rate: float) -> None:
    """Sampling is worth what the accountant says: the bound stays below ε(q), and above a third of it."""
    claimed = epsilon(SampledGaussian(SIGMA, rate, 1), DELTA, accountant="pld").value
    found = audit(15_000, SeededNoise, rate=rate, threshold=2.0)
    assert claimed / 3 < found < claimed
