"""Claims state what was done: ε from noise, sensitivity and steps, with what is left out."""

from __future__ import annotations

import math

import pytest

from dpeval.privacy.claims import LabelNoise, dp_sgd_claim, local_gaussian_claim, shuffled_claim
from dpeval.privacy.gaussian import analytic_gaussian_sigma, epsilon_of_gaussian
from dpeval.privacy.labels import sequence_and_label
from dpeval.privacy.sampled import FixedSizeGaussian, SampledGaussian, ShuffledGaussian, calibrate, epsilon
from dpeval.privacy.shuffle import amplify
from dpeval.privacy.translation import PAPER_TRANSLATION, translated_epsilon, translation_sigma
from dpeval.types import Adjacency, Claim, NoClaim, Trust, Unit

RUN = SampledGaussian(1.0, 0.02, 100)


def test_dp_sgd_claim_carries_its_numbers() -> None:
    """ε, δ, kind, sampling, and the details that a reader can recompute it from."""
    claim = dp_sgd_claim(RUN, delta=1e-5, accountant="rdp", num_records=5000, clip=0.1, target_epsilon=2.0)
    assert claim.epsilon == epsilon(RUN, 1e-5, accountant="rdp").value
    assert claim.kind == ("record", "central", "add-or-remove-one")
    assert (claim.accountant, claim.sampling) == ("rdp", "poisson")
    details = dict(claim.details)
    expected = {"noise multiplier": 1.0, "clipping norm": 0.1, "sampling rate": 0.02, "steps": 100, "records": 5000,
                "target epsilon": 2.0}  # fmt: skip
    assert {name: details[name] for name in expected} == expected


def test_calibrated_run_claims_at_most_its_target() -> None:
    """Calibration and claim agree: ε ≤ target, no caveat."""
    sigma = calibrate(2.0, 1e-5, 0.02, 100, accountant="rdp")
    claim = dp_sgd_claim(
        SampledGaussian(sigma, 0.02, 100), delta=1e-5, accountant="rdp", num_records=5000, clip=1.0, target_epsilon=2.0
    )
    assert claim.epsilon <= 2.0
    assert not any("target" in caveat for caveat in claim.excludes)


def test_steps_beyond_the_plan_are_claimed_as_they_are() -> None:
    """Twice the steps: the claim is above the target and says so."""
    sigma = calibrate(2.0, 1e-5, 0.02, 100, accountant="rdp")
    claim = dp_sgd_claim(
        SampledGaussian(sigma, 0.02, 200), delta=1e-5, accountant="rdp", num_records=5000, clip=1.0, target_epsilon=2.0
    )
    assert claim.epsilon > 2.0
    assert any("target of ε = 2" in caveat for caveat in claim.excludes)


def test_an_approximation_is_named_as_one() -> None:
    """In the accountant's name and among what is not covered."""
    claim = dp_sgd_claim(RUN, delta=1e-5, accountant="gdp-clt", num_records=5000, clip=1.0)
    assert "not a bound" in claim.accountant
    assert any("approximation" in caveat for caveat in claim.excludes)


def test_other_samplers_say_how_batches_were_drawn() -> None:
    """Fixed-size and shuffled runs carry their sampling and their own details."""
    fixed, shuffled = (
        dp_sgd_claim(m, delta=1e-5, accountant="rdp", num_records=1000, clip=1.0, adjacency=Adjacency.REPLACE_ONE)
        for m in (FixedSizeGaussian(2.0, 10, 1000, 50), ShuffledGaussian(2.0, 3))
    )
    assert fixed.sampling == "fixed-size without replacement"
    assert dict(fixed.details)["batch"] == 10
    assert shuffled.sampling == "shuffled batches"
    assert dict(shuffled.details)["passes"] == 3
    assert "shuffling counted for nothing" in str(dict(shuffled.details)["accounting"])


def test_local_claim_composes_its_releases() -> None:
    """Three fresh releases at twice the clip: 40.5 where one release at the clip was called 8."""
    sigma = analytic_gaussian_sigma(8.0, 1e-5, 1.0)
    claim = local_gaussian_claim(
        sigma=sigma, sensitivity=2.0, releases=3, delta=1e-5, unit=Unit.SEQUENCE, nominal_epsilon=8.0
    )
    details = dict(claim.details)
    assert claim.epsilon == pytest.approx(40.52, abs=0.01)
    assert details["epsilon of one release"] == pytest.approx(19.12, abs=0.01)
    assert details["nominal epsilon"] == 8.0
    assert any("nominal ε = 8" in caveat for caveat in claim.excludes)
    assert claim.kind == ("sequence", "local", "any-two-inputs")


@pytest.mark.parametrize("target", [0.5, 1.0, 4.0, 8.0, 16.0])
def test_honest_calibration_needs_no_caveat(target: float) -> None:
    """σ for S = 2C: the claim is the nominal ε and not above it."""
    sigma = analytic_gaussian_sigma(target, 1e-5, 2.0)
    claim = local_gaussian_claim(
        sigma=sigma, sensitivity=2.0, releases=1, delta=1e-5, unit=Unit.SEQUENCE, nominal_epsilon=target
    )
    assert target * (1 - 1e-9) <= claim.epsilon <= target
    assert not any("nominal" in caveat for caveat in claim.excludes)


def test_labels_join_the_claim() -> None:
    """With randomised labels the claim is on the pair; without, the label is named as not covered."""
    noise = LabelNoise(epsilon=2.2, num_labels=2)
    pair = local_gaussian_claim(sigma=2.0, sensitivity=2.0, releases=1, delta=1e-5, unit=Unit.SEQUENCE, labels=noise)
    alone = local_gaussian_claim(sigma=2.0, sensitivity=2.0, releases=1, delta=1e-5, unit=Unit.SEQUENCE)
    assert pair.epsilon == sequence_and_label(1.0, 1e-5, 2.2, 2).tight > alone.epsilon
    assert dict(pair.details)["epsilon by sum"] == pytest.approx(alone.epsilon + 2.2)
    assert any("label" in caveat for caveat in alone.excludes)
    assert not any("label" in caveat for caveat in pair.excludes)


def test_token_claims_do_not_cover_texts() -> None:
    """Another unit, another adjacency, and the caveat about several tokens."""
    claim = local_gaussian_claim(sigma=1.0, sensitivity=2.0, releases=1, delta=1e-5, unit=Unit.TOKEN)
    assert claim.kind == ("token", "local", "replace-one")
    assert any("√n" in caveat for caveat in claim.excludes)


def test_no_noise_is_an_infinite_claim() -> None:
    """σ = 0 claims nothing finite, without an error."""
    claim = local_gaussian_claim(sigma=0.0, sensitivity=2.0, releases=1, delta=1e-5, unit=Unit.SEQUENCE)
    assert claim.epsilon == math.inf


def test_shuffled_claim_or_none() -> None:
    """Amplification becomes a claim of its own kind; a vacuous one becomes no claim, with the reason."""
    local = local_gaussian_claim(sigma=40.0, sensitivity=2.0, releases=1, delta=1e-12, unit=Unit.SEQUENCE)
    report = amplify(50_000, local.epsilon, delta=1e-6, local_delta=local.delta)
    claim = shuffled_claim(local, report, 50_000)
    assert isinstance(claim, Claim)
    assert claim.trust is Trust.SHUFFLED
    assert claim.epsilon < local.epsilon
    assert claim.delta > 1e-6
    vacuous = shuffled_claim(local, amplify(67_349, 1.0, delta=1e-6, local_delta=1e-5), 67_349)
    assert isinstance(vacuous, NoClaim)
    assert "no guarantee" in vacuous.reason


@pytest.mark.slow
@pytest.mark.parametrize(("central", "sigma", "local"), [(1.0, 0.4593, 27.4), (3.0, 0.3953, 33.7), (8.0, 0.3194, 45.5)])
def test_the_papers_translation_gives_the_papers_noise(central: float, sigma: float, local: float) -> None:
    """SST-2, three epochs: σ of the published tables, beside the local ε that it really gives per release."""
    got = translation_sigma(central, 1e-5, num_records=67_349, epochs=3)
    assert got == pytest.approx(sigma, rel=3e-3)
    assert epsilon_of_gaussian(2 / got, 1e-5) == pytest.approx(local, rel=0.01)


def test_the_papers_translation_is_labelled_and_no_bound() -> None:
    """Round trip of noise and central ε, marked as what it is."""
    sigma = translation_sigma(3.0, 1e-5, num_records=300, epochs=2)
    report = translated_epsilon(sigma, 1e-5, num_records=300, epochs=2)
    assert 2.96 < report.value <= 3.0
    assert report.accountant == PAPER_TRANSLATION
    assert not report.is_bound
