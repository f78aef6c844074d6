"""Poisson draws: every record by its own coin, in every step anew."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpeval_defenses.dp_adam.sampler import FixedSizeSampler, PoissonSampler, expected_rate, micro_batches


def test_draw_sizes_are_binomial_not_fixed() -> None:
    """Sizes over 4,000 steps have the mean, variance and share of empty draws of Binomial(20, 0.05)."""
    sampler = PoissonSampler(20, 0.05, entropy=1)
    sizes = np.array([len(sampler.draw(step)) for step in range(4000)])
    expected = stats.binom(20, 0.05)
    assert abs(sizes.mean() - expected.mean()) < 4 * expected.std() / 4000**0.5
    assert abs(sizes.var() / expected.var() - 1) < 0.12
    assert stats.binomtest(int((sizes == 0).sum()), 4000, expected.pmf(0)).pvalue > 1e-4


def test_each_record_is_drawn_at_the_rate_and_independently_of_the_others() -> None:
    """Inclusion counts are at the rate for every record; two records' coins are uncorrelated, as are two steps'."""
    sampler = PoissonSampler(30, 0.3, entropy=2)
    coins = np.zeros((3000, 30))
    for step in range(3000):
        coins[step, sampler.draw(step)] = 1
    assert stats.chisquare([coins.mean(0).sum() / 30 * 3000, 3000 * (1 - coins.mean())], [900, 2100]).pvalue > 1e-4
    assert np.abs(coins.mean(0) - 0.3).max() < 5 * (0.21 / 3000) ** 0.5
    between_records = np.corrcoef(coins.T)[np.triu_indices(30, 1)]
    between_steps = [np.corrcoef(coins[:-1, i], coins[1:, i])[0, 1] for i in range(30)]
    assert np.abs(between_records).max() < 5 / 3000**0.5
    assert np.abs(between_steps).max() < 5 / 3000**0.5


def test_a_step_draws_the_same_however_often_and_in_whatever_order_it_is_asked() -> None:
    sampler = PoissonSampler(100, 0.2, entropy=3)
    later = sampler.draw(7)
    sampler.draw(0)
    assert np.array_equal(later, PoissonSampler(100, 0.2, entropy=3).draw(7))
    assert not np.array_equal(later, PoissonSampler(100, 0.2, entropy=4).draw(7))


def test_rate_one_draws_everyone_and_a_batch_beyond_the_data_is_rate_one() -> None:
    """Seven rows and a batch of 32: the rate is 1, never above (a rate above 1 has no accounting)."""
    assert expected_rate(32, 7) == 1.0
    assert PoissonSampler(7, expected_rate(32, 7), entropy=0).draw(0).tolist() == list(range(7))
    assert expected_rate(300, 1000) == 0.3


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.0001, float("nan")])
def test_a_rate_outside_zero_to_one_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="0 < rate <= 1"):
        PoissonSampler(10, rate, entropy=0)


def test_fixed_size_draws_are_subsets_of_that_size_each_record_alike() -> None:
    sampler = FixedSizeSampler(12, 5, entropy=0)
    draws = [sampler.draw(step) for step in range(2000)]
    assert all(len(set(draw.tolist())) == 5 for draw in draws)
    counts = np.bincount(np.concatenate(draws), minlength=12)
    assert np.abs(counts / 2000 - 5 / 12).max() < 5 * (5 / 12 * 7 / 12 / 2000) ** 0.5


def test_micro_batches_cover_a_draw_once_in_parts_of_bounded_size() -> None:
    parts = list(micro_batches(np.arange(70), 32))
    assert [len(part) for part in parts] == [32, 32, 6]
    assert np.array_equal(np.concatenate(parts), np.arange(70))
    assert list(micro_batches(np.arange(0), 32)) == []
