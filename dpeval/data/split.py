"""Divides a cleaned pool into roles before anything is trained.

What is assigned is a near-duplicate *group*, never a record: no group has records in two roles. Test and auxiliary part
are drawn first. Every group that is left is a candidate and becomes a member by its own fair coin, so members and
non-members differ by chance alone, and a one-run audit may count on independent inclusion (Steinke, Nasr and Jagielski
2023). That is why members are not stratified by label: it would tie the coins together.

>>> records = Records(ids=tuple("abcdefgh"), texts=tuple("abcdefgh"), labels=(0, 1) * 4)
>>> roles = split(Dataset("letters", records, ("0", "1")), 0, SplitConfig())
>>> sorted(roles.members.ids + roles.nonmembers.ids + roles.auxiliary.ids + roles.test.ids) == list("abcdefgh")
True
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpeval.data.config import SplitConfig
from dpeval.data.errors import DataError
from dpeval.types import Dataset, Note, Records, Split

_MOST_DRAWS = 1000


def split(dataset: Dataset, seed: int, config: SplitConfig) -> Split:
    """The roles of ``dataset`` for one training seed; the records of a role stand in the order of the pool.

    A part of the pool is filled with whole groups in random order, leaving out groups that would overfill it. Where the
    coins make all candidates members or none, they are thrown again, and ``independent_coins`` says False.

    Raises:
        DataError: there are too few groups for every role to have one; the message says how many are needed.
    """
    rng = np.random.default_rng(seed)
    sizes = _sizes(dataset.records.groups)
    needed = 3 if dataset.test is not None else 4
    if len(sizes) < needed:
        raise DataError(
            f"{dataset.name}: {len(dataset.records)} usable records in {len(sizes)} near-duplicate groups cannot be "
            f"divided into {needed} roles; at least {needed} rows that are not near-duplicates are needed, and some "
            "hundred to measure anything"
        )
    order = [list(sizes)[i] for i in rng.permutation(len(sizes))]
    test = set() if dataset.test is not None else _fill(order, sizes, config.test, keep=3)
    order = [g for g in order if g not in test]
    auxiliary = _fill(order, sizes, config.auxiliary, keep=2)
    candidates = [g for g in order if g not in auxiliary]
    members, independent = _coins(candidates, rng)
    roles = (members, set(candidates) - members, auxiliary, test)
    inside, outside, aside, tested = (_take(dataset.records, chosen) for chosen in roles)
    return Split(inside, outside, aside, tested if dataset.test is None else dataset.test, independent)


def split_notes(dataset: Dataset, roles: Split) -> tuple[Note, ...]:
    """What a reader should know about this split: classes that members or test lack, and coins thrown again."""
    notes = []
    for name, records in (("members", roles.members), ("test", roles.test)):
        lacking = [label for i, label in enumerate(dataset.label_names) if i not in records.labels]
        if lacking:
            notes.append(Note(f"{name}: no record of class {', '.join(map(repr, lacking))}", len(records)))
    if not roles.independent_coins:
        count = len(roles.members) + len(roles.nonmembers)
        notes.append(Note("so few candidates that the coins were thrown again: inclusion is not independent", count))
    return tuple(notes)


def _sizes(groups: Sequence[int]) -> dict[int, int]:
    """How many records each group has, in order of first appearance."""
    sizes: dict[int, int] = {}
    for number in groups:
        sizes[number] = sizes.get(number, 0) + 1
    return sizes


def _fill(order: Sequence[int], sizes: dict[int, int], part: float, *, keep: int) -> set[int]:
    """Groups, taken in ``order``, that hold ``part`` of all records; at least one, and at least ``keep`` are left."""
    room = max(1, round(part * sum(sizes.values())))
    chosen: set[int] = set()
    for number in order:
        if sizes[number] <= room and len(chosen) < len(order) - keep:
            chosen.add(number)
            room -= sizes[number]
    return chosen or {min(order, key=lambda number: sizes[number])}


def _coins(candidates: Sequence[int], rng: np.random.Generator) -> tuple[set[int], bool]:
    """Which candidate groups are members, and whether the coins are independent (they were thrown once)."""
    for draw in range(_MOST_DRAWS):
        members = {
            number for number, heads in zip(candidates, rng.integers(2, size=len(candidates)), strict=True) if heads
        }
        if 0 < len(members) < len(candidates):
            return members, draw == 0
    raise DataError(f"{_MOST_DRAWS} throws of {len(candidates)} fair coins were all alike; the generator is broken")


def _take(records: Records, chosen: set[int]) -> Records:
    return records.take(i for i, number in enumerate(records.groups) if number in chosen)
