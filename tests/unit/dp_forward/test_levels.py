"""Token level, at the embedding and in the first attention: sensitivity, refusals, and what the claim says."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm

from dpeval.context import RunContext
from dpeval.models.bypass import check_release_point
from dpeval.models.layout import Layout
from dpeval.models.taps import edited_pass
from dpeval.plugin import Task
from dpeval.types import Adjacency, Trust, Unit
from dpeval_defenses.dp_forward import DPForward, bounded
from dpeval_defenses.dp_forward.attention import joint_input, joint_maps, joint_output, joint_stretch

TEXTS = ["a good day", "a bad day", "good tea again", "bad tea", "the good sun is", "the bad rain"] * 2
ATTENTION = {"level": "token-attention", "position": "encoder.0.qkv"}
TOKEN = {"level": "token", "position": "embedding"}


def train(checkpoint, records, **options):
    return DPForward(**({"epochs": 1, "batch_size": 4} | options)).train(Task(records, 2, checkpoint), RunContext(0))


def epsilon_by_hand(mu, delta):
    """Balle and Wang 2018, Theorem 8, written out and solved."""

    def excess(e):
        return norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta

    return brentq(excess, 1e-9, 50, xtol=1e-12)


@pytest.mark.parametrize("options", [TOKEN, ATTENTION], ids=["token", "token-attention"])
def test_a_token_claim_says_its_unit_and_follows_from_its_numbers(checkpoint_of, records_of, options):
    release = train(checkpoint_of("bert"), records_of(TEXTS), epsilon=3.0, delta=1e-4, clip=2.0, **options)
    claim, details = release.claim, dict(release.claim.details)
    assert claim.kind == (Unit.TOKEN, Trust.LOCAL, Adjacency.REPLACE_ONE)
    assert epsilon_by_hand(details["sensitivity"] / details["sigma"], 1e-4) == pytest.approx(claim.epsilon, rel=1e-6)
    assert 3.0 * (1 - 1e-6) <= claim.epsilon <= 3.0
    assert any("more than one token" in part for part in claim.excludes)
    assert any("number of tokens" in part for part in claim.excludes)
    stretch = details["sensitivity"] / 4.0  # two rows of norm 2 are 4 apart at most
    if options is TOKEN:
        assert stretch == 1.0
    else:
        weights = [m.weight.detach().double().numpy() for m in joint_maps(release.classifier, "encoder.0.qkv")]
        assert stretch == pytest.approx(np.linalg.norm(np.concatenate(weights), 2), rel=2e-4)
        assert stretch >= np.linalg.norm(np.concatenate(weights), 2)


@pytest.mark.parametrize("name", ["bert", "distilbert", "mpnet", "electra", "gpt2_no_pad", "albert"])
def test_rows_of_queries_keys_and_values_are_no_further_apart_than_calibrated(checkpoint_of, name):
    """Random pairs stay below; the top singular direction reaches it."""
    checkpoint = checkpoint_of(name)
    model = checkpoint.build(2, 0)
    maps = joint_maps(model, "encoder.0.qkv")
    sensitivity = 2 * 1.5 * joint_stretch(maps)
    width = maps[0].weight.shape[1] if isinstance(maps[0], torch.nn.Linear) else maps[0].weight.shape[0]
    draw = torch.Generator().manual_seed(0)
    pairs = bounded(torch.randn(2, 300, width, generator=draw), clip=1.5, normalise=True, rows=True)
    one, other = joint_output(model, "encoder.0.qkv", pairs).detach()
    assert (one - other).norm(dim=1).max() <= sensitivity
    stacked = torch.cat([m.weight if isinstance(m, torch.nn.Linear) else m.weight.T for m in maps]).detach()
    top = torch.linalg.svd(stacked).Vh[0]
    worst = bounded(torch.stack([top, -top]).unsqueeze(0), clip=1.5, normalise=True, rows=True)
    images = joint_output(model, "encoder.0.qkv", worst)[0].detach()
    assert float((images[0] - images[1]).norm()) == pytest.approx(sensitivity, rel=1e-3)


@pytest.mark.parametrize("name", ["bert", "distilbert", "mpnet", "roberta", "gpt2_no_pad", "albert"])
def test_nothing_goes_round_queries_keys_and_values(checkpoint_of, name):
    """The library's test, and one of our own: forced to one tensor, texts of every length give the same logits."""
    checkpoint = checkpoint_of(name)
    model = checkpoint.build(2, 0)
    check_release_point(model, "encoder.0.qkv", checkpoint)
    point = Layout.of(model.encoder).point("encoder.0.qkv")
    draw = torch.Generator().manual_seed(3)
    width = sum(m.weight.shape[0 if isinstance(m, torch.nn.Linear) else 1] for m in joint_maps(model, point.name))
    forced = torch.randn(1, 8, width, generator=draw)
    ids = [torch.randint(0, checkpoint.vocab_size, (1, 8), generator=draw) for _ in range(4)]
    with torch.no_grad():
        logits = [
            edited_pass(model, {"input_ids": i, "attention_mask": torch.ones_like(i)}, point, lambda _: forced)
            for i in ids
        ]
    assert all(torch.equal(logits[0], other) for other in logits[1:])


def test_what_the_maps_get_is_what_the_layer_gets(checkpoint_of):
    """For BERT the maps read the embedding itself, for GPT-2 its norm."""
    batch = {"input_ids": torch.tensor([[5, 6, 7]]), "attention_mask": torch.ones(1, 3, dtype=torch.long)}
    bert, gpt = checkpoint_of("bert").build(2, 0), checkpoint_of("gpt2_no_pad").build(2, 0)
    assert torch.equal(joint_input(bert, batch, "encoder.0.qkv"), bert.encoder.embeddings(batch["input_ids"]))
    hidden = gpt.encoder.wte(batch["input_ids"]) + gpt.encoder.wpe(torch.arange(3))
    assert torch.allclose(joint_input(gpt, batch, "encoder.0.qkv"), gpt.encoder.h[0].ln_1(hidden), atol=1e-6)


@pytest.mark.parametrize("position", ["encoder.0.add_norm_1", "encoder.1.ffn", "encoder.1.qkv", "output"])
def test_token_level_is_refused_where_a_row_holds_other_tokens(checkpoint_of, position):
    why = DPForward(level="token", position=position).unfit(checkpoint_of("bert"), 10)
    assert "token level at position" in why
    assert "embedding" in why


@pytest.mark.parametrize("name", ["bert", "roberta", "electra", "distilbert", "mpnet", "gpt2_no_pad", "albert"])
def test_token_level_is_possible_at_the_embedding_and_in_the_first_attention(checkpoint_of, name):
    for options in (TOKEN, ATTENTION):
        assert DPForward(**options).unfit(checkpoint_of(name), 10) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": "token-attention"},
        {"level": "token-attention", "position": "encoder.1.qkv"},
        ATTENTION | {"paper_compat": True},
        ATTENTION | {"mechanism": "mvg"},
    ],
)
def test_token_attention_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="token-attention"):
        DPForward(**wrong)


def test_one_replaced_token_moves_one_released_row(checkpoint_of, records_of):
    """Through the finished release: only the noiseless row of the replaced token differs."""
    checkpoint = checkpoint_of("bert")
    for options in (TOKEN, ATTENTION):
        release = train(checkpoint, records_of(TEXTS), **options)
        quiet = release.noisier(0.0)
        answer = quiet.embed(records_of(["a good day", "a bad day"]), release.tap)
        moved = np.flatnonzero(np.any(answer.rows(0) != answer.rows(1), axis=1))
        assert moved.tolist() == [2]  # after [CLS] and "a"
        assert np.linalg.norm(answer.rows(0) - answer.rows(1)) <= dict(release.claim.details)["sensitivity"]


@pytest.mark.parametrize("name", ["roberta", "electra", "distilbert", "mpnet", "gpt2_no_pad", "albert"])
@pytest.mark.parametrize(
    "options",
    [ATTENTION, ATTENTION | {"length_is_public": True}, TOKEN | {"training": "trained"}, {"position": "encoder.1.qkv"},
     {"position": "encoder.1.add_norm_2", "paper_compat": True}],
    ids=["token-attention", "public", "token, trained", "sequence", "published"],
)  # fmt: skip
def test_answers_follow_from_what_was_released(checkpoint_of, records_of, name, options):
    """On every architecture: predictions are those of the released rows alone, and rows are noised as claimed."""
    checkpoint, records = checkpoint_of(name), records_of([*TEXTS[:6], "tea"])
    release = train(checkpoint, records, **options)
    released = release.embed(records, release.tap)
    assert np.allclose(release.predict(records).log_probs, release.predict_from(released).log_probs, atol=1e-5)
    noise = (released.values - release.noisier(0.0).embed(records, release.tap).values) / release.noise.sigma
    assert abs(noise.mean()) < 5 / math.sqrt(noise.size)
    assert abs(noise.std() - 1) < 5 / math.sqrt(2 * noise.size)


def test_the_noise_follows_the_maps_as_they_learn(checkpoint_of, records_of):
    """With a trained first half, σ is calibrated to the weights that the model ends with."""
    records = records_of(TEXTS)
    release = train(checkpoint_of("bert"), records, training="trained", learning_rate=0.3, epochs=3, **ATTENTION)
    before = joint_stretch(joint_maps(checkpoint_of("bert").build(2, 0), "encoder.0.qkv"))
    after = joint_stretch(joint_maps(release.classifier, "encoder.0.qkv"))
    details = dict(release.claim.details)
    assert abs(after / before - 1) > 0.01
    assert details["sensitivity"] == pytest.approx(2 * after, rel=1e-9)
    assert release.noise.sigma == details["sigma"]
    frozen = train(checkpoint_of("bert"), records, training="frozen", **ATTENTION)
    assert dict(frozen.claim.details)["sensitivity"] == pytest.approx(2 * before, rel=1e-9)


def test_rows_are_bounded_one_by_one_with_finite_gradients():
    """Zero rows stay zero; any two rows are at most 2C apart."""
    x = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [0.0, 1e-30, 1e-3, 1, 10, 1e6]
    ).view(1, 6, 1)
    x.requires_grad_(True)
    for normalise in (True, False):
        out = bounded(x, clip=2.0, normalise=normalise, rows=True)
        norms = out.double().norm(dim=2)
        assert norms.max() <= 2.0
        assert torch.equal(out[:, 0], torch.zeros(3, 4))
        if normalise:
            assert torch.allclose(norms[:, 2:], torch.full_like(norms[:, 2:], 2.0), rtol=1e-5)
        (grad,) = torch.autograd.grad(out.sum(), x)
        assert torch.isfinite(grad).all()


def test_public_lengths_release_a_row_for_each_token(checkpoint_of, records_of):
    records = records_of([*TEXTS, "tea"])
    for options in ({"position": "encoder.0.add_norm_2"}, TOKEN, ATTENTION, {"position": "output"}):
        release = train(checkpoint_of("bert"), records, length_is_public=True, **options)
        rows = np.diff(release.embed(records, release.tap).offsets).tolist()
        tokens = [len(ids) for ids in checkpoint_of("bert").tokens(records)]
        assert rows == (tokens if release.tap != "output" else [1] * len(records))
        assert any("number of tokens" in part for part in release.claim.excludes) == (release.tap != "output")
    fixed = train(checkpoint_of("bert"), records, position="encoder.0.add_norm_2")
    assert set(np.diff(fixed.embed(records, fixed.tap).offsets)) == {checkpoint_of("bert").max_length}


def test_public_lengths_look_like_the_model_with_its_mask(checkpoint_of, records_of):
    """Without noise and bound, released rows and masked batches give what the plain model gives."""
    checkpoint, records = checkpoint_of("bert"), records_of(TEXTS)
    release = train(checkpoint, records, length_is_public=True, position="encoder.0.add_norm_2", normalise=False)
    quiet = dataclasses.replace(release, transform=dataclasses.replace(release.noise, sigma=0.0, clip=1e6))
    with torch.inference_mode():
        plain = release.classifier(**checkpoint.encode(records).batch(range(len(records)))).double().log_softmax(-1)
    assert np.allclose(quiet.predict(records).log_probs, plain.numpy(), atol=1e-5)
