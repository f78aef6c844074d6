"""The division into roles: whole groups, every record in one role, sizes, order, small pools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpeval.data.config import SplitConfig
from dpeval.data.errors import DataError
from dpeval.data.split import split, split_notes
from dpeval.types import Dataset, Records, Split


def dataset(groups: list[int], labels: list[int] | None = None, test: Records | None = None) -> Dataset:
    n = len(groups)
    ids = tuple(f"r{i}" for i in range(n))
    pool = Records(ids, ids, tuple(labels or (i % 2 for i in range(n))), groups=tuple(groups))
    return Dataset("pool", pool, ("no", "yes"), test=test)


def roles(done: Split) -> tuple[Records, ...]:
    return (done.members, done.nonmembers, done.auxiliary, done.test)


pools = st.lists(st.integers(0, 30), min_size=4, max_size=80).filter(lambda groups: len(set(groups)) >= 4)
parts = st.tuples(st.floats(0.01, 0.49), st.floats(0.01, 0.49)).map(lambda p: SplitConfig(auxiliary=p[0], test=p[1]))


@given(pools, st.integers(0, 2**32), parts)
def test_no_group_straddles_and_every_record_has_one_role(groups: list[int], seed: int, config: SplitConfig) -> None:
    """For any pool of at least four groups: four roles, none empty, disjoint, complete, whole groups, in pool order."""
    data = dataset(groups)
    done = roles(split(data, seed, config))
    assert all(done)
    assert sorted(key for role in done for key in role.ids) == sorted(data.records.ids)
    for i, role in enumerate(done):
        positions = [data.records.ids.index(key) for key in role.ids]
        assert positions == sorted(positions)
        assert role == data.records.take(positions)
        assert not any(set(role.groups) & set(other.groups) for other in done[i + 1 :])


@given(pools, st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_split(groups: list[int], seed: int) -> None:
    """A split is a function of the data set, the seed and the parts."""
    assert split(dataset(groups), seed, SplitConfig()) == split(dataset(groups), seed, SplitConfig())


def test_different_seeds_give_different_splits() -> None:
    """Twenty seeds, twenty sets of members."""
    data = dataset(list(range(200)))
    assert len({split(data, seed, SplitConfig()).members.ids for seed in range(20)}) == 20


def test_sizes_of_the_parts() -> None:
    """With single records the parts are exact; with groups they are not overfilled."""
    done = split(dataset(list(range(200))), 0, SplitConfig(auxiliary=0.3, test=0.1))
    assert (len(done.auxiliary), len(done.test)) == (60, 20)
    for seed in range(20):
        done = split(dataset([i // 5 for i in range(200)]), seed, SplitConfig(auxiliary=0.3, test=0.1))
        assert (len(done.auxiliary), len(done.test)) == (60, 20)


def test_a_giant_group_is_a_candidate() -> None:
    """A group larger than a part is left to the candidates, so that small parts stay small."""
    for seed in range(20):
        done = split(dataset([*range(60), *[99] * 40]), seed, SplitConfig())
        assert (len(done.auxiliary), len(done.test)) == (25, 15)
        assert 99 in (*done.members.groups, *done.nonmembers.groups)


def test_labels_do_not_move_the_split() -> None:
    """Members are not stratified: other labels, the same split."""
    one = split(dataset(list(range(50)), [0] * 25 + [1] * 25), 3, SplitConfig())
    other = split(dataset(list(range(50))), 3, SplitConfig())
    assert [role.ids for role in roles(one)] == [role.ids for role in roles(other)]


def test_a_test_set_of_its_own_is_the_test_role() -> None:
    """No record of the pool goes into the test role then, and three groups are enough."""
    own = Records(("test:1",), ("t",), (0,), groups=(77,))
    done = split(dataset([0, 1, 2], test=own), 0, SplitConfig())
    assert done.test is own
    assert sorted(len(role) for role in roles(done)) == [1, 1, 1, 1]


def test_too_few_groups_name_what_is_needed() -> None:
    """Many copies of few texts are few groups; the message counts both."""
    with pytest.raises(DataError, match=r"9 usable records in 3 near-duplicate groups .* at least 4 rows"):
        split(dataset([0, 1, 2] * 3), 0, SplitConfig())


def test_coins_thrown_again_are_told() -> None:
    """With two candidates about half of the seeds need another throw; the split and its notes say so."""
    done = [split(dataset([0, 1, 2, 3]), seed, SplitConfig()) for seed in range(200)]
    again = [one for one in done if not one.independent_coins]
    assert 60 < len(again) < 140
    assert "thrown again" in split_notes(dataset([0, 1, 2, 3]), again[0])[-1].what
    assert split(dataset(list(range(200))), 0, SplitConfig()).independent_coins


def test_classes_that_a_role_lacks_are_told() -> None:
    """A class with one record cannot be everywhere; the notes name it and the role, and only then."""
    data = dataset(list(range(40)), [1] + [0] * 39)
    for seed in range(20):
        done = split(data, seed, SplitConfig())
        told = [note.what for note in split_notes(data, done)]
        lacking = [name for name, role in (("members", done.members), ("test", done.test)) if "r0" not in role.ids]
        assert told == [f"{name}: no record of class 'yes'" for name in lacking]
