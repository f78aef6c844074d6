"""Bounds and rates on many random inputs, extremes among them, against the published formulas and other libraries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from dpeval.measure.epsilon import gaussian_bound, gaussian_epsilon, rate_bound
from dpeval.measure.one_run import one_run_bound, one_run_p_value
from dpeval.measure.roc import auc, tpr_at_fpr

SIZES = (1, 2, 10, 100, 5000, 1_000_000)
DELTAS = (0.0, 1e-12, 1e-5, 1e-2, 0.3)


def some_count(rng: np.random.Generator, trials: int) -> int:
    """None, all, one short of either, or anything."""
    return int(rng.choice([0, trials, trials - 1, min(1, trials), rng.integers(0, trials + 1)]))


def largest_rate(count: int, trials: int, alpha: float) -> float:
    """The rate at which ``count`` or fewer have probability alpha (Clopper and Pearson 1934), solved for."""
    if count == trials:
        return 1.0
    return float(optimize.brentq(lambda p: stats.binom.cdf(count, trials, p) - alpha, 0.0, 1.0, xtol=1e-15))


def smallest_epsilon(fpr: float, fnr: float, delta: float) -> float:
    """The edge of the (ε, δ) region of error rates (Kairouz et al. 2015, Theorem 2.1), by bisection."""

    def allowed(epsilon: float) -> bool:
        return fpr + math.exp(epsilon) * fnr >= 1 - delta and fnr + math.exp(epsilon) * fpr >= 1 - delta

    low, high = 0.0, 60.0
    if allowed(low):
        return 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if allowed(middle) else (middle, high)
    return high


def test_two_rates_give_the_edge_of_the_privacy_region() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        members, nonmembers = (int(x) for x in rng.choice(SIZES, 2))
        tp, fp = some_count(rng, members), some_count(rng, nonmembers)
        delta, alpha = float(rng.choice(DELTAS)), float(rng.choice([0.05, 0.01, 1e-4]))
        found = rate_bound(tp=tp, members=members, fp=fp, nonmembers=nonmembers, delta=delta, alpha=alpha)
        rates = largest_rate(fp, nonmembers, alpha / 2), largest_rate(members - tp, members, alpha / 2)
        assert found.epsilon == pytest.approx(smallest_epsilon(*rates, delta), rel=1e-6, abs=1e-8)
        assert found.epsilon <= found.ceiling + 1e-12


def slow_p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Steinke, Nasr and Jagielski (2023), Theorem 5.2, with tails where the library sums terms."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))

    def at_least(k: int) -> float:
        return float(stats.binom.sf(k - 1, r, q))

    worst = max(((at_least(v - i) - at_least(v)) / i for i in range(1, v + 1)), default=0.0)
    return min(1.0, at_least(v) + 2 * m * delta * worst)


def test_one_run_p_values_and_bounds_are_those_of_the_theorem() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        m = int(rng.choice([1, 2, 10, 100, 1000]))
        r = int(rng.integers(1, m + 1))
        v = int(rng.choice([0, r, rng.integers(r // 2, r + 1)]))
        delta, alpha = float(rng.choice([*DELTAS, 1e-15])), float(rng.choice([0.05, 1e-3]))
        for epsilon in (0.0, 0.7, 4.0):
            got = one_run_p_value(m=m, r=r, v=v, epsilon=epsilon, delta=delta)
            assert got == pytest.approx(slow_p_value(m, r, v, epsilon, delta), rel=1e-7, abs=1e-12)
        bound = one_run_bound(m=m, r=r, v=v, delta=delta, alpha=alpha).epsilon
        if bound > 0:
            assert slow_p_value(m, r, v, bound, delta) <= alpha * (1 + 1e-6)
        assert slow_p_value(m, r, v, bound + 1e-5, delta) > alpha * (1 - 1e-6)


def test_the_gaussian_audit_inverts_the_trade_off_curve() -> None:
    """ε by bisection on the trade-off function itself: the line of slope -e^ε that touches it leaves 1 - δ."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        members, nonmembers = (int(x) for x in rng.choice([10, 100, 5000, 1_000_000], 2))
        tp, fp = some_count(rng, members), some_count(rng, nonmembers)
        delta = float(rng.choice([1e-9, 1e-5, 1e-2]))
        found = gaussian_bound(tp=tp, members=members, fp=fp, nonmembers=nonmembers, delta=delta)
        fpr, fnr = largest_rate(fp, nonmembers, 0.025), largest_rate(members - tp, members, 0.025)
        mu = special.ndtri(1 - fpr) - special.ndtri(fnr)
        if mu <= 0 or not np.isfinite(mu):
            assert found.epsilon == 0.0
            continue
        assert dict(found.details)["mu"] == pytest.approx(mu, rel=1e-6, abs=1e-9)
        # The most that e^ε FPR + FNR falls short of one, over all thresholds of the likelihood ratio.
        at = np.linspace(-5, 60, 200_001)
        short = special.ndtr(mu - at) - np.exp(found.epsilon + special.log_ndtr(-at))
        assert short.max() == pytest.approx(delta, rel=1e-3) if found.epsilon > 0 else short.max() <= delta + 1e-9


def test_the_epsilon_of_a_gaussian_is_that_of_dp_accounting() -> None:
    accounting = pytest.importorskip("dp_accounting")
    for sigma in (0.3, 1.0, 4.0, 50.0):
        for delta in (1e-12, 1e-5, 1e-2):
            expected = accounting.get_epsilon_gaussian(sigma, delta)
            assert gaussian_epsilon(1 / sigma, delta) == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_another_auditing_library_agrees() -> None:
    """jax_privacy, where it is installed: thresholds given, so that only the bounds are compared."""
    peer = pytest.importorskip("jax_privacy.auditing")
    rng = np.random.default_rng(3)
    for _ in range(60):
        members, nonmembers = (int(x) for x in rng.choice([2, 10, 100, 5000], 2))
        tp, fp = some_count(rng, members), some_count(rng, nonmembers)
        auditor = peer.CanaryScoreAuditor(np.arange(members) < tp, np.arange(nonmembers) < fp)
        explicit = {"threshold_strategy": peer.Explicit(0.5)}
        ours = rate_bound(tp=tp, members=members, fp=fp, nonmembers=nonmembers, delta=1e-5)
        theirs = auditor.epsilon_clopper_pearson(0.05, 1e-5, one_sided=False, **explicit)
        assert ours.epsilon == pytest.approx(theirs, abs=1e-9)
        if tp + fp:
            ours = one_run_bound(m=members + nonmembers, r=tp + fp, v=tp, delta=1e-5)
            assert ours.epsilon == pytest.approx(auditor.epsilon_one_run(0.05, 1e-5, **explicit), abs=1e-4)


def test_rates_of_odd_scores_are_those_of_the_definition() -> None:
    """Ties, one record a side, many sizes: AUC over all pairs, TPR over all thresholds."""
    rng = np.random.default_rng(4)
    for k in range(150):
        members, nonmembers = (int(x) for x in rng.choice([1, 2, 10, 100], 2))
        inside, outside = rng.normal(1, 1, members), rng.normal(size=nonmembers)
        if k % 2:
            inside, outside = np.round(inside), np.round(outside)
        scores, truth = np.r_[inside, outside], np.arange(members + nonmembers) < members
        pairs = inside[:, None] - outside[None, :]
        assert auc(scores, truth) == pytest.approx(((pairs > 0) + (pairs == 0) / 2).mean(), abs=1e-12)
        for fpr in (0.0, 0.01, 0.07, 0.29, 0.5, 1.0):
            allowed = [t for t in (np.inf, *scores) if (outside >= t).sum() <= math.floor(fpr * nonmembers + 1e-9)]
            assert tpr_at_fpr(scores, truth, fpr).tpr == max((inside >= t).mean() for t in allowed)
