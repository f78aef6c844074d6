"""What locally noised releases are worth centrally, once a trusted shuffler hides who sent which.

A Gaussian release is (ε₀, δ₀)-private for every δ₀; each choice gives a shuffling bound, and the best one is kept. The
failures of all users together must stay far below the central δ, so δ₀ is tiny and ε₀ larger than the local ε that is
usually quoted: at the ε of most tables nothing is proven, and that is what is said.

>>> few = shuffled_gaussian(mu=1.666, num_records=67_349, delta=1e-5)
>>> few.proven, few.reason[:40]
(False, 'one user sends an (ε₀, δ₀)-private repor')
>>> many = shuffled_gaussian(mu=0.4, num_records=67_349, delta=1e-5)
>>> many.proven, round(many.epsilon, 2), round(many.closed_form, 2), round(many.local_epsilon, 2)
(True, 0.07, 0.3, 2.53)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dpeval.privacy.gaussian import epsilon_of_gaussian
from dpeval.privacy.labels import sequence_and_label
from dpeval.privacy.shuffle import amplified_closed_form, amplify, approximate_extra_delta

_GUESSES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 6.0)


@dataclass(frozen=True, kw_only=True)
class CentralEpsilon:
    """The best proven central (ε, δ), replace-one, or why there is none."""

    proven: bool
    epsilon: float
    """By the numerical bound; infinite where not proven."""
    closed_form: float | None
    """By the closed form; ``None`` outside its range."""
    delta: float
    local_epsilon: float
    """The ε₀ of one report that the bound starts from."""
    local_delta: float
    reason: str


def shuffled_gaussian(
    mu: float, num_records: int, delta: float, *, label_epsilon: float | None = None, num_labels: int = 2
) -> CentralEpsilon:
    """Central ε of ``num_records`` users who each send one μ-Gaussian release through a trusted shuffler.

    ``mu`` counts all releases of a user (:func:`~dpeval.privacy.gaussian.gaussian_mu`), sent and shuffled together or
    in rounds. With ``label_epsilon`` each adds the label under randomised response. Feldman, McMillan and Talwar 2021,
    theorems 3.1 and 3.8.
    """

    def local(local_delta: float) -> float:
        if label_epsilon is None:
            return epsilon_of_gaussian(mu, local_delta)
        return sequence_and_label(mu, local_delta, label_epsilon, num_labels).tight

    found = [_at(local, num_records, delta, guess) for guess in _GUESSES]
    best = min(found, key=lambda each: (each.epsilon, each.local_epsilon))
    closed = min((each.closed_form for each in found if each.closed_form is not None), default=None)
    return replace(best, closed_form=closed)


def _at(local: Callable[[float], float], n: int, delta: float, guess: float) -> CentralEpsilon:
    """The bound when the users' failures get half of δ, were the central ε at most ``guess``."""
    local_delta = delta / (3 * n * (math.exp(guess) + 1))
    start = local(local_delta)

    def fits(epsilon: float) -> bool:
        return delta / 2 + approximate_extra_delta(n, epsilon, start, local_delta) <= delta

    # The local guarantee at δ itself holds centrally too, shuffled or not.
    unshuffled = local(delta)
    report = amplify(n, start, delta=delta / 2, local_delta=local_delta) if start < 700 else None
    closed = amplified_closed_form(n, start, delta=delta / 2) if start < 700 else None
    proven = report is not None and report.epsilon < unshuffled and fits(report.epsilon)
    reason = "" if proven else (
        f"one user sends an (ε₀, δ₀)-private report, and shuffling {n} of them at ε₀ = {start:.3g}, δ₀ = "
        f"{local_delta:.1g} proves nothing below the local ε = {unshuffled:.3g}"
    )  # fmt: skip
    return CentralEpsilon(
        proven=proven,
        epsilon=report.epsilon if proven and report is not None else math.inf,
        closed_form=closed if closed is not None and closed < unshuffled and fits(closed) else None,
        delta=delta,
        local_epsilon=start,
        local_delta=local_delta,
        reason=reason,
    )
