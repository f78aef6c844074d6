"""Tests a *local* claim by asking the release many times about two inputs and trying to tell the answers apart.

The release is asked about one text under many names, so that each answer has fresh noise. The direction in which the
two inputs differ is learnt on one part of the answers; the rest is projected on it and bounded by
:mod:`dpeval.measure.distinguish`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dpeval.arrays import save_arrays
from dpeval.jobs import digest
from dpeval.plugin import Release
from dpeval.types import Claim, Floats, Records, Text, Trust, Unit

LEARN, TEST, CHUNK = 200, 800, 50
VERSION = 1


def auditable_tap(release: Release) -> str | None:
    """The tap at which a local claim can be tested, or ``None`` if there is no such claim."""
    claim = release.claim
    if not isinstance(claim, Claim) or claim.trust is not Trust.LOCAL:
        return None
    return release.taps[0] if release.taps else "output"


def audit_identity(release_identity: dict[str, Any], release: Release, pool: Records) -> dict[str, Any]:
    """Everything that can change the audit."""
    return {
        "release": release_identity,
        "tap": auditable_tap(release),
        "pool": digest(pool),
        "version": VERSION,
        "draws": [LEARN, TEST],
    }


def audit_local_claim(release: Release, pool: Records, folder: Path) -> None:
    """Write the one-dimensional answers for both inputs, ``first`` and ``second``, each of length ``TEST``."""
    claim, tap = release.claim, auditable_tap(release)
    if not isinstance(claim, Claim) or tap is None:
        raise TypeError("only a local claim can be audited by repeated queries")
    one, other = neighbours(pool, claim.unit)
    means = [_mean(release, text, tap) for text in (one, other)]
    if means[0].shape != means[1].shape:
        # The number of rows alone tells the two inputs apart, in every draw.
        save_arrays(folder, first=np.ones(TEST), second=-np.ones(TEST))
        return
    first, second = (_project(release, text, tap, means[0] - means[1]) for text in (one, other))
    save_arrays(folder, first=first, second=second)


def neighbours(pool: Records, unit: Unit) -> tuple[Text, Text]:
    """Two inputs that the claim makes indistinguishable: two texts, or one text and the same with one word replaced."""
    if len(pool) < 2:
        raise ValueError(f"expected at least two auxiliary texts to tell apart, got {len(pool)}")
    texts = sorted(pool.texts, key=lambda t: (len(" ".join(t) if isinstance(t, tuple) else t), str(t)))
    short, long = texts[len(texts) // 10], texts[-max(1, len(texts) // 10)]
    if unit is not Unit.TOKEN:
        return short, long
    words, others = _words(long), _words(short)
    replaced = [others[0] if words[0] != others[0] else others[-1], *words[1:]]
    return " ".join(words), " ".join(replaced)


def _words(text: Text) -> list[str]:
    return (" ".join(text) if isinstance(text, tuple) else text).split()


def _answers(release: Release, text: Text, tap: str, part: str, count: int) -> Iterator[Floats]:
    """Chunks of flattened answers, shape ``(≤ CHUNK, rows · d)``."""
    for start in range(0, count, CHUNK):
        ids = tuple(f"audit/{part}/{i}" for i in range(start, min(start + CHUNK, count)))
        asked = Records(ids, (text,) * len(ids), (0,) * len(ids))
        answer = release.embed(asked, tap)
        yield np.stack([answer.rows(i).ravel() for i in range(len(ids))]).astype(np.float64)


def _mean(release: Release, text: Text, tap: str) -> Floats:
    total, count = np.zeros(1), 0
    for chunk in _answers(release, text, tap, "learn", LEARN):
        total, count = total + chunk.sum(axis=0), count + len(chunk)
    return total / count


def _project(release: Release, text: Text, tap: str, direction: Floats) -> Floats:
    chunks = _answers(release, text, tap, "test", TEST)
    return np.concatenate([chunk @ direction for chunk in chunks])
