"""The audit of local claims: which inputs it asks about, how often, and what it can refute."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dpeval.arrays import load_arrays
from dpeval.collect.claims import Audit, _verdict
from dpeval.config import Named
from dpeval.context import RunContext
from dpeval.local_audit import audit_local_claim, auditable_tap, planned_draws
from dpeval.measure.distinguish import audit_releases
from dpeval.measure.epsilon import EpsilonBound, Method
from dpeval.neighbours import hides_length, neighbours
from dpeval.plugin import Task
from dpeval.privacy.claims import claim_of_one_answer
from dpeval.privacy.gaussian import epsilon_of_gaussian
from dpeval.results import Ruling
from dpeval.types import Records, Unit
from dpeval_defenses.dp_forward import DPForward

TEXTS = (
    "a good day", "a bad day", "good tea again", "bad tea", "the good sun is very old", "the bad rain", "one two three",
    "red car", "a blue bus and the road", "never again", "we is they", "warm soup",
)  # fmt: skip
POOL = Records(tuple(map(str, range(len(TEXTS)))), TEXTS, (0, 1) * (len(TEXTS) // 2))


def release_of(checkpoint, **options):
    settings = {"epochs": 1, "delta": 1e-5, "epsilon": 2.0} | options
    return DPForward(**settings).train(Task(POOL, 2, checkpoint), RunContext(0))


def bound_of(release, checkpoint, folder):
    audit_local_claim(release, POOL, folder, checkpoint.tokens)
    arrays = load_arrays(folder)
    first, second = (arrays[name].reshape(-1, 1) for name in ("first", "second"))
    return audit_releases(first, second, delta=release.claim.delta, direction=[1.0]).bound


def with_noise_of(release, factor):
    """The same claim over other noise."""
    quiet = dataclasses.replace(release.noise, sigma=release.noise.sigma * factor)
    return dataclasses.replace(release, transform=quiet)


@pytest.mark.parametrize(
    "options",
    [
        {"position": "output"},
        {"position": "embedding", "level": "token"},
        {"position": "encoder.0.qkv", "level": "token-attention"},
        {"position": "embedding", "length_is_public": True},
    ],
    ids=["sequence", "token", "token-attention", "public length"],
)
def test_honest_noise_survives_and_a_fraction_of_it_is_refuted(checkpoint_of, tmp_path, options):
    checkpoint = checkpoint_of("bert", max_length=8)
    release = release_of(checkpoint, **options)
    for folder in ("honest", "weak"):
        (tmp_path / folder).mkdir()
    assert bound_of(release, checkpoint, tmp_path / "honest").epsilon <= release.claim.epsilon
    weak = bound_of(with_noise_of(release, 0.01), checkpoint, tmp_path / "weak")
    assert weak.epsilon > release.claim.epsilon


def test_a_large_claim_can_be_refuted_where_answers_are_small(checkpoint_of, tmp_path):
    """Enough draws are asked for: without noise to speak of, the bound passes 7."""
    checkpoint = checkpoint_of("bert", max_length=8)
    release = release_of(checkpoint, epsilon=7.0, position="output")
    bound = bound_of(with_noise_of(release, 1e-3), checkpoint, tmp_path)
    assert bound.epsilon > 7.0


@pytest.mark.parametrize(("epsilon", "numbers"), [(8.0, 64 * 384), (20.0, 10), (8.0, 512 * 768)])
def test_more_draws_than_can_be_afforded_are_not_asked_for(epsilon, numbers):
    draws = planned_draws(epsilon, 1e-5, numbers)
    assert draws == 800 or 2 * draws * numbers <= 1_000_000_000


def test_token_neighbours_differ_in_one_token_and_are_the_furthest_found(checkpoint_of):
    checkpoint = checkpoint_of("bert", max_length=8)
    release = release_of(checkpoint, position="embedding", level="token")
    pair = neighbours(release, release.claim, POOL, "embedding", checkpoint.tokens)
    one, other = checkpoint.tokens(Records(("a", "b"), (pair.one, pair.other), (0, 0)))
    assert len(one) == len(other)
    assert sum(a != b for a, b in zip(one, other, strict=True)) == 1
    assert np.linalg.norm(pair.difference) <= 2.0


def test_inputs_of_public_length_have_one_length(checkpoint_of):
    checkpoint = checkpoint_of("bert", max_length=8)
    release = release_of(checkpoint, position="encoder.0.add_norm_2", length_is_public=True)
    assert not hides_length(release.claim)
    pair = neighbours(release, release.claim, POOL, release.tap, checkpoint.tokens)
    one, other = checkpoint.tokens(Records(("a", "b"), (pair.one, pair.other), (0, 0)))
    assert len(one) == len(other)
    assert pair.one != pair.other


@pytest.mark.parametrize("options", [{"position": "embedding", "level": "token"}, {"position": "output"}])
def test_pairs_of_texts_have_neighbours_too(checkpoint_of, options):
    checkpoint = checkpoint_of("bert", max_length=12)
    pool = Records(POOL.ids, tuple(zip(TEXTS, TEXTS[::-1], strict=True)), POOL.labels)
    release = release_of(checkpoint, **options)
    pair = neighbours(release, release.claim, pool, release.tap, checkpoint.tokens)
    assert isinstance(pair.one, tuple)
    assert pair.one != pair.other
    assert 0 < np.linalg.norm(pair.difference) <= 2.0


def test_a_claim_that_covers_no_answers_is_not_tested_by_them(checkpoint_of):
    assert auditable_tap(release_of(checkpoint_of("bert"), inference="none")) is None
    assert auditable_tap(release_of(checkpoint_of("bert"))) == "output"


def test_a_pool_without_neighbours_is_said(checkpoint_of):
    checkpoint = checkpoint_of("bert", max_length=8)
    release = release_of(checkpoint, position="embedding", level="token")
    assert release.claim.unit is Unit.TOKEN
    alike = Records(("a", "b"), ("tea", "tea"), (0, 0))
    with pytest.raises(ValueError, match="differ in one token"):
        neighbours(release, release.claim, alike, "embedding", checkpoint.tokens)
    with pytest.raises(ValueError, match="at least two"):
        neighbours(release, release.claim, alike.take([0]), "embedding", checkpoint.tokens)


SEEN = EpsilonBound(
    epsilon=0.0, delta=1e-5, alpha=0.05, method=Method.CLOPPER_PEARSON, correct=900, guesses=1000, trials=1000,
    ceiling=50.0, members=500, nonmembers=500,
)  # fmt: skip


@pytest.mark.parametrize("options", [{"inference": 0.5}, {"training": "frozen-fresh", "epochs": 4}], ids=str)
def test_answers_are_tested_against_their_own_epsilon(checkpoint_of, tmp_path, options):
    """Answers whose noise is half of what they are said to have: below ε of the whole claim, above that of one."""
    claim = release_of(checkpoint_of("bert", max_length=8), epsilon=6.0, position="output", **options).claim
    one = claim_of_one_answer(claim)
    sigma = dict(claim.details)["sigma of an answer"]
    assert one.epsilon == pytest.approx(epsilon_of_gaussian(2.0 / sigma, 1e-5), rel=1e-5)
    assert one.epsilon < claim.epsilon
    bound = dataclasses.replace(SEEN, epsilon=(one.epsilon + claim.epsilon) / 2)
    audit = Audit(Named("d", "d", None), 0, 0, claim.kind, bound, "repeated queries about two inputs")
    verdict = _verdict(claim, audit)
    assert verdict.ruling is Ruling.REFUTED
    assert verdict.claimed == one.epsilon
    assert "of one answer" in verdict.reading
    whole = _verdict(dataclasses.replace(claim, details=()), audit)
    assert whole.ruling is not Ruling.REFUTED
    assert whole.claimed == claim.epsilon
