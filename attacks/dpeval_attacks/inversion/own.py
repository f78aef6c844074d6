"""What every inversion attack starts from: texts of its own, released by the public client, with their tokens.

With a view, a :class:`~dpeval.plugin.Knowledge` and a context at hand::

    own = release_own(view, knowledge, ctx, queries=1, most=500)
    picture = fit_picture(own.study.sample, own.table, ridge=1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.text_encoding import check_same_encoding
from dpeval.plugin import Context, EmbeddingView, Knowledge
from dpeval.types import Claim, Ints, PrivacyClaim, Records, Rows, Trust
from dpeval_attacks.draws import mean_rows, order_of
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.search import NO_ANSWER
from dpeval_attacks.inversion.study import Study, study_releases

HELD_OUT = 0.2
"""Share of the auxiliary texts on which the adversary tries what it has learnt before it uses it."""
HELD_OUT_ROWS = 600
_NOISE_TEXTS = 8
_AS_STATED = 0.1
"""How far the noise of a release may be from the stated one, as a share, and still be taken for it."""


@dataclass(frozen=True, eq=False)
class OwnTexts:
    """The adversary's own texts with their released rows, aligned with their tokens."""

    texts: Records
    tokens: list[list[int]]
    study: Study
    table: Rows
    """The public word-embedding table, shape (vocabulary, e)."""
    special_ids: frozenset[int]

    @property
    def width(self) -> int:
        """Columns of a released row."""
        return int(self.study.sample.rows.shape[1])

    @property
    def allowed(self) -> Ints:
        """The ids that compete: all but special ones. A special token met inside texts (unknown words, a separator)
        competes too, so that its rows are not misread; it is never an answer."""
        barred = self.special_ids - set(self.study.inner_tokens.tolist())
        return np.setdiff1d(np.arange(len(self.table)), np.array(sorted(barred), dtype=np.int64), assume_unique=True)

    def tried_texts(self, ctx: Context) -> np.ndarray:
        """Which texts are held out, True or False for each."""
        tried = np.zeros(len(self.texts), dtype=bool)
        order = ctx.rng("held-out").permutation(len(self.texts))
        tried[order[: max(1, round(HELD_OUT * len(self.texts)))]] = True
        return tried

    def parted(self, ctx: Context) -> tuple[Sample, Sample]:
        """The rows to learn on, and some inner rows of other texts to try the result on."""
        tried = self.tried_texts(ctx)
        inside = np.flatnonzero(tried[self.study.texts] & self.study.is_inner)
        chosen = np.sort(ctx.rng("held-out rows").permutation(inside)[:HELD_OUT_ROWS])
        keep = np.zeros(len(self.study.texts), dtype=bool)
        keep[chosen] = True
        return self.study.sample.where(~tried[self.study.texts]), self.study.sample.where(keep)


def release_own(
    view: EmbeddingView, knowledge: Knowledge, ctx: Context, *, queries: int, most: int, who: str
) -> OwnTexts:
    """Release at most ``most`` auxiliary texts, each ``queries`` times and averaged, and align rows with tokens.

    ModelError when the release reads texts in another way than ``knowledge.checkpoint``; ValueError when there are
    fewer than two texts, or fewer rows than tokens.
    """
    checkpoint = knowledge.checkpoint
    check_reading(view, checkpoint)
    texts = some_texts(knowledge.auxiliary, most, ctx, who)
    tokens = checkpoint.tokens(texts)
    released = mean_rows(lambda draw: view.embed(texts, draw=draw), queries)
    rows = [released.rows(i) for i in order_of(released.ids, texts.ids)]
    study = study_releases(texts.ids, rows, tokens, special_ids=checkpoint.special_ids)
    return OwnTexts(texts, tokens, study, checkpoint.input_embeddings(), checkpoint.special_ids)


def check_reading(view: EmbeddingView, checkpoint: Checkpoint) -> None:
    """Raise ModelError, with both values, where release and attack turn texts into tokens in different ways."""
    check_same_encoding(getattr(view, "encoding", None), checkpoint.text_encoding)


def some_texts(auxiliary: Records, most: int, ctx: Context, who: str) -> Records:
    """At most ``most`` of the auxiliary texts, drawn at random, in their order."""
    if len(auxiliary) < 2:
        raise ValueError(f"{who}: expected at least 2 auxiliary texts to learn from, got {len(auxiliary)}")
    if len(auxiliary) <= most:
        return auxiliary
    return auxiliary.take(np.sort(ctx.rng("auxiliary").choice(len(auxiliary), most, replace=False)).tolist())


def noise_scale(view: EmbeddingView, texts: Records, claim: PrivacyClaim, queries: int) -> float:
    """Standard deviation of the noise on each released entry, after averaging ``queries`` draws; 0 for a clear release.

    The published one (``sigma`` of a local claim) where two draws of own texts bear it out; else what those two say: a
    release may scale or project after its noise.
    """
    few = texts.take(range(min(_NOISE_TEXTS, len(texts))))
    one, other = (view.embed(few, draw=draw).values.astype(np.float64) for draw in (0, 1))
    difference = (one - other)[np.isfinite(one) & np.isfinite(other)]
    measured = float(np.sqrt(np.mean(np.square(difference)) / 2)) if difference.size else 0.0
    stated = stated_noise(claim)
    borne_out = stated is not None and abs(stated - measured) <= _AS_STATED * measured
    return (stated if stated is not None and borne_out else measured) / float(np.sqrt(queries))


def stated_noise(claim: PrivacyClaim) -> float | None:
    """σ of a local claim, if it states one."""
    if not isinstance(claim, Claim) or claim.trust is not Trust.LOCAL:
        return None
    sigma = dict(claim.details).get("sigma")
    return float(sigma) if isinstance(sigma, int | float) else None


def asked_rows(texts: Sequence[Rows], study: Study) -> tuple[Sample, list[tuple[int, int]]]:
    """The rows of intercepted ``texts`` that hold their own tokens, and (first, count) of each text's."""
    layouts = [study.layout(rows) for rows in texts]
    inner = [rows[part.first : part.last] for rows, part in zip(texts, layouts, strict=True)]
    counts = [len(rows) for rows in inner]
    asked = Sample(
        rows=np.concatenate(inner),
        tokens=np.full(sum(counts), NO_ANSWER),
        positions=np.concatenate([part.first + np.arange(n) for part, n in zip(layouts, counts, strict=True)]),
        gains=np.repeat([part.gain for part in layouts], counts),
    )
    return asked, [(part.first, count) for part, count in zip(layouts, counts, strict=True)]


def answers_of(
    read: Ints, places: Sequence[tuple[int, int]], texts: Sequence[Rows], special_ids: frozenset[int]
) -> tuple[tuple[int, ...], ...]:
    """``read``, one token for each asked row, spread over the rows of each text; special tokens become no answer."""
    read = np.where(np.isin(read, list(special_ids)), NO_ANSWER, read)
    pieces = np.split(read, np.cumsum([count for _, count in places])[:-1])
    return tuple(
        _padded(piece, first, len(rows)) for piece, (first, _), rows in zip(pieces, places, texts, strict=True)
    )


def rankings_of(
    best: Ints, places: Sequence[tuple[int, int]], texts: Sequence[Rows], special_ids: frozenset[int]
) -> tuple[Ints, ...] | None:
    """``best`` (n, k), best first, spread over the rows of each text as :func:`answers_of` does; ``None`` for k = 1."""
    if best.shape[1] == 1:
        return None
    best = np.where(np.isin(best, list(special_ids)), NO_ANSWER, best)
    whole = [np.full((len(rows), best.shape[1]), NO_ANSWER, dtype=np.int64) for rows in texts]
    start = 0
    for table, (first, count) in zip(whole, places, strict=True):
        table[first : first + count] = best[start : start + count]
        start += count
    return tuple(whole)


def led_by(read: Ints, ranked: Ints) -> Ints:
    """``ranked`` with the answer of each row moved to the front; no answer leaves nothing to rank, no token comes
    twice."""
    whole = np.hstack([read[:, None], ranked])
    earlier = np.array([[t in row[:i] for i, t in enumerate(row)] for row in whole.tolist()], dtype=bool)
    whole[earlier | (read < 0)[:, None]] = NO_ANSWER
    order = np.argsort(whole < 0, axis=1, kind="stable")
    found: Ints = np.take_along_axis(whole, order, axis=1)
    return found


def _padded(read: Ints, first: int, length: int) -> tuple[int, ...]:
    whole = np.full(length, NO_ANSWER, dtype=np.int64)
    whole[first : first + len(read)] = read
    return tuple(whole.tolist())
