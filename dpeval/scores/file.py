"""An audit of a file of scores: what :mod:`reading` reads, audited by :mod:`audit`.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "s.csv"
>>> _ = path.write_text("score,member\\n" + "0.9,1\\n0.1,0\\n" * 50)
>>> audit_file(path).auc.value
1.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dpeval.measure.membership import LOW_FPRS, PREVALENCE
from dpeval.scores.audit import DELTA, audit_scores
from dpeval.scores.reading import read_scores
from dpeval.scores.results import Inclusion, ScoreAudit


def audit_file(
    path: Path,
    columns: Mapping[str, str] | None = None,
    *,
    claim_epsilon: float | None = None,
    delta: float = DELTA,
    inclusion: Inclusion = Inclusion.UNSTATED,
    prevalence: float = PREVALENCE,
    level: float = 0.95,
    fprs: Sequence[float] | None = None,
) -> ScoreAudit:
    """Read and audit; see :func:`read_scores` and :func:`audit_scores` for the arguments and what is refused."""
    table = read_scores(path, columns)
    inside = [i for i, member in enumerate(table.member) if member]
    outside = [i for i, member in enumerate(table.member) if not member]
    return audit_scores(
        [table.score[i] for i in inside],
        [table.score[i] for i in outside],
        member_ids=_of(table.id, inside),
        nonmember_ids=_of(table.id, outside),
        member_groups=_of(table.group, inside),
        nonmember_groups=_of(table.group, outside),
        member_seeds=_of(table.seed, inside),
        nonmember_seeds=_of(table.seed, outside),
        member_texts=_of(table.text, inside),
        nonmember_texts=_of(table.text, outside),
        claim_epsilon=claim_epsilon,
        delta=delta,
        inclusion=inclusion,
        prevalence=prevalence,
        level=level,
        fprs=fprs or LOW_FPRS,
    )


def _of(keys: tuple[str, ...] | None, at: Sequence[int]) -> list[str] | None:
    return None if keys is None else [keys[i] for i in at]
