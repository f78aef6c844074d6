"""The noise that is really added, at positions of several architectures: zero mean, calibrated σ, normal, independent.

What is released minus what the same release bounds (the same client, σ = 0) is the noise. Each bound below fails by
chance less than once in ten thousand runs; seeds are fixed, so a test passes always or never.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from dpeval.context import RunContext
from dpeval.plugin import Task
from dpeval_defenses.dp_forward import DPForward
from dpeval_defenses.dp_forward.training import TrainingTexts

TEXTS = ["a good day", "a bad day and a warm night", "tea", "the new blue road was never one two", "we is old"] * 8
ROWS, WIDTH = 16, 16
WHERE = [
    ("bert", "embedding"), ("bert", "encoder.1.mha"), ("bert", "output"), ("roberta", "encoder.0.ffn"),
    ("distilbert", "encoder.1.add_norm_1"), ("electra", "encoder.0.add_norm_2"), ("albert", "encoder.1.ffn"),
    ("mpnet", "encoder.0.mha"), ("deberta", "encoder.1.add_norm_2"), ("gpt2_no_pad", "encoder.0.add_norm_1"),
    ("gpt2_no_pad", "h.1"),
]  # fmt: skip


def release_of(checkpoint, records, position, **options):
    settings = {"epochs": 1, "batch_size": 8, "epsilon": 4.0, "delta": 1e-5, "clip": 2.0} | options
    return DPForward(position=position, **settings).train(Task(records, 2, checkpoint), RunContext(3))


def noise_of(release, records, draws=(0,)):
    """The noise of every answer, shape (draws, texts, rows, width), float64."""
    silent = dataclasses.replace(release, transform=dataclasses.replace(release.transform, sigma=0.0))
    clear = silent.embed(records, release.tap).values.astype(np.float64)
    noisy = [release.embed(records, release.tap, draw=draw).values.astype(np.float64) for draw in draws]
    return (np.stack(noisy) - clear).reshape(len(draws), len(records), -1, clear.shape[1])


def correlation(one, other):
    """Pearson's, as a normal deviate."""
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1] * math.sqrt(one.size))


@pytest.mark.parametrize(("name", "position"), WHERE)
def test_the_noise_of_an_answer_is_normal_with_the_sigma_of_the_claim(checkpoint_of, records_of, name, position):
    records = records_of(TEXTS)
    release = release_of(checkpoint_of(name), records, position)
    noise = noise_of(release, records, draws=range(4))
    sigma, n = dict(release.claim.details)["sigma"], noise.size
    assert noise.shape[1:] == (40, 1 if position == "output" else ROWS, WIDTH)
    assert abs(noise.mean()) < 4 * sigma / math.sqrt(n)
    assert abs(noise.var() / sigma**2 - 1) < 4 * math.sqrt(2 / n)
    assert stats.kstest(noise.ravel() / sigma, "norm").pvalue > 1e-4
    assert abs(stats.kurtosis(noise.ravel())) < 4 * math.sqrt(24 / n)
    # Every row and every column has it in full: also rows of padding, where texts are short.
    for axis in ((0, 1, 3), (0, 1, 2)):
        parts = noise.var(axis=axis) / sigma**2
        assert np.abs(parts - 1).max() < 5 * math.sqrt(2 / (n / parts.size))


@pytest.mark.parametrize(("name", "position"), WHERE)
def test_rows_columns_texts_and_draws_are_independent(checkpoint_of, records_of, name, position):
    records = records_of(TEXTS)
    noise = noise_of(release_of(checkpoint_of(name), records, position), records, draws=range(4))
    draws, texts = noise[1:], noise[:, 1:]
    assert abs(correlation(noise[:-1], draws)) < 4
    assert abs(correlation(noise[:, :-1], texts)) < 4
    assert abs(correlation(noise[..., :-1], noise[..., 1:])) < 4
    if position != "output":
        assert abs(correlation(noise[..., :-1, :], noise[..., 1:, :])) < 4
        assert abs(correlation(noise[..., :1, :], noise[..., -1:, :])) < 4


@pytest.mark.parametrize(("name", "position"), [("bert", "embedding"), ("gpt2_no_pad", "encoder.1.ffn")])
def test_one_text_under_two_names_or_seeds_gets_other_noise_and_the_same_draw_the_same(
    checkpoint_of, records_of, name, position
):
    checkpoint = checkpoint_of(name)
    same = records_of(["a good day"] * 40)
    release = release_of(checkpoint, same, position)
    noise = noise_of(release, same)
    assert abs(correlation(noise[:, :-1], noise[:, 1:])) < 4
    assert np.array_equal(noise, noise_of(release, same))
    other = dataclasses.replace(release, seed=release.seed + 1)
    assert abs(correlation(noise, noise_of(other, same))) < 4


@pytest.mark.parametrize("level", ["sequence", "token"])
@pytest.mark.parametrize("regime", ["frozen", "frozen-fresh"])
def test_training_noise_is_as_claimed_and_new_in_each_epoch_where_it_says_so(
    checkpoint_of, records_of, monkeypatch, regime, level
):
    """Watches every draw of a training: its size, and whether it is drawn anew."""
    drawn, true = {}, TrainingTexts.noised

    def watched(self, clear, rows, epoch, transform):
        made = true(self, clear, rows, epoch, transform)
        silent = true(self, clear, rows, epoch, dataclasses.replace(transform, sigma=0.0))
        for row, noisy, bounded in zip(rows, made, silent, strict=True):
            drawn[row, epoch] = (noisy - bounded).double().numpy()
        return made

    monkeypatch.setattr(TrainingTexts, "noised", watched)
    records = records_of(TEXTS)
    options = {"training": regime, "epochs": 3, "level": level}
    release = release_of(checkpoint_of("bert"), records, "embedding", **options)
    sigma = dict(release.claim.details)["sigma"]
    noise = np.stack([drawn[key] for key in sorted(drawn)])
    assert len(drawn) == (3 if regime == "frozen-fresh" else 1) * len(records)
    assert abs(noise.mean()) < 4 * sigma / math.sqrt(noise.size)
    assert abs(noise.var() / sigma**2 - 1) < 4 * math.sqrt(2 / noise.size)
    assert stats.kstest(noise.ravel() / sigma, "norm").pvalue > 1e-4
    assert abs(correlation(noise[:-1], noise[1:])) < 4
    if regime == "frozen-fresh":
        first, second = (np.stack([drawn[row, epoch] for row in range(40)]) for epoch in (0, 1))
        assert abs(correlation(first, second)) < 4
