"""Where there is nothing to find, nothing is found more often than stated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from dpeval.measure.audit import audit_one_run
from dpeval.measure.blind import BlindRun, measure_blind
from dpeval.measure.distinguish import audit_releases
from dpeval.measure.epsilon import gaussian_epsilon
from dpeval.measure.membership import MembershipRun, measure_membership
from dpeval.measure.rates import audit_gaussian, audit_rates
from dpeval.scores import audit_scores


def coins(rng: np.random.Generator, n: int, score) -> MembershipRun:
    member = rng.random(n) < 0.5
    return MembershipRun(tuple(f"r{i}" for i in range(n)), score(member), member)


def most_allowed(trials: int, alpha: float) -> int:
    """Exceedances that a rate of ``alpha`` passes in all but one of a thousand tests."""
    return int(stats.binom.ppf(0.999, trials, alpha))


def exceedances(rng: np.random.Generator, audits: int, epsilon: float, n: int = 300) -> int:
    """One-run bounds above the true ε of randomised response."""
    keep = special.expit(epsilon)
    found = 0
    for k in range(audits):
        run = coins(rng, n, lambda m: (m ^ (rng.random(n) > keep)) + 1e-3 * rng.normal(size=n))
        found += audit_one_run([run], independent_coins=True, delta=1e-5, salt=k).epsilon > epsilon
    return found


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_one_run_bound_holds_its_level(epsilon: float) -> None:
    """V12: with the number of guesses planned on data, P(bound > ε) <= 5 % under the worst mechanism of that ε."""
    assert exceedances(np.random.default_rng(0), 60, epsilon) <= most_allowed(60, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 3.0])
def test_one_run_bound_holds_its_level_in_number(epsilon: float) -> None:
    """Eight hundred audits."""
    assert exceedances(np.random.default_rng(1), 800, epsilon) <= most_allowed(800, 0.05)


def test_pooled_runs_hold_their_level() -> None:
    """Three runs of pure noise, with ties: the bound exceeds 0 in at most 5 %."""
    rng, found = np.random.default_rng(2), 0
    for k in range(60):
        runs = [coins(rng, 200, lambda m: np.round(rng.normal(size=len(m)), 1)) for _ in range(3)]
        found += audit_one_run(runs, independent_coins=True, delta=1e-5, salt=k).epsilon > 0
    assert found <= most_allowed(60, 0.05)


def test_rates_hold_their_level_under_the_null() -> None:
    """Peers exceed 0 in 14 to 96 % of such nulls, choosing the threshold on the same records."""
    rng = np.random.default_rng(3)
    found = sum(
        audit_rates([coins(rng, 400, lambda m: rng.normal(size=len(m)))], delta=0.0, salt=k).epsilon > 0
        for k in range(150)
    )
    assert found <= most_allowed(150, 0.05)


def two_rate_exceedances(rng: np.random.Generator, audits: int, epsilon: float, n: int = 300) -> int:
    """Two-rate bounds above the true ε of randomised response; each score is an independent trial."""
    keep, found = special.expit(epsilon), 0
    for k in range(audits):
        run = coins(rng, n, lambda m: (m ^ (rng.random(n) > keep)) + 1e-3 * rng.normal(size=n))
        found += audit_rates([run], delta=1e-5, salt=k, independent_trials=True).epsilon > epsilon
    return found


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_two_rate_bound_holds_its_level(epsilon: float) -> None:
    """V12: with the threshold chosen on data, P(bound > ε) <= 5 %."""
    assert two_rate_exceedances(np.random.default_rng(8), 80, epsilon) <= most_allowed(80, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 3.0])
def test_two_rate_bound_holds_its_level_in_number(epsilon: float) -> None:
    """Eight hundred audits."""
    assert two_rate_exceedances(np.random.default_rng(9), 800, epsilon) <= most_allowed(800, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_gaussian_bound_holds_its_level_in_number(mu: float) -> None:
    """Six hundred audits of a Gaussian mechanism by scores."""
    rng, found, epsilon = np.random.default_rng(10), 0, gaussian_epsilon(mu, 1e-5)
    for k in range(600):
        run = coins(rng, 300, lambda m: rng.normal(size=len(m)) + mu * m)
        found += audit_gaussian([run], delta=1e-5, salt=k).epsilon > epsilon
    assert found <= most_allowed(600, 0.05)


def true_claims_refuted(rng: np.random.Generator, audits: int, inclusion: str) -> int:
    """Exact claims of randomised response with ε = 1 that an audit of scores calls refuted."""
    keep, found = special.expit(1.0), 0
    for k in range(audits):
        member = rng.random(300) < 0.5
        scores = (member ^ (rng.random(300) > keep)) + 1e-3 * rng.normal(size=300)
        audit = audit_scores(
            scores[member], scores[~member], claim_epsilon=1.0, inclusion=inclusion, salt=k, resamples=2
        )
        found += audit.refuted
    return found


@pytest.mark.slow
@pytest.mark.parametrize("inclusion", ["unstated", "independent-trials", "independent-coins"])
def test_true_claims_are_refuted_at_most_at_the_level(inclusion: str) -> None:
    """Five hundred audits of scores, whatever design was stated."""
    assert true_claims_refuted(np.random.default_rng(11), 500, inclusion) <= most_allowed(500, 0.05)


@pytest.mark.parametrize(("mu", "width"), [(0.0, 5), (0.5, 5), (1.0, 40)])
def test_releases_of_a_gaussian_mechanism_never_show_more_than_its_epsilon(mu: float, width: int) -> None:
    """The distribution-free bound and the Gaussian one stay below the exact ε, at their level."""
    rng, above, above_model = np.random.default_rng(4), 0, 0
    epsilon = gaussian_epsilon(mu, 1e-5)
    for k in range(60):
        first, second = rng.normal(size=(600, width)), rng.normal(size=(600, width))
        first[:, 0] += mu
        found = audit_releases(first, second, delta=1e-5, seed=k)
        above += found.bound.epsilon > epsilon
        above_model += found.gaussian.epsilon > epsilon
    assert above <= most_allowed(60, 0.05)
    assert above_model <= most_allowed(60, 0.05)


def test_releases_of_a_gaussian_mechanism_show_a_good_share() -> None:
    """Half of ε = 4.4 and most of it by the Gaussian bound, with many draws along the known direction."""
    rng = np.random.default_rng(5)
    found = audit_releases(rng.normal(1.0, 1.0, (40_000, 1)), rng.normal(size=(40_000, 1)), delta=1e-5, direction=[1.0])
    epsilon = gaussian_epsilon(1.0, 1e-5)
    assert 0.5 * epsilon < found.bound.epsilon < epsilon
    assert 0.85 * epsilon < found.gaussian.epsilon < epsilon


def test_balanced_accuracy_of_noise_is_one_half() -> None:
    """V2: 100 + 100 records; a threshold chosen on the measured records gives 0.543."""
    rng, found = np.random.default_rng(5), []
    for k in range(400):
        member = np.arange(200) < 100
        run = MembershipRun(tuple(f"r{i}" for i in range(200)), rng.normal(size=200), member)
        found.append(measure_membership([run], salt=k, resamples=2).estimates["balanced_accuracy"].value)
    assert abs(np.mean(found) - 0.5) < 0.01


def blind_flags(audits: int, seed: int) -> int:
    """Untouched splits flagged as invalid."""
    rng = np.random.default_rng(seed)
    words = np.array([f"w{i}" for i in range(400)])
    texts = tuple(" ".join(words[rng.zipf(1.4, 12) % 400]) for _ in range(300))
    ids = tuple(f"r{i}" for i in range(300))
    return sum(measure_blind([BlindRun(ids, texts, rng.random(300) < 0.5)], seed=k).invalid for k in range(audits))


def test_untouched_splits_are_rarely_flagged() -> None:
    """V1: at most 2.5 % of audit sets without a difference are called invalid."""
    assert blind_flags(12, seed=6) <= most_allowed(12, 0.025)


@pytest.mark.slow
def test_untouched_splits_are_rarely_flagged_in_number() -> None:
    """Three hundred audit sets."""
    assert blind_flags(300, seed=7) <= most_allowed(300, 0.025)
