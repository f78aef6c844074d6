"""Embedding inversion by gradient descent over a relaxed vocabulary.

A matrix names it ``use = "invert-gradient"``. By hand, with a view, the targets' ids and a
:class:`~dpeval.plugin.Knowledge`::

    recovered = GradientInversion(restarts=3).recover(view, targets, knowledge, ctx)

>>> GradientInversion(temperature=2.0)
Traceback (most recent call last):
    ...
ValueError: GradientInversion: expected temperature above 0 and at most 1, got 2.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from dpeval.models.checkpoint import Checkpoint
from dpeval.models.dependence import is_pooled
from dpeval.plugin import Context, EmbeddingView, InversionAttack, Knowledge
from dpeval.types import Recovered
from dpeval_attacks.draws import check_queries, mean_rows, order_of
from dpeval_attacks.inversion.descents import Search
from dpeval_attacks.inversion.forward import Forward, LayersForward, MapForward
from dpeval_attacks.inversion.nearest import NearestInversion
from dpeval_attacks.inversion.own import OwnTexts, answers_of, asked_rows, noise_scale, rankings_of, release_own
from dpeval_attacks.inversion.pooled import invert_pooled
from dpeval_attacks.inversion.prefix import Prefix, depth_of, fit_prefix
from dpeval_attacks.inversion.published import CAVEAT_GRADIENT
from dpeval_attacks.inversion.reader import Reader, ReadsRows
from dpeval_attacks.inversion.relaxation import Schedule
from dpeval_attacks.inversion.rowwise import RowwiseForward, RowwiseReader

Through = Literal["auto", "layers", "map"]
PUBLISHED_STEPS = 2000


@dataclass(frozen=True, kw_only=True)
class GradientInversion(InversionAttack):
    """An adversary on the wire who knows the public layers before the tap, and searches for a text that explains a row.

    It puts in place of each word a weighted mean of candidate words, runs that through the public layers to the tap,
    scales it as the release does, and moves the weights by gradient descent until the rows are those that were
    released, as far as the published noise allows; the temperature of the weights falls until each is one word. Unlike
    a row-by-row reading this uses what the layers mix in from neighbouring words. Where the tap is deep (more than
    ``deepest`` layers), or the layers were trained and are not public, it descends through the map from words to rows
    that it has learnt on texts of its own instead; ``through`` forces one or the other. On one pooled row for a whole
    text it looks for a bag of words.

    ``shortlist`` candidates are tried for each row, those that :class:`NearestInversion` finds likeliest; 0 takes the
    whole vocabulary. ``restarts`` descents begin at different weights, the first at that reading; whichever whole words
    explain the release best are answered. ``steps`` and ``learning_rate`` are those of Adam; a descent stops earlier
    when it has converged. ``batch`` texts descend together. ``top_k`` tokens of each row are named: the answer first,
    then the other candidates as its row alone ranks them. Special tokens are never an answer; a row that tells
    nothing (zeros, not finite, no gradient) stays unanswered.

    ``protocol = "published"`` is that of Du et al. 2023, for comparison beside this attack: the whole vocabulary at one
    temperature, squared distance alone, 2,000 steps of Adam at 1e-4 from Xavier weights (``steps`` and the rest of the
    settings are not used; on a processor this takes minutes a text with a vocabulary of thirty thousand).
    """

    source: ClassVar[str] = (
        "Song and Raghunathan 2020 (arXiv:2004.00053), sec. 3; Du et al. 2023 (arXiv:2309.06746), 6.3"
    )
    version: ClassVar[int] = 3
    reads_pooled: ClassVar[bool] = True

    through: Through = "auto"
    deepest: int = 2
    shortlist: int = 16
    temperature: float = 0.05
    restarts: int = 2
    steps: int = 120
    learning_rate: float = 0.1
    tolerance: float = 1e-4
    batch: int = 32
    queries: int = 1
    max_auxiliary: int = 500
    top_k: int = 1
    protocol: Literal["sound", "published"] = "sound"

    @property
    def sound(self) -> GradientInversion:
        """The same attack with its own settings where it follows the published protocol."""
        return self if self.protocol == "sound" else replace(self, protocol="sound")

    @property
    def caveat(self) -> str:
        """What is wrong with the published protocol."""
        return CAVEAT_GRADIENT if self.protocol == "published" else ""

    def __post_init__(self) -> None:
        check_queries(self.queries)
        if self.through not in ("auto", "layers", "map"):
            raise ValueError(f"GradientInversion: expected through to be auto, layers or map, got {self.through!r}")
        if self.protocol not in ("sound", "published"):
            raise ValueError(f"GradientInversion: expected protocol to be sound or published, got {self.protocol!r}")
        if not 0 < self.temperature <= 1:
            raise ValueError(f"GradientInversion: expected temperature above 0 and at most 1, got {self.temperature}")
        for name, least in (
            ("deepest", 0),
            ("shortlist", 0),
            ("restarts", 1),
            ("steps", 1),
            ("batch", 1),
            ("top_k", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"GradientInversion: expected {name} >= {least}, got {getattr(self, name)}")
        if not self.learning_rate > 0 or not self.tolerance >= 0:
            got = f"{self.learning_rate} and {self.tolerance}"
            raise ValueError(f"GradientInversion: expected learning_rate > 0 and tolerance >= 0, got {got}")
        if self.max_auxiliary < 2:
            raise ValueError(f"GradientInversion: expected max_auxiliary >= 2 texts, got {self.max_auxiliary}")

    def recover(self, view: EmbeddingView, targets: Sequence[str], knowledge: Knowledge, ctx: Context) -> Recovered:
        """For each target a token id per released row; ``-1`` where the row is special, padding or tells nothing."""
        found = mean_rows(lambda draw: view.intercepted(draw=draw), self.queries)
        rows = [found.rows(i) for i in order_of(found.ids, targets)]
        if not rows:
            return Recovered((), ())
        if is_pooled(knowledge.checkpoint, view.tap):
            schedule = self.schedule
            options = {"queries": self.queries, "most": self.max_auxiliary, "batch": self.batch}
            return Recovered(
                tuple(targets), invert_pooled(view, np.concatenate(rows), knowledge, ctx, schedule, **options)
            )
        own = release_own(view, knowledge, ctx, queries=self.queries, most=self.max_auxiliary, who=type(self).__name__)
        asked, places = asked_rows(rows, own.study)
        forward, reader = self._ways(own, view, knowledge, ctx)
        best = Search(self, own, forward, reader, asked, places, ctx).best()
        answers = answers_of(best[:, 0], places, rows, own.special_ids)
        return Recovered(tuple(targets), answers, rankings_of(best, places, rows, own.special_ids))

    @property
    def schedule(self) -> Schedule:
        """How the weights move."""
        if self.protocol == "published":
            return Schedule(PUBLISHED_STEPS, 1e-4, hot=0.05, cold=0.05, tolerance=0.0)
        return Schedule(self.steps, self.learning_rate, hot=1.0, cold=self.temperature, tolerance=self.tolerance)

    def _ways(
        self, own: OwnTexts, view: EmbeddingView, knowledge: Knowledge, ctx: Context
    ) -> tuple[Forward, ReadsRows]:
        """What is descended, and who names candidates: the public layers where the tap is shallow and they explain the
        release at least as well as the learnt map; else the map. Where they explain it without anything learnt, nothing
        is learnt."""
        checkpoint = knowledge.checkpoint
        prefix = self._prefix(own, view.tap, checkpoint, ctx)
        noise = 0.0 if prefix is None else noise_scale(view, own.texts, knowledge.claim, self.queries)
        if prefix is not None and prefix.explains(noise):
            options = {"pad_id": checkpoint.pad_id, "positions": checkpoint.max_length}
            rowwise = RowwiseReader.of(prefix, own, noise=max(noise, prefix.left), **options)
            if rowwise is not None:
                return RowwiseForward(LayersForward.of(prefix, own, noise, checkpoint.pad_id)), rowwise
        reader = _reader(self, own, view, knowledge, ctx)
        if prefix is None:
            return MapForward.of(reader, own), reader
        if self.through == "auto" and prefix.spread > reader.picture.unexplained(own.study.sample):
            return MapForward.of(reader, own), reader
        return LayersForward.of(prefix, own, noise, checkpoint.pad_id), reader

    def _prefix(self, own: OwnTexts, tap: str, checkpoint: Checkpoint, ctx: Context) -> Prefix | None:
        """The public layers up to the tap, where they may be used."""
        if self.through == "map" or checkpoint.lacks(tap) is not None:
            return None
        classifier = checkpoint.build(2, seed=0).to(ctx.device)
        if self.through == "auto":
            depth = depth_of(classifier, tap)
            if depth is None or depth > self.deepest:
                return None
        return fit_prefix(classifier, tap, own, checkpoint.pad_id)


def _reader(
    attack: GradientInversion, own: OwnTexts, view: EmbeddingView, knowledge: Knowledge, ctx: Context
) -> Reader:
    nearest = NearestInversion(queries=attack.queries, max_auxiliary=attack.max_auxiliary)
    reader = nearest.reader(own, view, knowledge, ctx)
    if not isinstance(reader, Reader):
        raise TypeError(f"expected a reader with a picture, got {type(reader).__name__}")
    return reader
