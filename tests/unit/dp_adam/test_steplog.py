"""What a training says of itself: σ_eff and the ratio of signal to noise, step by step and in the report."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpeval.context import RunContext
from dpeval.plugin import Task
from dpeval_defenses.dp_adam import DPAdam
from dpeval_defenses.dp_adam.noise import SeededNoise
from dpeval_defenses.dp_adam.steplog import StepLog, summary


def test_signal_to_noise_is_that_of_what_the_step_really_summed(problem) -> None:
    """Oracle: clip and sum the gradients by hand, draw the same noise again, and divide the norms."""
    p = problem()
    trainer = p.trainer(rate=0.5, noise_multiplier=2.0, max_norm=0.5, micro_batch=3)
    at = trainer.sampler.draw(0)
    total = [torch.zeros_like(w) for w in p.model.parameters()]
    for i in at:
        gradients = torch.autograd.grad(p.loss(np.array([i]))[0], list(p.model.parameters()))
        factor = min(1.0, 0.5 / float(torch.stack([g.square().sum() for g in gradients]).sum().sqrt()))
        total = [t + factor * g for t, g in zip(total, gradients, strict=True)]
    noise = [SeededNoise(6).standard(0, i, t.shape).to(t) * 2.0 * 0.5 for i, t in enumerate(total)]
    entry = trainer.step()
    norms = [float(torch.stack([t.square().sum() for t in parts]).sum().sqrt()) for parts in (total, noise)]
    assert entry.signal_to_noise == pytest.approx(norms[0] / norms[1], rel=1e-6)
    assert entry.sigma_eff == 2.0 / 0.5
    trainer.close()


def test_the_summary_tells_where_the_signal_was_lost() -> None:
    def entry(step: int, ratio: float) -> StepLog:
        return StepLog(step=step, drawn=step, learning_rate=0.1, sigma_eff=40.0, mean_norm=1.0, clipped=0.5, dropped=0,
                       signal_to_noise=ratio)  # fmt: skip

    found = summary([entry(i, r) for i, r in enumerate((9.0, 7.0, 5.0, 4.0, 1.0))], num_records=200)
    assert found["signal to noise, first third"] == 8.0
    assert found["signal to noise, last third"] == 2.5
    assert found["signal to noise"] == pytest.approx(5.2)
    assert found["empty draws"] == 1.0
    assert found["noise multiplier over expected batch"] == 0.2
    assert "signal to noise" not in summary([entry(0, float("inf"))])


def test_a_release_knows_sigma_over_its_expected_batch(tiny) -> None:
    """σ/(qN) = σ/B: 1.5 over an expected batch of 20."""
    defense = DPAdam(adapt="head", noise_multiplier=1.5, batch_size=20, epochs=2)
    release = defense.train(Task(tiny.records, 2, tiny.checkpoint), RunContext(0))
    assert release.diagnostics["effective noise multiplier"] == pytest.approx(1.5 * 80 / 20)
    assert release.diagnostics["noise multiplier over expected batch"] == pytest.approx(1.5 / 20)
