"""DP-Forward as a defense: what is frozen, what is noised how often, and what is claimed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm

from dpeval.context import RunContext
from dpeval.errors import LeakError
from dpeval.models.dependence import parameters_before
from dpeval.plugin import Task
from dpeval.types import Adjacency, Claim, Trust, Unit
from dpeval_defenses.dp_forward import DPForward

TEXTS = ["a good day", "a bad day", "good tea again", "bad tea", "the good sun is", "the bad rain"] * 3
REGIMES = ["frozen", "frozen-fresh", "trained"]


def train(checkpoint, records, seed=0, **options):
    return DPForward(**({"epochs": 2, "batch_size": 4} | options)).train(Task(records, 2, checkpoint), RunContext(seed))


def delta_of(epsilon, mu):
    """Balle and Wang 2018, Theorem 8, written out."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("clip", [1.0, 3.0])
def test_the_claim_follows_from_sigma_sensitivity_and_releases(checkpoint_of, records_of, regime, clip):
    """ε by hand from the numbers in the claim: S = 2C, k releases compose to μ√k, δ = 1/(2N)."""
    records = records_of(TEXTS)
    claim = train(checkpoint_of("bert"), records, training=regime, epsilon=4.0, epochs=3, clip=clip).claim
    assert isinstance(claim, Claim)
    details = dict(claim.details)
    releases = 3 if regime == "frozen-fresh" else 1
    assert (details["releases"], details["sensitivity"], claim.delta) == (releases, 2 * clip, 1 / (2 * len(records)))
    mu = math.sqrt(releases) * 2 * clip / details["sigma"]
    by_hand = brentq(lambda e: delta_of(e, mu) - claim.delta, 1e-9, 50, xtol=1e-12)
    assert by_hand == pytest.approx(claim.epsilon, rel=1e-6)
    assert claim.epsilon == pytest.approx(4.0, rel=1e-6)
    assert claim.epsilon <= 4.0
    assert claim.kind == (Unit.SEQUENCE, Trust.LOCAL, Adjacency.ANY_TWO_INPUTS)
    assert any(part.startswith("the label") for part in claim.excludes)


def test_the_published_size_of_the_noise(checkpoint_of, records_of):
    """σ at ε = 8, δ = 1e-5, S = 2: 1.20046 (S = 1 would be the 0.60 of the published code)."""
    claim = train(checkpoint_of("bert"), records_of(TEXTS), epsilon=8.0, delta=1e-5).claim
    assert dict(claim.details)["sigma"] == pytest.approx(1.20046, rel=1e-5)


def test_what_each_regime_does_not_cover_is_said(checkpoint_of, records_of):
    claims = {r: train(checkpoint_of("bert"), records_of(TEXTS), training=r).claim for r in REGIMES}
    assert any("training records" in part for part in claims["trained"].excludes)
    assert not any("training records" in part for part in claims["frozen"].excludes)
    assert "released 2 times" in claims["frozen-fresh"].scope


@pytest.mark.parametrize("name", ["bert", "distilbert", "mpnet"])
@pytest.mark.parametrize("regime", ["frozen", "frozen-fresh"])
def test_what_comes_before_the_noise_is_bit_identical_after_training(checkpoint_of, records_of, name, regime):
    checkpoint = checkpoint_of(name)
    for position in ("embedding", "encoder.0.mha", "encoder.0.ffn", "encoder.0.qkv", "encoder.1.add_norm_1", "output"):
        release = train(checkpoint, records_of(TEXTS), position=position, training=regime, seed=1)
        public, trained = checkpoint.build(2, 1).state_dict(), release.classifier.state_dict()
        before = parameters_before(release.classifier, position)
        assert all(torch.equal(public[n], trained[n]) for n in before), position
        moved = {n for n in public if not torch.equal(public[n], trained[n])}
        assert "head.weight" in moved
        assert (len(moved) > 2) == (position != "output")


def test_training_what_comes_before_the_noise_moves_it(checkpoint_of, records_of):
    checkpoint = checkpoint_of("bert")
    release = train(checkpoint, records_of(TEXTS), position="encoder.1.mha", training="trained", learning_rate=1e-3)
    public = checkpoint.build(2, 0).state_dict()
    moved = {n for n, t in release.classifier.state_dict().items() if not torch.equal(public[n], t)}
    assert {"encoder.embeddings.word_embeddings.weight", "encoder.encoder.layer.0.output.dense.weight"} <= moved


@pytest.mark.parametrize(
    ("position", "learning"),
    [("encoder.1.ffn", ["layer.1"]), ("output", ["layer.1"]), ("encoder.0.add_norm_2", ["layer.0", "layer.1"])],
)
def test_only_the_last_layers_before_the_noise_may_learn(checkpoint_of, records_of, position, learning):
    """One layer before the noise, and everything after it."""
    checkpoint = checkpoint_of("bert")
    release = train(checkpoint, records_of(TEXTS), position=position, training="trained", layers_before=1)
    public = checkpoint.build(2, 0).state_dict()
    moved = {n for n, t in release.classifier.state_dict().items() if not torch.equal(public[n], t)}
    assert {".".join(n.split(".")[2:4]) for n in moved if n.startswith("encoder.")} == set(learning)


@pytest.mark.parametrize("regime", REGIMES)
def test_it_learns_where_the_noise_lets_it_and_repeats_itself(checkpoint_of, records_of, regime):
    records = records_of(TEXTS)
    options = {"training": regime, "epsilon": 1e5, "epochs": 15, "head_learning_rate": 3e-2, "learning_rate": 1e-3}
    one, two = (train(checkpoint_of("bert"), records, **options) for _ in range(2))
    predicted = one.predict(records).log_probs
    assert (predicted.argmax(1) == np.array(records.labels)).mean() > 0.85
    assert np.array_equal(predicted, two.predict(records).log_probs)


@pytest.mark.parametrize(("regime", "distinct"), [("frozen", 1), ("frozen-fresh", 4), ("trained", 4)])
def test_each_training_text_is_noised_as_often_as_the_claim_says(
    checkpoint_of, records_of, monkeypatch, regime, distinct
):
    """Counts the distinct tensors of each record that training sees."""
    from dpeval_defenses.dp_forward import training

    records, seen = records_of(TEXTS), {}
    true = training.logits_of

    def watched(model, tap, released):
        for row in released:
            key = row.detach().numpy().tobytes()
            seen[key] = seen.get(key, 0) + 1
        return true(model, tap, released)

    monkeypatch.setattr(training, "logits_of", watched)
    train(checkpoint_of("bert"), records, training=regime, epochs=4)
    assert len(seen) == distinct * len(records)
    assert set(seen.values()) == {4 // distinct}


OPTIONS = [{"position": "encoder.1.ffn"}, {"position": "encoder.1.mha", "length_is_public": True}]


@pytest.mark.parametrize("options", OPTIONS)
def test_later_epochs_cost_only_what_follows_the_noise(checkpoint_of, records_of, monkeypatch, options):
    """Forward calls of what comes before the noise do not grow with the epochs; noisy tensors are drawn once."""
    from dpeval_defenses.dp_forward import noise

    counted = {"before": 0, "after": 0, "draws": 0}
    checkpoint = checkpoint_of("bert")
    build, normal = checkpoint.build, noise.normal_like

    def watched(num_labels, seed):
        model = build(num_labels, seed)
        layers = model.encoder.encoder.layer
        for name, part in (("before", layers[0].attention.self), ("after", layers[1].output.LayerNorm)):
            part.register_forward_hook(lambda *_, name=name: counted.update({name: counted[name] + 1}))
        return model

    def drawn(x, generators):
        counted["draws"] += len(generators)
        return normal(x, generators)

    def calls(epochs, training):
        counted.update(before=0, after=0, draws=0)
        train(checkpoint, records_of(TEXTS), epochs=epochs, training=training, **options)
        return dict(counted)

    object.__setattr__(checkpoint, "build", watched)
    monkeypatch.setattr(noise, "normal_like", drawn)
    few, many = calls(2, "frozen"), calls(6, "frozen")
    assert many["before"] == few["before"]
    assert many["draws"] == few["draws"] == len(TEXTS)
    assert many["after"] - few["after"] == 4 * -(-len(TEXTS) // 4)
    assert calls(6, "frozen-fresh")["draws"] == 6 * len(TEXTS)
    assert calls(6, "trained")["before"] - calls(2, "trained")["before"] == 4 * -(-len(TEXTS) // 4)


def test_a_position_that_can_be_gone_round_never_gets_a_claim(checkpoint_of, records_of):
    checkpoint, path = checkpoint_of("bert"), "encoder.layer.0.output.dense"
    assert "can be gone round" in DPForward(position=path).unfit(checkpoint, 10)
    with pytest.raises(LeakError, match=r"layer\.0\.output\.LayerNorm"):
        train(checkpoint, records_of(TEXTS), position=path)


def test_unfit_positions_are_said_before_training(checkpoint_of):
    checkpoint = checkpoint_of("bert")
    assert DPForward(position="encoder.1.ffn").unfit(checkpoint, 10) is None
    assert DPForward(position="encoder.layer.1").unfit(checkpoint, 10) is None
    assert "did you mean" in DPForward(position="encoder.7.ffn").unfit(checkpoint, 10)


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0.0}, {"clip": -1.0}, {"delta": 1.0}, {"epochs": 0}, {"batch_size": 0}, {"learning_rate": 0.0}],
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        DPForward(**wrong)
