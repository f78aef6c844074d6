"""Intervals reduce to the textbook's where there is one, and behave at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpeval.measure import bootstrap
from dpeval.measure.bootstrap import Ranked, auc_replicates, over_models
from dpeval.measure.influence import Part, auc_part, combination, difference, rate_parts, ratio_part
from dpeval.measure.intervals import Scale, clopper_pearson, critical, estimate, record_covariance, significance, wilson
from dpeval.measure.multiple import p_value
from dpeval.measure.roc import auc


def names(n: int, prefix: str = "r") -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(n))


def scored(seed: int, n: int = 200, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.4
    return np.round(rng.normal(size=n) + shift * truth, 1), truth


def delong_variance(scores: np.ndarray, truth: np.ndarray) -> float:
    """DeLong, DeLong and Clarke-Pearson (1988), written as in the paper."""
    wins = np.sign(scores[truth][:, None] - scores[~truth][None, :]) / 2 + 0.5
    m, n = wins.shape
    return float(wins.mean(axis=1).var(ddof=1) / m + wins.mean(axis=0).var(ddof=1) / n)


@pytest.mark.parametrize("seed", range(10))
def test_record_variance_of_the_auc_is_delongs(seed: int) -> None:
    """For one model and independent records, ties included."""
    scores, truth = scored(seed)
    part = auc_part(scores, truth, names(len(scores)))
    assert part.value == pytest.approx(auc(scores, truth), abs=1e-12)
    assert float(record_covariance([part]).matrix[0, 0]) == pytest.approx(delong_variance(scores, truth), rel=1e-9)


def test_record_variance_of_the_auc_agrees_with_the_bootstrap() -> None:
    """Two models over partly the same records: variances and covariance."""
    rng = np.random.default_rng(0)
    base, coins = rng.normal(size=400), rng.random((2, 400)) < 0.5
    runs = [(base + rng.normal(size=400) + coin, coin) for coin in coins]
    parts = [auc_part(s, t, names(400)) for s, t in runs]
    ranked = [bootstrap.Ranked.of(s, t, np.arange(400)) for s, t in runs]
    drawn = bootstrap.auc_replicates(ranked, units=400, resamples=4000, rng=rng)
    assert np.allclose(record_covariance(parts).matrix, np.cov(drawn), atol=0.1 * delong_variance(*runs[0]))


@pytest.mark.parametrize(("successes", "n"), [(0, 20), (3, 20), (20, 20), (450, 500)])
def test_one_rate_gets_wilsons_interval(successes: int, n: int) -> None:
    """Exactly scipy's, for one model and independent records."""
    found = estimate([ratio_part(np.arange(n) < successes, np.ones(n), names(n))])
    expected = stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert (found.n, found.models) == (n, 1)


def test_clopper_pearson_is_exact() -> None:
    """At its bounds the tails have half the remaining probability."""
    found = clopper_pearson(7, 50)
    assert stats.binom.sf(6, 50, found.low) == pytest.approx(0.025, abs=1e-9)
    assert stats.binom.cdf(7, 50, found.high) == pytest.approx(0.025, abs=1e-9)


@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("value", [0, 1])
def test_no_interval_of_a_rate_has_zero_width(models: int, value: int) -> None:
    """Not at 0 %, not at 100 %, however many models agree."""
    parts = [ratio_part(np.full(50, value), np.ones(50), names(50)) for _ in range(models)]
    found = estimate(parts)
    assert found.value == value
    assert found.high - found.low > 0.03
    perfect = [auc_part(np.arange(50.0), np.arange(50) >= 25, names(50)) for _ in range(models)]
    assert 0.85 < estimate(perfect).low < 0.99


def test_one_lucky_pair_does_not_make_certainty() -> None:
    """An AUC one pair short of 1 has about the interval of an AUC of 1, not a hundred times a smaller one."""
    scores = np.concatenate([np.arange(100.0, 200.0), np.arange(100.0)])
    truth = np.arange(200) < 100
    near = scores.copy()
    near[[100, 0]] = near[0] - 0.5, near[0] - 0.7
    width = [e.high - e.low for e in (estimate([auc_part(s, truth, names(200))]) for s in (scores, near))]
    assert width[1] > 0.7 * width[0] > 0


def test_the_same_records_seen_by_three_models_are_not_three_times_the_records() -> None:
    """Identical answers on one pool: the interval of one model. On separate pools: a narrower one."""
    rng = np.random.default_rng(1)
    right = rng.random(300) < 0.6
    once = estimate([ratio_part(right, np.ones(300), names(300))])
    thrice = estimate([ratio_part(right, np.ones(300), names(300))] * 3)
    apart = estimate([ratio_part(rng.permutation(right), np.ones(300), names(300, f"pool{i}/")) for i in range(3)])
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high), abs=1e-12)
    assert apart.high - apart.low < 0.65 * (once.high - once.low)


def test_models_that_differ_widen_the_interval() -> None:
    """Three models at 40, 60 and 80 % of 1,000 records: hardly anything is known about the mean."""
    parts = [ratio_part(np.arange(1000) < k, np.ones(1000), names(1000, f"{k}/")) for k in (400, 600, 800)]
    found = estimate(parts)
    assert found.value == pytest.approx(0.6)
    assert found.low < 0.3
    assert found.high > 0.8
    assert found.models == 3


def test_records_of_one_group_count_once() -> None:
    """Ten copies of each record give about the interval of the records, not of the copies."""
    right = np.random.default_rng(2).random(60) < 0.5
    single = estimate([ratio_part(right, np.ones(60), names(60))])
    copies = estimate([ratio_part(np.repeat(right, 10), np.ones(600), tuple(np.repeat(names(60), 10)))])
    assert (copies.low, copies.high) == pytest.approx((single.low, single.high), abs=0.01)


def test_a_paired_difference_cancels_what_is_shared() -> None:
    """The interval is far narrower than that of unpaired values, and reverses with the pair."""
    scores, truth = scored(3, n=400)
    rng = np.random.default_rng(4)
    a = auc_part(scores, truth, names(400))
    b = auc_part(scores + 0.1 * rng.normal(size=400), truth, names(400))
    forward = estimate([difference(a, b)], scale=Scale.DIFFERENCE)
    backward = estimate([difference(b, a)], scale=Scale.DIFFERENCE)
    single = estimate([a])
    assert forward.high - forward.low < 0.5 * (single.high - single.low)
    assert (backward.low, backward.high) == pytest.approx((-forward.high, -forward.low))


def test_no_difference_seen_is_not_no_difference() -> None:
    """Equal answers on n records: exactly 0, with the half-width z² / (n + z²) (Tango 1998)."""
    part = ratio_part(np.arange(100) < 40, np.ones(100), names(100))
    found = estimate([difference(part, part)], scale=Scale.DIFFERENCE)
    z2 = stats.norm.ppf(0.975) ** 2
    assert found.value == 0
    assert found.high == pytest.approx(z2 / (100 + z2), abs=0.02)


def test_influences_are_derivatives_of_the_reweighted_statistic() -> None:
    """Of a ratio, of rates and of a combination: a little more of one record moves the value by its influence."""
    rng = np.random.default_rng(5)
    a, b = rng.random(50), rng.random(50) + 1
    called, member = rng.random(50) < 0.4, rng.random(50) < 0.5
    tpr, fpr = rate_parts(called, member, names(50))
    half = combination((tpr, fpr), (0.5, -0.5), 0.5)
    step = 1e-6
    for i in range(5):
        w = np.ones(50)
        w[i] += step
        moved = (w * a).sum() / (w * b).sum()
        part = ratio_part(a, b, names(50))
        assert (moved - part.value) / step == pytest.approx(part.influence[i], rel=1e-3, abs=1e-9)
        true, false = (np.sum(w * called * g) / np.sum(w * g) for g in (member, ~member))
        assert (0.5 + (true - false) / 2 - half.value) / step == pytest.approx(half.influence[i], rel=1e-3, abs=1e-8)


def test_the_estimate_lies_in_its_own_interval() -> None:
    """For any parts: a peer's interval excluded its own value by a double negation."""
    rng = np.random.default_rng(6)
    for _ in range(200):
        n = int(rng.integers(4, 40))
        truth = np.arange(n) % 2 == 0
        parts = [auc_part(np.round(rng.normal(size=n), 0), truth, names(n)) for _ in range(int(rng.integers(1, 5)))]
        found = estimate(parts)
        assert 0 <= found.low <= found.value <= found.high <= 1


def test_wilson_stays_inside_zero_and_one() -> None:
    """Also with few effective trials and a large quantile."""
    for rate in (0.0, 0.2, 1.0):
        found = wilson(rate, 0.5, 12.7)
        assert 0 <= found.low <= rate <= found.high <= 1


def test_mismatches_are_refused() -> None:
    """No parts, parts over other records, influences of another length, ratios of nothing."""
    part = ratio_part([1, 0], [1, 1], ("a", "b"))
    with pytest.raises(ValueError, match="at least one model"):
        estimate([])
    with pytest.raises(ValueError, match="same records"):
        difference(part, ratio_part([1, 0], [1, 1], ("b", "a")))
    with pytest.raises(ValueError, match="2 units"):
        Part(0.5, np.zeros(3), ("a", "b"), 2, 2)
    with pytest.raises(ZeroDivisionError):
        ratio_part([0, 0], [0, 0], ("a", "b"))


def test_one_group_says_nothing_of_how_groups_vary() -> None:
    """Its records stand or fall together, so the interval is all that is possible."""
    found = estimate([ratio_part([1, 1, 0, 1], [1] * 4, ["g"] * 4)])
    assert (found.value, found.low, found.high) == (0.75, 0.0, 1.0)


def test_a_p_value_is_the_level_at_which_the_interval_touches() -> None:
    """With few models it is larger than the normal one at the same distance."""
    rng = np.random.default_rng(5)
    parts = [
        ratio_part(rng.random(400) < 0.55 + 0.03 * k, np.ones(400), [f"r{i}" for i in range(400)]) for k in range(3)
    ]
    p = significance(parts, 0.5)
    assert estimate(parts, level=1 - p * 1.01).excludes(0.5) != estimate(parts, level=1 - p / 1.01).excludes(0.5)
    assert p > p_value(estimate(parts), 0.5)
    assert significance([ratio_part(np.ones(9), np.ones(9), [f"r{i}" for i in range(9)])], 1.0) == 1.0


def test_two_levels_agree_with_resampling_models_and_records() -> None:
    """The analytic variance of ten models on shared records is that of the two-level bootstrap."""
    rng, n, models = np.random.default_rng(6), 250, 10
    pool, runs, parts = rng.normal(size=n), [], []
    for _ in range(models):
        member = rng.random(n) < 0.5
        scores = 0.6 * pool + 0.8 * rng.normal(size=n) + (1.0 + 0.4 * rng.normal()) * member
        runs.append(Ranked.of(scores, member, np.arange(n)))
        parts.append(auc_part(scores, member, [f"r{i}" for i in range(n)]))
    drawn = over_models(auc_replicates(runs, units=n, resamples=600, rng=rng), rng)
    found = estimate(parts)
    # The bootstrap draws R of R models, which loses one in R of their spread.
    assert (found.high - found.low) / 2 / 1.96 == pytest.approx(drawn.std(), rel=0.2)


def test_models_near_the_edge_leave_room_towards_the_middle() -> None:
    """Rates of 0.99, 0.97 and 0.80: so few models understate how far below others may lie."""
    rng = np.random.default_rng(0)
    parts = [ratio_part(rng.permutation(np.arange(100) < k), np.ones(100), names(100)) for k in (99, 97, 80)]
    found = estimate(parts)
    rate, spread = found.value, np.std([p.value for p in parts], ddof=1) / np.sqrt(3)
    half = stats.t.ppf(0.975, 2) * spread / (rate * (1 - rate))
    odds = np.log(rate / (1 - rate))
    assert found.low < 1 / (1 + np.exp(half - odds)) + 0.02
    assert found.low < rate - stats.t.ppf(0.975, 2) * spread
    assert found.high > 1 / (1 + np.exp(-half - odds)) - 0.02


def test_the_critical_value_is_that_of_student_where_models_differ() -> None:
    """And the normal one for a single model."""
    parts = [ratio_part(np.arange(1000) < k, np.ones(1000), names(1000, f"p{k}/")) for k in (200, 500, 800)]
    assert critical(parts, 0.95) == pytest.approx(stats.t.ppf(0.975, 2))
    assert critical(parts[:1], 0.95) == pytest.approx(stats.norm.ppf(0.975))
