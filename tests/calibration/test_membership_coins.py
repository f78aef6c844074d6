"""Membership is decided by fair, independent coins, and nothing about a record moves its coin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpeval.data.config import SplitConfig
from dpeval.data.split import split
from dpeval.types import Dataset, Records

GROUPS, SEEDS = 30, 3000


@pytest.fixture(scope="module")
def coins() -> np.ndarray:
    """Shape (seeds, groups): 1 for a member, 0 for a non-member, NaN for a group that was no candidate.

    The last ten groups have two records each; labels and lengths of the texts grow with the position.
    """
    of_group = [*range(GROUPS), *range(GROUPS - 10, GROUPS)]
    ids = tuple(f"r{i}" for i in range(len(of_group)))
    texts = tuple("word " * (i + 1) for i in range(len(ids)))
    pool = Records(ids, texts, tuple(int(i > 20) for i in range(len(ids))), groups=tuple(of_group))
    thrown = np.full((SEEDS, GROUPS), np.nan)
    for seed in range(SEEDS):
        done = split(Dataset("pool", pool, ("a", "b")), seed, SplitConfig())
        thrown[seed, list(done.members.groups)] = 1
        thrown[seed, list(done.nonmembers.groups)] = 0
    return thrown


def test_every_coin_is_fair(coins: np.ndarray) -> None:
    """Among the splits in which a group is a candidate it is a member in half (chi-square over all groups)."""
    n = np.sum(~np.isnan(coins), axis=0)
    heads = np.nansum(coins, axis=0)
    statistic = np.sum((heads - n / 2) ** 2 / (n / 4))
    assert stats.chi2.sf(statistic, GROUPS) > 1e-3
    assert stats.chi2.cdf(statistic, GROUPS) > 1e-3


def test_coins_are_independent(coins: np.ndarray) -> None:
    """Products of two coins, as signs, have mean zero for all pairs together and for neighbouring seeds."""
    signs = np.nan_to_num(2 * coins - 1)
    both = (signs != 0).astype(float)
    upper = np.triu_indices(GROUPS, 1)
    z = (signs.T @ signs)[upper] / np.sqrt((both.T @ both)[upper])
    assert stats.chi2.sf(np.sum(z**2), len(z)) > 1e-3
    neighbours = np.sum(signs[1:] * signs[:-1], axis=1) / np.sqrt(np.maximum(np.sum(both[1:] * both[:-1], axis=1), 1))
    assert stats.chi2.sf(np.sum(neighbours**2), SEEDS - 1) > 1e-3


def test_the_number_of_members_is_binomial(coins: np.ndarray) -> None:
    """Of n candidates the number of members has the variance n/4: nothing is balanced out."""
    n = np.sum(~np.isnan(coins), axis=1)
    z = (np.nansum(coins, axis=1) - n / 2) / np.sqrt(n / 4)
    assert stats.chi2.sf(np.sum(z**2), SEEDS) > 1e-3
    assert stats.chi2.cdf(np.sum(z**2), SEEDS) > 1e-3


def test_labels_and_lengths_tell_nothing_about_membership(coins: np.ndarray) -> None:
    """Position, which fixes label, length and group size, is as large among members as among non-members."""
    position = np.arange(GROUPS) - (GROUPS - 1) / 2
    signs = np.nan_to_num(2 * coins - 1)
    statistic = np.sum(signs * position) / np.sqrt(np.sum((signs != 0) * position**2))
    assert abs(statistic) < stats.norm.isf(5e-4)
