"""Members and non-members as given, checked, and joined into one run for each trained model.

>>> inside = side_of("members", [0.9, 0.8], None, None, None, "m")
>>> outside = side_of("nonmembers", [0.1], None, None, None, "n")
>>> runs_of(inside, outside)[0].ids
('m0', 'm1', 'n0')
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpeval.measure.blind import Blind, BlindRun, measure_blind
from dpeval.measure.membership import MembershipRun
from dpeval.types import Floats

Keys = Sequence[Hashable] | ArrayLike


@dataclass(frozen=True, eq=False)
class Side:
    """Members or non-members: scores of shape ``(n,)``; for each its id, group, training seed and text, where known."""

    scores: Floats
    ids: tuple[str, ...]
    groups: tuple[str, ...] | None
    seeds: tuple[str, ...]
    texts: tuple[str, ...] | None = None


def side_of(
    name: str,
    scores: ArrayLike,
    ids: Keys | None,
    groups: Keys | None,
    seeds: Keys | None,
    prefix: str,
    texts: Sequence[str] | None = None,
) -> Side:
    """Check one side, and name its records ``prefix`` and their place where they have no ids."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"{name}: expected scores of shape (n,), got {values.shape}")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"{name}: {len(bad)} of {len(values)} scores are infinite or NaN, the first at {bad[0]}")
    n = len(values)
    return Side(
        values,
        _keys(f"{name} ids", ids, n) or tuple(f"{prefix}{i}" for i in range(n)),
        _keys(f"{name} groups", groups, n),
        _keys(f"{name} seeds", seeds, n) or ("",) * n,
        _keys(f"{name} texts", texts, n),
    )


def _keys(name: str, keys: Keys | None, n: int) -> tuple[str, ...] | None:
    if keys is None:
        return None
    listed = tuple(map(str, keys.tolist() if isinstance(keys, np.ndarray) else list(keys)))  # type: ignore[arg-type]
    if len(listed) != n:
        raise ValueError(f"{name}: expected one for each of the {n} scores, got {len(listed)}")
    return listed


def check_both(sides: tuple[Side, Side], groups: tuple[object, object], seeds: tuple[object, object]) -> None:
    """What one side has, the other must have too."""
    if (sides[0].texts is None) != (sides[1].texts is None):
        raise ValueError("texts: give them for members and for non-members, or for neither")
    for name, (one, other) in (("groups", groups), ("seeds", seeds)):
        if (one is None) != (other is None) and len(sides[0].scores) and len(sides[1].scores):
            raise ValueError(f"{name}: give them for members and for non-members, or for neither")


def runs_of(inside: Side, outside: Side) -> list[MembershipRun]:
    """One run for each seed, in the order of first appearance.

    Raises:
        ValueError: an id stands twice in one run.
    """
    numbers = {g: i for i, g in enumerate(dict.fromkeys((*(inside.groups or ()), *(outside.groups or ()))))}
    runs = []
    for seed in dict.fromkeys((*inside.seeds, *outside.seeds)):
        parts = [(side, [i for i, s in enumerate(side.seeds) if s == seed]) for side in (inside, outside)]
        ids = tuple(side.ids[i] for side, at in parts for i in at)
        _check_unique(ids, seed)
        scores = np.concatenate([side.scores[at] for side, at in parts])
        truth = np.concatenate([np.full(len(at), side is inside) for side, at in parts])
        groups = tuple(numbers[side.groups[i]] for side, at in parts for i in at if side.groups is not None)
        runs.append(MembershipRun(ids, scores, truth, groups or None))
    return runs


def _check_unique(ids: tuple[str, ...], seed: str) -> None:
    if len(set(ids)) == len(ids):
        return
    seen: set[str] = set()
    twice = next(key for key in ids if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    where = f" of seed {seed!r}" if seed else ""
    raise ValueError(f"record id {twice!r} stands twice among the scores{where}; ids name one record each")


def blind_attack(runs: Sequence[MembershipRun], inside: Side, outside: Side, level: float) -> Blind | None:
    """The attacker that sees the texts and no score, where texts were given."""
    if inside.texts is None or outside.texts is None:
        return None
    texts = dict(zip((*inside.ids, *outside.ids), (*inside.texts, *outside.texts), strict=True))
    return measure_blind(
        [BlindRun(run.ids, tuple(texts[key] for key in run.ids), run.is_member, groups=run.groups) for run in runs],
        level=level,
    )
