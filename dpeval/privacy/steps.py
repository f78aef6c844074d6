"""Plain arithmetic round a training run: steps, sampling rate, and the choice of δ.

>>> steps_for(epochs=3, num_records=62_659, batch=256)
735
>>> sampling_rate(num_records=7, batch=32)
1.0
>>> default_delta(1000)
0.0005
>>> delta_warning(1e-2, 1000)
'δ = 0.01 is not below 1/1000: it would allow a record to be published outright; the default is 0.0005'
"""

from __future__ import annotations


def steps_for(epochs: int, num_records: int, batch: int) -> int:
    """Updates in ``epochs`` passes of ⌈N/B⌉ steps each: what a loader that keeps its last batch takes.

    Integer arithmetic throughout, because ``int(epochs / sampling_rate)`` on floats loses a step (734 for 735). At
    least one step per epoch, also where the batch exceeds the data.
    """
    _whole("steps_for", epochs=epochs, num_records=num_records, batch=batch)
    return epochs * -(-num_records // batch)


def sampling_rate(num_records: int, batch: int) -> float:
    """The Poisson rate q = B/N whose expected batch is ``batch``; 1 where the batch exceeds the data."""
    _whole("sampling_rate", num_records=num_records, batch=batch)
    return min(batch, num_records) / num_records


def default_delta(num_records: int) -> float:
    """1/(2N), as in Li et al. 2022, section 2."""
    _whole("default_delta", num_records=num_records)
    return 1 / (2 * num_records)


def delta_warning(delta: float, num_records: int) -> str | None:
    """A sentence for the report where δ ≥ 1/N, else ``None``."""
    if delta * num_records < 1:
        return None
    return (
        f"δ = {delta:.3g} is not below 1/{num_records}: it would allow a record to be published outright; "
        f"the default is {default_delta(num_records):.3g}"
    )


def _whole(where: str, **values: int) -> None:
    for name, value in values.items():
        if value != int(value) or value < 1:
            raise ValueError(f"{where}: expected {name} to be a whole number >= 1, got {value!r}")
