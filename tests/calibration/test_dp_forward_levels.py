"""The best distinguishing test against finished releases, as a user gets them, at every level and several ε.

The model is made so that two texts reach the sensitivity exactly: the words "tea" and "soup" have opposite embeddings,
special tokens have none, and the attention's maps stretch all directions alike. Then the claimed curve must be met, not
only kept: at the threshold where the privacy loss is ε, hits − e^ε·false alarms = δ.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from dpeval.context import RunContext
from dpeval.plugin import Task
from dpeval.types import Records
from dpeval_defenses.dp_forward import DPForward

TEXTS = ["a good day", "a bad day", "good tea again", "bad soup"]
DELTA, DRAWS = 0.02, 4000
LEVELS = {
    "sequence": {"position": "embedding"},
    "sequence, clipped": {"position": "embedding", "normalise": False, "clip": 0.5},
    "sequence, public length": {"position": "embedding", "length_is_public": True},
    "sequence, matrix": {"position": "embedding", "mechanism": "matrix"},
    "token": {"level": "token", "position": "embedding", "clip": 2.0},
    "token-attention": {"level": "token-attention", "position": "encoder.0.qkv"},
    "answers of another epsilon": {"position": "embedding", "epsilon": 3.0},
}


def opposed(checkpoint):
    """``checkpoint`` with the embeddings and maps of the module's docstring."""
    build = checkpoint.build
    ids = {word: checkpoint.tokenizer.convert_tokens_to_ids(word) for word in ("tea", "soup")}

    def changed(num_labels, seed):
        model = build(num_labels, seed)
        parts = model.encoder.embeddings
        with torch.no_grad():
            for table in (parts.position_embeddings, parts.token_type_embeddings):
                table.weight.zero_()
            parts.word_embeddings.weight[sorted(checkpoint.special_ids)] = 0.0
            parts.word_embeddings.weight[ids["soup"]] = -parts.word_embeddings.weight[ids["tea"]]
            parts.LayerNorm.bias.zero_()
            attention = model.encoder.encoder.layer[0].attention.self
            for each in (attention.query, attention.key, attention.value):
                each.weight.copy_(2 * torch.eye(16))
        return model

    object.__setattr__(checkpoint, "build", changed)
    return checkpoint


def asked(text):
    return Records(tuple(f"{text}{i}" for i in range(DRAWS)), (text,) * DRAWS, (0,) * DRAWS)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("level", LEVELS)
def test_the_best_test_meets_the_claimed_curve(checkpoint_of, records_of, level, epsilon):
    checkpoint = opposed(checkpoint_of("bert", max_length=4))
    settings = {"epsilon": epsilon, "delta": DELTA, "epochs": 1} | LEVELS[level]
    if settings["epsilon"] != epsilon:
        settings["inference"] = epsilon
    release = DPForward(**settings).train(Task(records_of(TEXTS), 2, checkpoint), RunContext(0))
    details = dict(release.claim.details)
    sensitivity, sigma = details["sensitivity"], release.noise.sigma
    quiet = release.noisier(0.0)
    clear = [quiet.embed(asked(text), release.tap).rows(0).astype(np.float64) for text in ("tea", "soup")]
    difference = clear[0] - clear[1]
    assert sensitivity * 0.999 <= np.linalg.norm(difference) <= sensitivity
    middle = float(((clear[0] + clear[1]) / 2).ravel() @ difference.ravel())
    threshold = middle + epsilon * sigma**2  # the log-likelihood ratio is ⟨y − middle, difference⟩/σ²
    found = []
    for text in ("tea", "soup"):
        answers = release.embed(asked(text), release.tap).values.reshape(DRAWS, -1).astype(np.float64)
        found.append(int((answers @ difference.ravel() > threshold).sum()))
    mu = np.linalg.norm(difference) / sigma
    hits, alarms = norm.cdf(mu / 2 - epsilon / mu), norm.cdf(-mu / 2 - epsilon / mu)
    assert hits - math.exp(epsilon) * alarms == pytest.approx(DELTA, rel=0.03)
    for count, rate in zip(found, (hits, alarms), strict=True):
        assert binom.ppf(1e-4, DRAWS, rate) <= count <= binom.ppf(1 - 1e-4, DRAWS, rate)
