"""How much of the texts an attack read out of their embeddings, beside the best guess without them.

Rows that hold special tokens or padding do not count, nor do answers that are special tokens. "recall", "precision" and
"f1" compare multisets of tokens; "position_recall" compares row by row, and "top_k_recall" asks whether a row's token
is among the k best (where an attack ranks); "content_*" leave out stop words and punctuation. Each stands beside
"baseline_*" and "gain_*", the paired difference.

>>> run = InversionRun(("a", "b"), ((1, 7, 8, 0), (1, 9, 9, 0)), ((-1, 7, 8, -1), (-1, 9, 5, -1)),
...                    content=frozenset({7, 8, 9}), never=frozenset({0, 1}))
>>> found = measure_inversion([run], auxiliary=[(-1, 9, 6, -1)]).estimates
>>> found["recall"].value, round(found["baseline_recall"].value, 2)
(0.75, 0.25)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dpeval.measure.guessing import bag_tallies, best_strategies, fit_guesser, position_tallies, ranked_tallies
from dpeval.measure.halves import unit_names
from dpeval.measure.influence import Part, difference, ratio_part
from dpeval.measure.intervals import Scale, estimate
from dpeval.measure.recovery import Scope, Tally, count_bag, count_positions, count_ranked
from dpeval.measure.results import Measures
from dpeval.types import Ints, Measured, Undefined

Tokens: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class InversionRun:
    """One trained model's attacked texts, joined by record id.

    ``guessed[i]`` holds the answer for each released row, ``-1`` for none; ``truth[i]`` the token of each row, ``-1``
    for rows that do not count. ``content`` are the ids of content words, ``never`` the special ids. With one pooled row
    for the whole text ``by_row`` is False: lengths may differ, and nothing is compared row by row.
    """

    ids: tuple[str, ...]
    guessed: Tokens
    truth: Tokens
    content: frozenset[int]
    never: frozenset[int]
    groups: tuple[int, ...] | None = None
    by_row: bool = True
    special_rows: tuple[int, ...] = ()
    """Rows of each text that hold special tokens; what published protocols count as recovered."""
    ranked: tuple[Ints, ...] | None = None
    """The best tokens of each row of each text, best first, (rows, k)."""

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.guessed) == len(self.truth):
            raise ValueError(f"InversionRun: {len(self.ids)} ids, {len(self.guessed)} answers, {len(self.truth)} texts")
        for key, guess, true in zip(self.ids, self.guessed, self.truth, strict=True):
            if self.by_row and len(guess) != len(true):
                raise ValueError(f"InversionRun: record {key!r} has {len(true)} rows but {len(guess)} answers")
        for key, table, true in zip(self.ids, self.ranked or (), self.truth, strict=self.ranked is not None):
            if len(table) != len(true):
                raise ValueError(f"InversionRun: record {key!r} has {len(true)} rows but {len(table)} rankings")

    @property
    def units(self) -> tuple[str, ...]:
        """What was sampled independently: record or group."""
        return unit_names(self.ids, self.groups)


_METRICS = ("f1", "precision", "recall")
_RANKS = (5, 10)


@dataclass(frozen=True)
class _View:
    """One way of counting: which tokens, and as bags or row by row."""

    prefix: str
    content_only: bool
    positions: bool
    metrics: tuple[str, ...]

    def scope(self, run: InversionRun) -> Scope:
        return Scope(run.never, run.content if self.content_only else None)

    def tallies(self, run: InversionRun) -> list[Tally]:
        scope, count = self.scope(run), count_positions if self.positions else count_bag
        return [count(guess, truth, scope) for guess, truth in zip(run.guessed, run.truth, strict=True)]


_VIEWS = (
    _View("", content_only=False, positions=False, metrics=_METRICS),
    _View("content_", content_only=True, positions=False, metrics=_METRICS),
    _View("position_", content_only=False, positions=True, metrics=("recall",)),
    _View("content_position_", content_only=True, positions=True, metrics=("recall",)),
)


def measure_inversion(
    runs: Sequence[InversionRun], auxiliary: Sequence[Sequence[int]], *, level: float = 0.95
) -> Measures:
    """Recall, precision and F1 over all tokens and over content words, with baseline and paired gain of each.

    Precision of an attack that never answers is 0, as its recall and F1: silence recovers nothing.

    Args:
        runs: one per training seed.
        auxiliary: token ids per row of texts of the same population, ``-1`` on rows that do not count; the baseline is
            fitted on them.
        level: two-sided confidence level.
    """
    found: dict[str, Measured] = {}
    parts: dict[str, tuple[Part, ...]] = {}
    for view in _VIEWS:
        if view.positions and not all(run.by_row for run in runs):
            found[f"{view.prefix}recall"] = Undefined("one pooled row is released: there are no positions to compare")
        else:
            found |= _measure(runs, auxiliary, view, level, parts)
    return Measures(found | _top(runs, auxiliary, level, parts) | _published(runs, level), parts=parts)


def _top(
    runs: Sequence[InversionRun], auxiliary: Sequence[Sequence[int]], level: float, parts: dict[str, tuple[Part, ...]]
) -> dict[str, Measured]:
    """Whether the true token of a row is among its k best, beside the k commonest tokens named for every row."""
    found: dict[str, Measured] = {}
    depth = min((table.shape[1] for run in runs for table in run.ranked or ()), default=0)
    if not all(run.by_row and run.ranked for run in runs):
        return found
    for k in (k for k in _RANKS if k <= depth):
        for prefix, content_only in (("", False), ("content_", True)):
            view = _View(f"{prefix}top_{k}_", content_only, positions=True, metrics=("recall",))
            ours = [
                [count_ranked(t, true, k, view.scope(run)) for t, true in zip(run.ranked or (), run.truth, strict=True)]
                for run in runs
            ]
            guesser = fit_guesser(auxiliary, view.scope(runs[0])) if auxiliary else None
            theirs = None if guesser is None else [ranked_tallies(guesser, run.truth, k) for run in runs]
            found |= _compared(view, ours, None if theirs is None else {"recall": theirs}, runs, level, parts)
    return found


def _published(runs: Sequence[InversionRun], level: float) -> dict[str, Measured]:
    """Recall as published: row by row, special tokens in (Du et al. 2023, section 6.3). They are the same in every text
    and known beforehand, so they count as recovered here, and lift the recall of short texts most."""
    if not all(run.by_row and run.special_rows for run in runs):
        return {}
    parts = []
    for run in runs:
        tallies = [count_positions(g, t, Scope(run.never)) for g, t in zip(run.guessed, run.truth, strict=True)]
        right = [tally.right + more for tally, more in zip(tallies, run.special_rows, strict=True)]
        asked = [tally.asked + more for tally, more in zip(tallies, run.special_rows, strict=True)]
        if not sum(asked):
            return {}
        parts.append(ratio_part(right, asked, run.units))
    return {"recall_with_special_tokens": estimate(parts, level=level)}


def _measure(
    runs: Sequence[InversionRun],
    auxiliary: Sequence[Sequence[int]],
    view: _View,
    level: float,
    parts: dict[str, tuple[Part, ...]],
) -> dict[str, Measured]:
    """The estimates of one view; what they rest on is added to ``parts``."""
    guesses = _guesses(runs, auxiliary, view) if auxiliary else None
    return _compared(view, [view.tallies(run) for run in runs], guesses, runs, level, parts)


def _compared(
    view: _View,
    attacks: Sequence[Sequence[Tally]],
    guesses: Mapping[str, Sequence[Sequence[Tally]]] | None,
    runs: Sequence[InversionRun],
    level: float,
    parts: dict[str, tuple[Part, ...]],
) -> dict[str, Measured]:
    """The estimates of an attack, of the guess beside it, and of their paired difference."""
    if not all(any(tally.asked for tally in one) for one in attacks):
        return {f"{view.prefix}{m}": Undefined("no token that counts stands in these texts") for m in view.metrics}
    found: dict[str, Measured] = {}
    for metric in view.metrics:
        name, ours = f"{view.prefix}{metric}", _parts(attacks, metric, runs)
        found[name], parts[name] = estimate(ours, level=level), tuple(ours)
        if guesses is None:
            found[f"gain_{name}"] = Undefined("no auxiliary texts to fit the guess without the embedding on")
            continue
        theirs = _parts(guesses[metric], metric, runs)
        gains = [difference(a, g) for a, g in zip(ours, theirs, strict=True)]
        found[f"baseline_{name}"] = estimate(theirs, level=level)
        found[f"gain_{name}"] = estimate(gains, level=level, scale=Scale.DIFFERENCE)
        parts[f"gain_{name}"] = tuple(gains)
    return found


def _guesses(
    runs: Sequence[InversionRun], auxiliary: Sequence[Sequence[int]], view: _View
) -> Mapping[str, list[list[Tally]]]:
    """For each metric the guess's tallies on each run's texts; which guess is best is decided on auxiliary texts."""
    guesser = fit_guesser(auxiliary, view.scope(runs[0]))
    if view.positions:
        by_row = [position_tallies(guesser, run.truth) for run in runs]
        return dict.fromkeys(view.metrics, by_row)
    best = best_strategies(bag_tallies(guesser, auxiliary), view.metrics)
    known = [bag_tallies(guesser, run.truth) for run in runs]
    return {metric: [tallies[best[metric]] for tallies in known] for metric in view.metrics}


def _parts(tallies: Sequence[Sequence[Tally]], metric: str, runs: Sequence[InversionRun]) -> list[Part]:
    return [_part(one, metric, run.units) for one, run in zip(tallies, runs, strict=True)]


def _part(tallies: Sequence[Tally], metric: str, units: tuple[str, ...]) -> Part:
    right, asked, answered = ([getattr(t, name) for t in tallies] for name in ("right", "asked", "answered"))
    if metric == "recall":
        return ratio_part(right, asked, units)
    if metric == "precision":
        return ratio_part(right, answered if sum(answered) else asked, units)
    return ratio_part([2 * r for r in right], [a + b for a, b in zip(answered, asked, strict=True)], units)
