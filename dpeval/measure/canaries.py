"""Exposure: how far up a planted canary stands among those that were held out, in bits.

>>> import numpy as np
>>> exposures(np.array([9.0, 1.5]), np.array([0.0, 1.0, 2.0])).round(3).tolist()
[2.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from dpeval.measure.audit import audit_one_run
from dpeval.measure.clusters import RecordCovariance
from dpeval.measure.epsilon import EpsilonBound
from dpeval.measure.influence import rate_parts
from dpeval.measure.intervals import Trials, estimate, hierarchical
from dpeval.measure.membership import MembershipRun
from dpeval.types import Estimate, Floats, Ints, Measured, Undefined

DELTA = 1e-5
"""The δ of the lower bound on ε that stands in a cell; that of a claim is used where a claim is judged."""
NULL_BITS = 1.0
"""The exposure that half of all canaries exceed when the model remembers none."""


def exposures(planted: Floats, withheld: Floats) -> Floats:
    """``log2(N) - log2(rank)`` of each planted canary among itself and the N - 1 withheld ones, shape ``(planted,)``.

    Exact ranking (Carlini et al. 2019, §4.2); a tie counts as half a place. From 0 bits (the last) to log2(N).
    """
    ordered = np.sort(withheld)
    above = len(ordered) - np.searchsorted(ordered, planted, side="right")
    level = len(ordered) - np.searchsorted(ordered, planted, side="left")
    rank = 1 + (above + level) / 2
    bits: Floats = np.log2(len(ordered) + 1) - np.log2(rank)
    return bits


def measure_canaries(
    runs: Sequence[MembershipRun], *, level: float = 0.95, resamples: int = 1000, salt: int = 0
) -> dict[str, Measured]:
    """Median and largest exposure over the canaries of all runs, the share found first, and a lower bound on ε.

    The median and the share found first are means over the runs, with intervals over seeds and canaries (as all others,
    :mod:`dpeval.measure.intervals`); for the median canaries are resampled, planted and withheld, each with all its
    runs. The interval of the largest follows from the share of canaries that score above it (Clopper and Pearson), at a
    level shared by all planted ones, because it was picked as the largest; its upper end is infinite where no withheld
    canary scores as high.
    """
    names = ("exposure_median", "exposure_max", "ranked_first", "epsilon_one_run")
    if any(run.is_member.all() or not run.is_member.any() for run in runs):
        return dict.fromkeys(names, Undefined("undefined (one class): no canary was planted, or none was held out"))
    bits = [exposures(run.scores[run.is_member], run.scores[~run.is_member]) for run in runs]
    median = _median(runs, bits, _medians(runs, resamples, np.random.default_rng([salt, len(runs)])), level)
    return dict(
        zip(names, (median, _largest(runs, bits, level), _first(runs, level), _epsilon(runs, level)), strict=True)
    )


def _median(runs: Sequence[MembershipRun], bits: Sequence[Floats], drawn: Floats, level: float) -> Estimate:
    values, n = [float(np.median(one)) for one in bits], min(len(one) for one in bits)
    most = max(float(np.log2((~run.is_member).sum() + 1)) for run in runs)
    if len(runs) == 1:
        # Percentiles keep to the steps that a median of ranks takes. Several models need their spread as well, and as a
        # share of the largest possible exposure the interval of a rate.
        low, high = np.quantile(drawn[0], [(1 - level) / 2, (1 + level) / 2]).tolist()
    else:
        units = len({key for run in runs for key in run.ids})
        within = RecordCovariance(np.cov(drawn) / most**2, units, clustered=False)
        trials = Trials(most=sum(map(len, bits)), edge=n)
        found = hierarchical([value / most for value in values], within, n=n, trials=trials, level=level)
        low, high = found.low * most, found.high * most
    value = float(np.mean(values))
    return Estimate(value, max(0.0, min(value, low)), min(most, max(value, high)), n, level, len(runs))


def _medians(runs: Sequence[MembershipRun], resamples: int, rng: np.random.Generator) -> Floats:
    """The median exposure in each run of canaries resampled with all their runs, shape ``(R, resamples)`` or fewer."""
    names, codes = np.unique(np.concatenate([np.asarray(run.ids) for run in runs]), return_inverse=True)
    drawn = rng.integers(len(names), size=(resamples, len(names)))
    times = np.stack([np.bincount(row, minlength=len(names)) for row in drawn])
    bounds = np.cumsum([0, *(len(run.ids) for run in runs)])
    found = [_resampled(run, times[:, codes[a:b]]) for run, a, b in zip(runs, bounds[:-1], bounds[1:], strict=True)]
    medians = np.stack([_weighted_median(bits, weights) for bits, weights in found])
    # A resample may hold no planted canary of some run, and then has no median.
    return medians[:, np.isfinite(medians).all(axis=0)]


def _weighted_median(bits: Floats, weights: Ints) -> Floats:
    """The lower median of each row, NaN where nothing has a weight; both of shape ``(resamples, planted)``."""
    order = np.argsort(bits, axis=1)
    sums = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    middle = (sums >= sums[:, -1:] / 2).argmax(axis=1)
    chosen: Floats = np.take_along_axis(bits, order, axis=1)[np.arange(len(bits)), middle]
    return np.where(sums[:, -1] > 0, chosen, np.nan)


def _resampled(run: MembershipRun, times: Ints) -> tuple[Floats, Ints]:
    """Exposure of each planted canary in each resample, and how often it was drawn there, ``(resamples, planted)``."""
    withheld = np.argsort(run.scores[~run.is_member])
    ordered = run.scores[~run.is_member][withheld]
    counts = np.cumsum(times[:, ~run.is_member][:, withheld], axis=1)
    below = np.concatenate([np.zeros((len(times), 1), dtype=np.int64), counts], axis=1)
    planted = run.scores[run.is_member]
    above = below[:, -1:] - below[:, np.searchsorted(ordered, planted, side="right")]
    level = below[:, -1:] - below[:, np.searchsorted(ordered, planted, side="left")]
    return np.log2(below[:, -1:] + 1) - np.log2(1 + (above + level) / 2), times[:, run.is_member]


def _largest(runs: Sequence[MembershipRun], bits: Sequence[Floats], level: float) -> Estimate:
    where = int(np.argmax([one.max() for one in bits]))
    run, value = runs[where], float(bits[where].max())
    withheld = run.scores[~run.is_member]
    top = float(run.scores[run.is_member].max())
    above, n = int((withheld >= top).sum()), len(withheld)
    tail = (1 - level) / 2 / sum(len(one) for one in bits)
    most = float(stats.beta.ppf(1 - tail, above + 1, n - above)) if above < n else 1.0
    least = float(stats.beta.ppf(tail, above, n - above + 1)) if above else 0.0
    low, high = -np.log2(most), -np.log2(least) if least > 0 else np.inf
    return Estimate(value, min(value, float(low)), max(value, float(high)), n, level, len(runs))


def _first(runs: Sequence[MembershipRun], level: float) -> Estimate:
    """The share of planted canaries that score above every withheld one."""
    return estimate(
        [rate_parts(run.scores > run.scores[~run.is_member].max(), run.is_member, run.ids)[0] for run in runs],
        level=level,
    )


def _epsilon(runs: Sequence[MembershipRun], level: float) -> Measured:
    bound = audit_one_run(runs, independent_coins=True, delta=DELTA, alpha=1 - level)
    if not isinstance(bound, EpsilonBound):
        return bound
    return Estimate(bound.epsilon, bound.epsilon, float("inf"), min(len(r.ids) for r in runs), level, len(runs))
