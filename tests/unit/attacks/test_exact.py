"""The exact rows of tokens, the likelihood metric, the published protocol, and the noise scale they rest on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpeval.errors import ModelError
from dpeval.models.text_encoding import TextEncoding
from dpeval.types import Adjacency, Claim, NoClaim, Trust, Unit
from dpeval_attacks.attribute.probe import AttributeProbe
from dpeval_attacks.inversion.exact import ExactReader, TokenRows
from dpeval_attacks.inversion.gradient import GradientInversion
from dpeval_attacks.inversion.learned import LearnedInversion
from dpeval_attacks.inversion.nearest import NearestInversion
from dpeval_attacks.inversion.own import noise_scale, release_own
from dpeval_attacks.inversion.search import SearchSpace


def recover(world, view, **options):
    return NearestInversion(**options).recover(view, world.targets.ids, world.knowledge, world.ctx)


def token_rows(world, tap):
    own = release_own(world.view(tap), world.knowledge, world.ctx, queries=1, most=30, who="test")
    return own, TokenRows.of(world.checkpoint, tap, own.texts, own.tokens, width=own.width, device=torch.device("cpu"))


def test_the_input_embeddings_of_single_tokens_are_those_of_texts_and_deeper_rows_are_not(world):
    own, rows = token_rows(world, "embedding")
    sample = own.study.sample
    assert np.allclose(rows.at(sample.tokens, sample.positions), sample.rows, atol=1e-5)
    assert token_rows(world, "encoder.0.add_norm_2")[1] is None


def test_the_best_tokens_are_those_of_the_posterior_by_brute_force(world):
    own, rows = token_rows(world, "embedding")
    sample, rng = own.study.sample, np.random.default_rng(0)
    few = np.zeros(len(sample), dtype=bool)
    few[rng.permutation(len(sample))[:25]] = True
    asked = sample.where(few)
    noisy = replace(asked, rows=asked.rows + rng.standard_normal(asked.rows.shape).astype(np.float32))
    prior = rng.normal(size=len(own.table))
    reader = ExactReader.of(rows, sample, allowed=own.allowed, log_prior=prior, noise=1.0)
    assert reader.factor == pytest.approx(1.0, abs=1e-4)
    for i in range(len(noisy)):
        at = np.full(len(own.allowed), noisy.positions[i])
        left = np.sum(np.square(noisy.rows[i] - rows.at(own.allowed, at)), axis=1)
        want = own.allowed[np.argsort(left / 2 - prior[own.allowed])][:4]
        assert reader.best(noisy.where(np.arange(len(noisy)) == i), 4)[0].tolist() == want.tolist()


@pytest.mark.parametrize("tap", ["embedding", "encoder.0.add_norm_2"])
def test_the_likelihood_reads_clear_rows(world, tap):
    assert world.recall(recover(world, world.view(tap), metric="likelihood").tokens) >= 0.99


def test_the_likelihood_reads_more_under_noise_where_it_is_exact(world):
    view = world.view("embedding", 0.05)
    exact, fitted = (world.recall(recover(world, view, metric=m).tokens) for m in ("likelihood", "l2"))
    assert exact >= fitted


def claim(sigma):
    return Claim(
        epsilon=1.0, delta=1e-5, unit=Unit.SEQUENCE, trust=Trust.LOCAL, adjacency=Adjacency.ANY_TWO_INPUTS,
        mechanism="Gaussian", accountant="exact", scope="test", details=(("sigma", sigma),),
    )  # fmt: skip


def test_the_noise_scale_is_the_stated_one_where_the_release_bears_it_out_and_falls_with_queries(world):
    view = world.view("embedding", 0.2)
    assert noise_scale(view, world.auxiliary, claim(0.201), 1) == 0.201
    assert noise_scale(view, world.auxiliary, claim(0.201), 4) == pytest.approx(0.1005)
    assert noise_scale(view, world.auxiliary, claim(5.0), 1) == pytest.approx(0.2, rel=0.05)
    assert noise_scale(view, world.auxiliary, NoClaim(), 1) == pytest.approx(0.2, rel=0.05)
    assert noise_scale(world.view("embedding"), world.auxiliary, NoClaim(), 1) == 0.0


def test_the_published_protocol_reads_less_than_the_adapted_attack_and_says_what_is_wrong(world):
    view = world.view("encoder.1.add_norm_2", 0.03)
    published, sound = NearestInversion(protocol="published"), NearestInversion()
    less, more = (
        world.recall(a.recover(view, world.targets.ids, world.knowledge, world.ctx).tokens) for a in (published, sound)
    )
    assert 0.1 < less < more
    assert published.sound == sound
    assert sound.sound == sound
    assert "read" in published.caveat
    assert sound.caveat == ""


def test_the_published_gradient_protocol_runs_and_never_answers_special_tokens(world, monkeypatch):
    monkeypatch.setattr("dpeval_attacks.inversion.gradient.PUBLISHED_STEPS", 3)
    attack = GradientInversion(protocol="published")
    found = attack.recover(world.view("embedding"), world.targets.ids, world.knowledge, world.ctx)
    assert not world.checkpoint.special_ids & {t for answers in found.tokens for t in answers}
    assert attack.sound == GradientInversion()


@pytest.mark.parametrize("attack", [
    NearestInversion(), GradientInversion(), LearnedInversion(), LearnedInversion(kind="bag"), AttributeProbe(),
])  # fmt: skip
def test_a_release_that_reads_texts_in_another_way_is_refused_with_both_values(world, attack):
    view = world.view("embedding")
    theirs = world.checkpoint.text_encoding
    view.encoding = replace(theirs, max_length=7)
    ask = getattr(attack, "recover", None) or attack.infer
    with pytest.raises(ModelError, match=rf"max_length 7 in the release, {theirs.max_length} in the attack"):
        ask(view, world.targets.ids, world.knowledge, world.ctx)
    view.encoding = replace(theirs, tokenizer="f" * 64)
    with pytest.raises(
        ModelError, match=f"tokenizer ffffffffffff in the release, {theirs.tokenizer[:12]} in the attack"
    ):
        ask(view, world.targets.ids, world.knowledge, world.ctx)
    view.encoding = theirs
    assert ask(view, world.targets.ids, world.knowledge, world.ctx).ids == world.targets.ids


def test_the_encoding_survives_json_and_follows_tokenizer_and_limit(world):
    own = world.checkpoint.text_encoding
    assert TextEncoding.from_json(own.to_json()) == own
    assert set(own.special_ids) == world.checkpoint.special_ids


def test_an_inverted_file_answers_like_the_whole_search_where_candidates_cluster():
    rng = np.random.default_rng(0)
    centres = 6 * rng.standard_normal((40, 12))
    table = centres[rng.integers(0, 40, 4000)] + rng.standard_normal((4000, 12))
    queries = table[rng.integers(0, 4000, 300)] + 0.3 * rng.standard_normal((300, 12))
    prior, gains = rng.normal(size=4000), np.ones(300)
    for metric in ("l2", "cosine"):
        flat, inverted = (
            SearchSpace.of(
                table, allowed=np.arange(4000), metric=metric, log_prior=prior, concentration=3000.0, index=kind
            )
            for kind in ("flat", "ivf")
        )
        assert inverted.inverted
        assert not flat.inverted
        same = flat.search(queries, gains, k=3) == inverted.search(queries, gains, k=3)
        assert same.mean() > 0.95
        assert np.array_equal(inverted.search(queries, gains), inverted.search(queries, gains))
