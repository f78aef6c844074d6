"""What the options of ``dpeval epsilon`` describe, checked and put into a mechanism.

>>> read_run(Sampling.POISSON, 1.0, None, None, records=1000, batch=300, epochs=3, delta=None).mechanism
SampledGaussian(noise_multiplier=1.0, sampling_rate=0.3, steps=12)
>>> parse_numbers("2, 1,0.75")
[2.0, 1.0, 0.75]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import typer

from dpeval.privacy.mechanisms import FixedSizeGaussian, Mechanism, SampledGaussian, ShuffledGaussian
from dpeval.privacy.steps import default_delta, delta_warning, sampling_rate, steps_for
from dpeval.types import Adjacency


class Sampling(StrEnum):
    """How batches are drawn."""

    POISSON = "poisson"
    FIXED = "fixed-size"
    SHUFFLED = "shuffled"


@dataclass(frozen=True)
class Run:
    """A mechanism, its δ and, where given, the number of records."""

    mechanism: Mechanism
    delta: float
    records: int | None


def read_run(
    sampling: Sampling,
    sigma: float,
    rate: float | None,
    steps: int | None,
    records: int | None,
    batch: int | None,
    epochs: int | None,
    delta: float | None,
) -> Run:
    """Options to a :class:`Run`: a rate and steps, or records, batch and epochs (or steps)."""
    if delta is None:
        if records is None:
            raise ValueError("give --delta, or --records for the default 1/(2N)")
        delta = default_delta(records)
    return Run(_mechanism(sampling, sigma, rate, steps, records, batch, epochs), delta, records)


def _mechanism(
    sampling: Sampling,
    sigma: float,
    rate: float | None,
    steps: int | None,
    records: int | None,
    batch: int | None,
    epochs: int | None,
) -> Mechanism:
    if sampling is Sampling.SHUFFLED:
        return ShuffledGaussian(sigma, _given("--epochs", epochs))
    if rate is not None and sampling is Sampling.POISSON:
        return SampledGaussian(sigma, rate, _given("--steps", steps))
    count, size = _given("--records", records), _given("--batch", batch)
    taken = steps if steps is not None else steps_for(_given("--epochs (or --steps)", epochs), count, size)
    if sampling is Sampling.FIXED:
        return FixedSizeGaussian(sigma, size, count, taken)
    return SampledGaussian(sigma, sampling_rate(count, size), taken)


def _given(name: str, value: int | None) -> int:
    if value is None:
        raise ValueError(f"{name} is missing: give --rate and --steps, or --records, --batch and --epochs")
    return value


def describe(run: Run, adjacency: Adjacency) -> Iterator[str]:
    """The conventions of the numbers above, in sentences."""
    what = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in vars(run.mechanism).items())
    yield f"{run.mechanism.sampling} sampling: {what}; δ = {run.delta:.6g}; {adjacency}."
    yield "σ is the noise deviation over the clipping norm C, for either adjacency; central, per record."
    if run.records and (warning := delta_warning(run.delta, run.records)):
        yield f"WARNING: {warning}."


def parse_numbers(text: str) -> list[float]:
    """Comma-separated numbers."""
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise ValueError(f"expected comma-separated numbers, got {text!r}") from error


@contextmanager
def usage_errors() -> Iterator[None]:
    """What is wrong with the numbers given is a usage error, without a traceback."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
