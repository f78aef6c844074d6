"""Tests a *local* claim by asking the release many times about two inputs and trying to tell the answers apart.

The release is asked about one text under many names, so that each answer has fresh noise. Answers are projected on the
direction in which the two inputs differ: known, where the release can be asked without noise, else learnt on answers of
its own. The rest is bounded by :mod:`dpeval.measure.distinguish`. How many answers are asked for follows from the
claim: as many as can refute it, where that is affordable.

>>> planned_draws(2.0, 1e-5, numbers=384), planned_draws(8.0, 1e-5, numbers=384), planned_draws(20.0, 1e-5, numbers=384)
(800, 23818, 800)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dpeval.arrays import save_arrays
from dpeval.jobs import digest
from dpeval.measure.distinguish import needed_draws
from dpeval.neighbours import Neighbours, Tokens, neighbours
from dpeval.plugin import Release
from dpeval.privacy.claims import claim_of_one_answer
from dpeval.types import Claim, Floats, Records, Text, Trust

LEARN, TEST = 200, 800
CHUNK, LARGEST_CHUNK, CHUNK_NUMBERS = 50, 5000, 2_000_000
MOST_DRAWS, MOST_NUMBERS = 40_000, 1_000_000_000
"""Limits on the answers about one input, and on all numbers drawn (half a minute at most)."""
LEVEL = 0.005
"""One audit of ten at 95 %; fewer draws are made where only a single audit could be."""
VERSION = 4


def auditable_tap(release: Release) -> str | None:
    """The tap at which a local claim can be tested, or ``None`` if there is no such claim, or none about answers."""
    claim = release.claim
    if not isinstance(claim, Claim) or claim.trust is not Trust.LOCAL:
        return None
    if not getattr(release, "answers_covered", True):
        return None
    return release.taps[0] if release.taps else "output"


def audit_identity(release_identity: dict[str, Any], release: Release, pool: Records) -> dict[str, Any]:
    """Everything that can change the audit."""
    return {
        "release": release_identity,
        "tap": auditable_tap(release),
        "pool": digest(pool),
        "version": VERSION,
        "draws": [LEARN, TEST, MOST_DRAWS, MOST_NUMBERS],
    }


def audit_local_claim(release: Release, pool: Records, folder: Path, tokens: Tokens | None = None) -> None:
    """Write the one-dimensional answers for both inputs, ``first`` and ``second``, of one length.

    ``tokens`` gives the token ids of texts, for claims about tokens or among texts of one length.
    """
    claim, tap = release.claim, auditable_tap(release)
    if not isinstance(claim, Claim) or tap is None:
        raise TypeError("only a local claim can be audited by repeated queries")
    pair = neighbours(release, claim, pool, tap, tokens)
    direction = _direction(release, pair, tap)
    if direction is None:
        # The number of rows alone tells the two inputs apart, in every draw.
        save_arrays(folder, first=np.ones(TEST), second=-np.ones(TEST))
        return
    # A release that reads a text once, however often it is asked about, can be asked more often.
    cheap = bool(getattr(release, "reads_once", False))
    draws = planned_draws(claim_of_one_answer(claim).epsilon, claim.delta, len(direction)) if cheap else TEST
    first, second = (_project(release, text, tap, direction, draws) for text in (pair.one, pair.other))
    save_arrays(folder, first=first, second=second)


def planned_draws(epsilon: float, delta: float, numbers: int) -> int:
    """Answers to ask for about each input, each of so many ``numbers``: enough to refute ``epsilon`` if that can be."""
    most = min(MOST_DRAWS, MOST_NUMBERS // (2 * numbers))
    if most <= TEST or epsilon > np.log(most) or needed_draws(epsilon, delta=delta) > most:
        return TEST
    return max(TEST, min(most, needed_draws(epsilon, delta=delta, alpha=LEVEL)))


def _direction(release: Release, pair: Neighbours, tap: str) -> Floats | None:
    if pair.difference is not None and pair.difference.any():
        return pair.difference / np.linalg.norm(pair.difference)
    means = [_mean(release, text, tap) for text in (pair.one, pair.other)]
    return means[0] - means[1] if means[0].shape == means[1].shape else None


def _answers(release: Release, text: Text, tap: str, part: str, count: int, chunk: int = CHUNK) -> Iterator[Floats]:
    """Chunks of flattened answers, shape ``(≤ chunk, rows · d)``."""
    for start in range(0, count, chunk):
        ids = tuple(f"audit/{part}/{i}" for i in range(start, min(start + chunk, count)))
        answer = release.embed(Records(ids, (text,) * len(ids), (0,) * len(ids)), tap)
        yield np.stack([answer.rows(i).ravel() for i in range(len(ids))]).astype(np.float64)


def _mean(release: Release, text: Text, tap: str) -> Floats:
    total, count = np.zeros(1), 0
    for chunk in _answers(release, text, tap, "learn", LEARN):
        total, count = total + chunk.sum(axis=0), count + len(chunk)
    return total / count


def _project(release: Release, text: Text, tap: str, direction: Floats, draws: int) -> Floats:
    chunk = min(LARGEST_CHUNK, max(CHUNK, CHUNK_NUMBERS // len(direction)))
    return np.concatenate([some @ direction for some in _answers(release, text, tap, "test", draws, chunk)])
