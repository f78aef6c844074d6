"""DP-Forward against what its claim says: the noise that is really there, and the best distinguishing test."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom, kstest, norm

from dpeval.context import RunContext
from dpeval.models.release import TextRelease
from dpeval.plugin import Task
from dpeval.types import NoClaim, Records
from dpeval_defenses.dp_forward import DPForward, NoisyRelease, bounded

TEXTS = ["a good day", "a bad day", "good tea again", "bad tea", "the good sun is", "the bad rain"]


def copies(text, count, prefix="c"):
    return Records(tuple(f"{prefix}{i}" for i in range(count)), (text,) * count, (0,) * count)


@pytest.mark.parametrize("name", ["bert", "distilbert", "electra"])
@pytest.mark.parametrize("position", ["embedding", "encoder.0.mha", "encoder.1.ffn", "encoder.1.add_norm_2", "output"])
def test_the_noise_that_leaves_is_normal_and_of_the_claimed_size(checkpoint_of, records_of, name, position):
    """Mean, deviation, normality; and no correlation between rows, columns, records or draws."""
    checkpoint = checkpoint_of(name, max_length=8)
    task = Task(records_of(TEXTS), 2, checkpoint)
    release = DPForward(position=position, epsilon=2.0, epochs=1).train(task, RunContext(0))
    sigma = dict(release.claim.details)["sigma"]
    silent = TextRelease.of(
        release.classifier, checkpoint, claim=NoClaim(), tap=position, transform=NoisyRelease(clip=1.0, sigma=0.0)
    )
    asked = copies("a good day", 200)
    clear = silent.embed(asked, position).values
    noise = [(release.embed(asked, position, draw=k).values - clear) / sigma for k in (0, 1)]
    rows, width = len(clear) // 200, clear.shape[1]
    z = np.stack([n.reshape(200, rows, width) for n in noise]).astype(np.float64)
    assert abs(z.mean()) < 4 / math.sqrt(z.size)
    assert abs(z.std() - 1) < 4 / math.sqrt(2 * z.size)
    assert kstest(z.ravel()[:20000], norm.cdf).pvalue > 1e-4
    pairs = {"draws": (z[0], z[1]), "records": (z[:, :-1], z[:, 1:]), "columns": (z[..., :-1], z[..., 1:])}
    if rows > 1:
        pairs["rows"] = (z[:, :, :-1], z[:, :, 1:])
    for what, (one, other) in pairs.items():
        assert abs((one * other).mean()) < 4.5 / math.sqrt(one.size), what


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_the_best_test_on_the_worst_pair_reaches_the_claimed_curve_and_not_more(epsilon):
    """x against −x: the likelihood ratio test's true-positive rate is at most e^ε·FPR + δ, and close to it.

    The pair attains the sensitivity, so at the threshold where the privacy loss is ε the bound holds with equality.
    """
    delta, draws = 0.01, 20000
    from dpeval_defenses.dp_forward.accounting import plan_noise

    sigma = plan_noise(epsilon=epsilon, delta=delta, clip=1.0, releases=1).sigma
    x = torch.randn(1, 2, 3, generator=torch.Generator().manual_seed(0))
    transform, generator = NoisyRelease(clip=1.0, sigma=sigma), torch.Generator().manual_seed(1)
    direction = bounded(x, clip=1.0, normalise=True).flatten()

    def scores(value):
        out = transform.apply(value.expand(draws, 2, 3), [generator] * draws)
        return (out.flatten(1) @ direction).numpy()

    threshold = epsilon * sigma**2 / 2
    hits, alarms = (int((scores(v) > threshold).sum()) for v in (x, -x))
    exact_hits, exact_alarms = norm.sf((threshold - 1) / sigma), norm.sf((threshold + 1) / sigma)
    assert exact_hits == pytest.approx(math.exp(epsilon) * exact_alarms + delta, rel=1e-4)
    for count, rate in ((hits, exact_hits), (alarms, exact_alarms)):
        assert binom.ppf(1e-4, draws, rate) <= count <= binom.ppf(1 - 1e-4, draws, rate)


def test_two_texts_through_the_whole_release_stay_below_the_claim(checkpoint_of, records_of):
    """The advantage of the optimal test between two texts of different length, against 2Φ(C/σ) − 1."""
    checkpoint = checkpoint_of("bert", max_length=8)
    release = DPForward(position="encoder.0.add_norm_2", epsilon=4.0, delta=1e-3, epochs=1).train(
        Task(records_of(TEXTS), 2, checkpoint), RunContext(0)
    )
    sigma, n = dict(release.claim.details)["sigma"], 2000
    silent = TextRelease.of(
        release.classifier, checkpoint, claim=NoClaim(), tap=release.tap, transform=NoisyRelease(clip=1.0, sigma=0.0)
    )
    clear = [silent.embed(copies(t, 1), release.tap).values for t in ("tea", "the cold old car is")]
    direction, distance = (clear[0] - clear[1]).ravel(), float(np.linalg.norm(clear[0] - clear[1]))
    middle = float((clear[0] + clear[1]).ravel() @ direction) / 2
    sides = [
        release.embed(copies(t, n, t), release.tap).values.reshape(n, -1) @ direction > middle
        for t in ("tea", "the cold old car is")
    ]
    advantage = sides[0].mean() - sides[1].mean()
    expected = 2 * norm.cdf(distance / (2 * sigma)) - 1
    assert abs(advantage - expected) < 4 / math.sqrt(n)
    assert distance <= 2.0
    assert expected <= 2 * norm.cdf(1 / sigma) - 1
