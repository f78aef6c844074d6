"""How much of the texts an attack read out of their embeddings, beside the best guess without them.

Rows that hold special tokens or padding do not count, nor do answers that are special tokens. "recall", "precision" and
"f1" compare multisets of tokens; "position_recall" compares row by row; "content_*" leave out stop words and
punctuation. Each stands beside "baseline_*" and "gain_*", the paired difference.

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

from dpeval.measure.guessing import Guesser, best_strategy, fit_guesser, guess_tallies
from dpeval.measure.halves import unit_names
from dpeval.measure.influence import Part, difference, ratio_part
from dpeval.measure.intervals import Scale, estimate
from dpeval.measure.recovery import Scope, Tally, count_bag, count_positions
from dpeval.measure.results import Measures
from dpeval.types import Measured, Undefined

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

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.guessed) == len(self.truth):
            raise ValueError(f"InversionRun: {len(self.ids)} ids, {len(self.guessed)} answers, {len(self.truth)} texts")
        for key, guess, true in zip(self.ids, self.guessed, self.truth, strict=True):
            if self.by_row and len(guess) != len(true):
                raise ValueError(f"InversionRun: record {key!r} has {len(true)} rows but {len(guess)} answers")

    @property
    def units(self) -> tuple[str, ...]:
        """What was sampled independently: record or group."""
        return unit_names(self.ids, self.groups)


_METRICS = ("f1", "precision", "recall")


@dataclass(frozen=True)
class _View:
    """One way of counting: which tokens, and as bags or row by row."""

    prefix: str
    content_only: bool
    positions: bool
    metrics: tuple[str, ...]

    def scope(self, run: InversionRun) -> Scope:
        return Scope(run.never, run.content if self.content_only else None)

    def tally(self, guess: Sequence[int], truth: Sequence[int], scope: Scope) -> Tally:
        return (count_positions if self.positions else count_bag)(guess, truth, scope)


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
    for view in _VIEWS:
        if view.positions and not all(run.by_row for run in runs):
            found[f"{view.prefix}recall"] = Undefined("one pooled row is released: there are no positions to compare")
            continue
        for metric in view.metrics:
            found |= _measure(runs, auxiliary, view, metric, level)
    return Measures(found)


def _measure(
    runs: Sequence[InversionRun], auxiliary: Sequence[Sequence[int]], view: _View, metric: str, level: float
) -> Mapping[str, Measured]:
    name = f"{view.prefix}{metric}"
    try:
        attacks = [_attack_part(run, view, metric) for run in runs]
    except ZeroDivisionError:
        return {name: Undefined("no token that counts stands in any of these texts")}
    out: dict[str, Measured] = {name: estimate(attacks, level=level)}
    if not auxiliary:
        return out | {f"gain_{name}": Undefined("no auxiliary texts to fit the guess without the embedding on")}
    guesser = fit_guesser(auxiliary, view.scope(runs[0]))
    guesses = [_guess_part(run, guesser, auxiliary, view, metric) for run in runs]
    gains = [difference(a, g) for a, g in zip(attacks, guesses, strict=True)]
    out[f"baseline_{name}"] = estimate(guesses, level=level)
    out[f"gain_{name}"] = estimate(gains, level=level, scale=Scale.DIFFERENCE)
    return out


def _attack_part(run: InversionRun, view: _View, metric: str) -> Part:
    scope = view.scope(run)
    return _part([view.tally(g, t, scope) for g, t in zip(run.guessed, run.truth, strict=True)], metric, run.units)


def _guess_part(
    run: InversionRun, guesser: Guesser, auxiliary: Sequence[Sequence[int]], view: _View, metric: str
) -> Part:
    scope = view.scope(run)
    strategy = best_strategy(guesser, auxiliary, scope, metric)
    return _part(guess_tallies(guesser, strategy, run.truth, scope, positions=view.positions), metric, run.units)


def _part(tallies: Sequence[Tally], metric: str, units: tuple[str, ...]) -> Part:
    right = [t.right for t in tallies]
    asked = [t.asked for t in tallies]
    if not sum(asked):
        raise ZeroDivisionError("no token counts")
    answered = [t.answered for t in tallies]
    if metric == "recall":
        return ratio_part(right, asked, units)
    if metric == "precision":
        return ratio_part(right, answered if sum(answered) else asked, units)
    return ratio_part([2 * r for r in right], [a + b for a, b in zip(answered, asked, strict=True)], units)
