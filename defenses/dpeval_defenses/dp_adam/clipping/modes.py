"""The three ways to get from records to clipped sums: book-keeping, two passes, and clipping layer by layer.

Each takes the records of one backward pass and leaves in ``.grad`` the sum over examples of their clipped gradients.

>>> [m.__name__ for m in (BookKeeping, TwoPass, PerLayer)]
['BookKeeping', 'TwoPass', 'PerLayer']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from .apart import propagate
from .checks import ClippingError
from .records import Record, total_squared_norms, widened
from .tape import Grads, Tape

Uses = dict[nn.Parameter, list[Record]]


class Mode(Protocol):
    """How one backward pass over a vector of losses becomes norms and a clipped sum."""

    def run(self, losses: Tensor) -> Tensor:
        """Adds the clipped sum to ``.grad``; returns the squared norms, shape (B,), float64."""


def clip_factors(squares: Tensor, bound: float) -> Tensor:
    """min(1, C/‖g_i‖), 1 for a zero gradient and 0 for one that is not finite: (B,) -> (B,)."""
    norms = squares.sqrt()
    return torch.where(norms > bound, bound / norms, 1.0).where(norms.isfinite(), 0.0)


def add_clipped(
    grads: Grads, parameter: nn.Parameter, uses: list[Record], factors: Tensor, finite: Tensor | None
) -> None:
    """Adds Σ_i factors_i g_i to the parameter's gradient, over the examples that are ``finite`` (None: all)."""
    grad = grads[parameter]
    direct = grad is not None and grad.dtype in (torch.float32, torch.float64)
    into = grad if grad is not None and direct else torch.zeros_like(widened(parameter.data))
    for use in uses:
        if finite is None:
            use.add_sum(factors, into)
        elif finite.any():
            use.take(finite).add_sum(factors[finite], into)
    if grad is None:
        grads[parameter] = into.to(parameter.dtype)
    elif not direct:
        grad.add_(into)


def unless_all(finite: Tensor) -> Tensor | None:
    """``finite``, or None when it leaves nobody out."""
    return None if bool(finite.all()) else finite


@dataclass
class BookKeeping:
    """One backward pass: all factors are kept until the norms are known (Bu et al. 2022)."""

    tape: Tape
    bound: float
    uses: Uses = field(default_factory=dict)

    def run(self, losses: Tensor) -> Tensor:
        """Adds Σ min(1, C/‖g_i‖) g_i to ``.grad``; returns ‖g_i‖²."""
        with self.tape.listening(self._keep, len(losses)):
            losses.sum().backward()  # type: ignore[no-untyped-call]
        return self._clip(len(losses))

    def _keep(self, parameter: nn.Parameter, record: Record) -> None:
        self.uses.setdefault(parameter, []).append(record)

    @torch.no_grad()
    def _clip(self, count: int) -> Tensor:
        squares = total_squared_norms(self.uses, count)
        factors, finite = clip_factors(squares, self.bound), unless_all(squares.isfinite())
        while self.uses:
            parameter, uses = self.uses.popitem()
            grads: Grads = {parameter: parameter.grad}
            add_clipped(grads, parameter, uses, factors, finite)
            parameter.grad = grads[parameter]
        return squares


@dataclass
class Gathered:
    """Records by group until all the uses that the graph holds have come in; then they are handed on and let go."""

    group_of: Callable[[nn.Parameter], object]
    expected: dict[nn.Parameter, int]
    done: Callable[[Uses], None]
    waiting: dict[object, Uses] = field(default_factory=dict)
    missing: dict[object, int] = field(default_factory=dict)
    finished: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        for parameter, count in self.expected.items():
            group = self.group_of(parameter)
            self.missing[group] = self.missing.get(group, 0) + count

    def take(self, parameter: nn.Parameter, record: Record) -> None:
        """Takes one record; hands its group on when it is complete."""
        group = self.group_of(parameter)
        if group in self.finished:
            raise ClippingError(
                "a weight was used once more after its norm was taken (reentrant gradient checkpointing of a reused "
                "weight): use checkpointing with use_reentrant=False, or the book-keeping mode"
            )
        self.waiting.setdefault(group, {}).setdefault(parameter, []).append(record)
        if group in self.missing:
            self.missing[group] -= 1
            if not self.missing[group]:
                self._hand_on(group)

    def _hand_on(self, group: object) -> None:
        self.finished.add(group)
        with torch.no_grad():
            self.done(self.waiting.pop(group))

    def close(self) -> None:
        """Hands on what is left."""
        for group in list(self.waiting):
            self._hand_on(group)


@dataclass
class TwoPass:
    """Norms in a first backward pass, the sum in a second (Li et al. 2022): nothing is kept, so the least memory.

    Both passes are the same to the bit, and the factors enter at the weight gradients: with scaled losses instead, as
    the paper has it, rounding inside the second pass would make the sum differ from what the norms were taken of.
    """

    tape: Tape
    bound: float

    def run(self, losses: Tensor) -> Tensor:
        """Adds Σ min(1, C/‖g_i‖) g_i to ``.grad``; returns ‖g_i‖²."""
        squares = torch.zeros(len(losses), dtype=torch.float64, device=losses.device)

        def add_norms(uses: Uses) -> None:
            squares.add_(total_squared_norms(uses, len(losses)))

        gathered = Gathered(lambda p: p, self.tape.expected(), add_norms)
        with self.tape.listening(gathered.take, len(losses)):
            propagate(losses.sum(), self.tape.anchor)
        gathered.close()
        factors, finite = clip_factors(squares, self.bound), unless_all(squares.isfinite())

        def add_sum(parameter: nn.Parameter, record: Record) -> None:
            with torch.no_grad():
                add_clipped(grads, parameter, [record], factors, finite)

        with self.tape.listening(add_sum, len(losses)) as grads:
            losses.sum().backward()  # type: ignore[no-untyped-call]
        return squares


@dataclass
class PerLayer:
    """Each group of parameters clipped to its own bound as soon as its records are there (group clipping)."""

    tape: Tape
    bounds: dict[str, float]
    group_of: Callable[[nn.Parameter], str]

    def run(self, losses: Tensor) -> Tensor:
        """Adds, for each group l, Σ min(1, C_l/‖g_il‖) g_il to ``.grad``; returns Σ_l ‖g_il‖²."""
        total = torch.zeros(len(losses), dtype=torch.float64, device=losses.device)

        def add_group(uses: Uses) -> None:
            squares = total_squared_norms(uses, len(losses))
            total.add_(squares)
            factors = clip_factors(squares, self.bounds[self.group_of(next(iter(uses)))])
            for parameter, records in uses.items():
                add_clipped(grads, parameter, records, factors, unless_all(squares.isfinite()))

        gathered = Gathered(self.group_of, self.tape.expected(), add_group)
        with self.tape.listening(gathered.take, len(losses)) as grads:
            losses.sum().backward()  # type: ignore[no-untyped-call]
            gathered.close()
        return total
