"""How much better an attack infers an attribute than guesses that never see the embedding.

>>> import numpy as np
>>> truth = np.array([0] * 80 + [1] * 20)
>>> run = AttributeRun(tuple(f"r{i}" for i in range(100)), np.zeros(100, dtype=int), truth, values=2)
>>> found = measure_attribute([run]).estimates
>>> found["accuracy"].value, found["gain_accuracy"].value, found["gain_balanced_accuracy"].value
(0.8, 0.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

from dpeval.measure.halves import unit_names
from dpeval.measure.influence import Part, combination, difference, ratio_part
from dpeval.measure.intervals import Scale, estimate
from dpeval.measure.results import Detail, Measures
from dpeval.types import Floats, Ints, Measured, Undefined

ONE_CLASS = "not measurable: one class"


@dataclass(frozen=True, eq=False)
class AttributeRun:
    """One trained model's inferred attribute values, joined by record id.

    ``answers`` and ``truth`` are class numbers ``0..values-1`` of shape ``(n,)``. ``baselines`` are answers of the same
    shape made without the embedding (for instance from text-free covariates), by name; ``prior`` the shares of the
    values in auxiliary data, shape ``(values,)``; ``ceiling`` the answers of a classifier that reads the raw text.
    ``by_frequency`` are answers of the same baselines that prefer common values, where they have such: accuracy is
    compared with these.
    """

    ids: tuple[str, ...]
    answers: Ints
    truth: Ints
    values: int
    groups: tuple[int, ...] | None = None
    baselines: Mapping[str, Ints] = field(default_factory=dict)
    prior: Floats | None = None
    ceiling: Ints | None = None
    by_frequency: Mapping[str, Ints] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arrays = {"answers": self.answers, "truth": self.truth, **self.baselines}
        arrays |= {f"{name}, by frequency": array for name, array in self.by_frequency.items()}
        if self.ceiling is not None:
            arrays["ceiling"] = self.ceiling
        for name, array in arrays.items():
            _check(name, array, len(self.ids), self.values)

    @property
    def units(self) -> tuple[str, ...]:
        """What was sampled independently: record or group."""
        return unit_names(self.ids, self.groups)


def _check(name: str, array: Ints, n: int, values: int) -> None:
    if array.shape != (n,):
        raise ValueError(f"AttributeRun: {n} ids but {name} of shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"AttributeRun: {name} must be class numbers, got {array.dtype}; bin a numeric attribute first")
    if n and not (array.min() >= 0 and array.max() < values):
        raise ValueError(f"AttributeRun: {name} must lie in 0..{values - 1}, got {array.min()}..{array.max()}")


_UPPER = 0.975
"""Where the two quantiles are compared."""
_METRICS = ("balanced_accuracy", "accuracy")


def measure_attribute(runs: Sequence[AttributeRun], *, level: float = 0.95) -> Measures:
    """Balanced accuracy (macro recall), accuracy and worst-class recall, with the best baseline and the paired gain.

    The constant guess is the commonest value among the targets themselves, so that no constant answer can gain. The
    best baseline of a metric is the one with the highest mean over the runs. Classes without a target do not enter
    balanced accuracy. The interval of the worst class is widened for having been chosen (Bonferroni).
    """
    if any(len(np.unique(run.truth)) < 2 for run in runs):
        names = [f"{prefix}{metric}" for metric in _METRICS for prefix in ("", "baseline_", "gain_")]
        return Measures({name: Undefined(ONE_CLASS) for name in (*names, "worst_class_recall")})
    found: dict[str, Measured] = {}
    parts: dict[str, tuple[Part, ...]] = {}
    chosen = {}
    for metric in _METRICS:
        attack = [_score(run, run.answers, metric) for run in runs]
        name, baseline = _best_baseline(runs, metric)
        gains = [_difference(run, a, b, metric) for run, a, b in zip(runs, attack, baseline, strict=True)]
        found[metric] = estimate(attack, level=level)
        found[f"baseline_{metric}"] = estimate(baseline, level=level)
        found[f"gain_{metric}"] = estimate(gains, level=level, scale=Scale.DIFFERENCE)
        parts |= {metric: tuple(attack), f"gain_{metric}": tuple(gains)}
        found |= _ceiling(runs, metric, level)
        chosen[metric] = name
    worst = _worst_class(runs, level)
    found["worst_class_recall"] = worst.recall
    details: dict[str, Detail] = {"best_baseline": chosen, "worst_class": worst.value}
    return Measures(found, _above_ceiling(runs, level), details, parts)


def _score(run: AttributeRun, answers: Ints, metric: str) -> Part:
    return _metric(run, (answers == run.truth).astype(np.float64), metric)


def _metric(run: AttributeRun, right: Floats, metric: str) -> Part:
    """Accuracy or balanced accuracy of the probability ``right`` of being right on each record."""
    if metric == "accuracy":
        return ratio_part(right, np.ones(len(right)), run.units)
    classes = np.unique(run.truth)
    recalls = [_recall(run, right, value) for value in classes.tolist()]
    return combination(recalls, [1 / len(classes)] * len(classes))


def _recall(run: AttributeRun, right: Floats, value: int) -> Part:
    own = (run.truth == value).astype(np.float64)
    return ratio_part(right * own, own, run.units)


def _difference(run: AttributeRun, a: Part, b: Part, metric: str) -> Part:
    """``a - b``; in balanced accuracy a rare class is a small sample, whose deviation is known as well as it is small.

    Its records weigh more by Student's over the normal quantile and the n - 1 of a variance (Cochran 1977, §5.4).
    """
    part = difference(a, b)
    if metric == "accuracy":
        return part
    factor = np.ones(run.values)
    for value in np.unique(run.truth).tolist():
        m = len({unit for unit, own in zip(run.units, run.truth == value, strict=True) if own})
        if m > 1:
            factor[value] = np.sqrt(m / (m - 1)) * stats.t.ppf(_UPPER, m - 1) / stats.norm.ppf(_UPPER)
    return replace(part, influence=part.influence * factor[run.truth])


def _best_baseline(runs: Sequence[AttributeRun], metric: str) -> tuple[str, list[Part]]:
    known = {
        "majority": [_score(run, np.full(len(run.truth), np.bincount(run.truth).argmax()), metric) for run in runs]
    }
    if all(run.prior is not None for run in runs):
        known["prior"] = [_metric(run, np.asarray(run.prior)[run.truth], metric) for run in runs]
    for name in runs[0].baselines:
        known[name] = [_score(run, _guesses(run, name, metric), metric) for run in runs]
    # The first of equals up to rounding, so that the constant guess wins a tie and a constant answer gains exactly 0.
    best = max(known, key=lambda name: round(float(np.mean([part.value for part in known[name]])), 12))
    return best, known[best]


def _guesses(run: AttributeRun, name: str, metric: str) -> Ints:
    return run.by_frequency.get(name, run.baselines[name]) if metric == "accuracy" else run.baselines[name]


def _ceiling(runs: Sequence[AttributeRun], metric: str, level: float) -> Mapping[str, Measured]:
    answers = [run.ceiling for run in runs]
    if any(a is None for a in answers):
        return {}
    parts = [_score(run, a, metric) for run, a in zip(runs, answers, strict=True) if a is not None]
    return {f"ceiling_{metric}": estimate(parts, level=level)}


def _above_ceiling(runs: Sequence[AttributeRun], level: float) -> tuple[str, ...]:
    """A warning where the attack reads significantly more than the classifier of the raw text that should bound it."""
    parts = [
        _difference(run, _score(run, run.answers, _METRICS[0]), _score(run, run.ceiling, _METRICS[0]), _METRICS[0])
        for run in runs
        if run.ceiling is not None
    ]
    if not parts or len(parts) < len(runs):
        return ()
    more = estimate(parts, level=level, scale=Scale.DIFFERENCE)
    if more.low <= 0:
        return ()
    told = (
        f"above the ceiling: the attack's balanced accuracy is {more.value:.3f} [{more.low:.3f}, {more.high:.3f}] more "
        "than that of a word-count classifier on the clear texts, so that here this is not the most that texts tell"
    )
    return (told,)


@dataclass(frozen=True)
class _Worst:
    recall: Measured
    value: int


def _worst_class(runs: Sequence[AttributeRun], level: float) -> _Worst:
    common = sorted(set.intersection(*({*run.truth.tolist()} for run in runs)))
    if not common:
        return _Worst(Undefined("no attribute value occurs among the targets of every model"), -1)
    parts = {v: [_recall(run, (run.answers == run.truth).astype(np.float64), v) for run in runs] for v in common}
    worst = min(common, key=lambda v: float(np.mean([part.value for part in parts[v]])))
    widened = estimate(parts[worst], level=1 - (1 - level) / len(common))
    return _Worst(widened, worst)
