"""Where the examples stand in each tensor that meets a parameter: a plan for each kind of call, made by trial runs.

A size that follows the number of rows is the batch dimension; a tensor without such a size belongs to no example
(relative positions, a shared buffer), even where one of its sizes happens to equal the batch. The runs are made when a
forward pass is called with a new kind of arguments (:mod:`trial`).

>>> leading_options([(4, 7), (4, 7), (1, 7)])[0], leading_options([(7,), (4, 7)])[0]
((4, frozenset({0, 1})), (4, frozenset({1})))
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from .checks import ClippingError, MixedExamplesError
from .rerun import devices, kept
from .trial import Axes, Key, Shapes, Trial, Uses

if TYPE_CHECKING:
    from .tape import Tape


Options: TypeAlias = list[tuple[int, frozenset[int]]]


TRIES = 4


@dataclass(frozen=True)
class Use:
    """One operation on parameters: its name in the plan, and along which axes examples stand, if the plan knows."""

    key: Key
    operands: list[Any]
    inputs: Axes | None
    outputs: Axes | None


@dataclass
class Plan:
    """What the trial runs of one kind of call saw: for each use, the axes of its operands and of its results."""

    rows_of: int
    """Which of the arguments' tensors tells the number of rows."""
    uses: Uses = field(default_factory=dict)
    in_order: bool = False
    """Whether different rows were seen to stay apart and in order."""
    tries: int = 1
    """How often it was made: again while all rows of the arguments were alike, which shows nothing of their order."""

    def batch_first(self) -> bool:
        """Whether no tensor holds its examples along another axis than the first."""
        return all(a in (None, 0) for inputs, outputs in self.uses.values() for a in inputs + outputs)


class Layout:
    """The plans of a model, one for each kind of call, and the place in the one that is followed."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.failure: Exception | None = None
        """Why there is no plan, where the trial runs failed."""
        self.sizes: frozenset[int] = frozenset()
        """Numbers of rows that one example may have where the batch is flattened with other sizes of the input."""
        self.fresh = True
        """Whether a plan was made since this was last set to False."""
        self._plans: dict[Any, Plan] = {}
        self._counts: Counter[Key] = Counter()

    def restart(self) -> None:
        """Begins to count uses again."""
        self._counts.clear()

    def begin(self, tape: Tape, module: nn.Module, args: Any, kwargs: Any) -> int | None:
        """Starts a forward pass of ``module``: its number of rows (None: unknown), with a plan for its arguments."""
        self.restart()
        self.plan = self.failure = None
        leaves, spec = tree_flatten((args, kwargs))
        shapes = [tuple(leaf.shape) if isinstance(leaf, Tensor) else () for leaf in leaves]
        self.sizes = frozenset(math.prod(shape[1:k]) for shape in shapes for k in range(1, len(shape) + 1))
        options = leading_options(shapes)
        if not options or options[0][0] == 1:
            return options[0][0] if options else None
        kinds = tuple(_kind(leaf, options[0][0]) for leaf in leaves)
        kind = (id(module), module.training, str(spec), _settings(), kinds)
        known = self._plans.get(kind)
        if known is None or (not known.in_order and known.tries < TRIES):
            self._make(tape, module, leaves, spec, options, kind)
        self.plan = self._plans.get(kind)
        return options[0][0] if self.plan is None else len(leaves[self.plan.rows_of])

    def _make(self, tape: Tape, module: nn.Module, leaves: list[Any], spec: Any, options: Options, kind: Any) -> None:
        """Makes the plan of ``kind``; where the trial runs fail for every option, lets the model show its own error."""
        failures: list[Exception] = []
        for rows, leading in options:
            try:
                uses, found = Trial(tape, module, leaves, spec, leading).run() if rows > 1 else ({}, None)
            except Exception as error:  # noqa: BLE001 - what the model's own run shows as well is shown by that
                failures.append(error)
                continue
            if found:
                raise mixing(found)
            tries = self._plans[kind].tries + 1 if kind in self._plans else 1
            self._plans[kind] = Plan(min(leading), uses, in_order=found == "", tries=tries)
            self.fresh = True
            break
        else:
            with torch.no_grad(), torch.random.fork_rng(devices=devices(leaves)), kept(module):
                args, kwargs = tree_unflatten(leaves, spec)
                module.forward(*args, **kwargs)
            self.failure, self.fresh = failures[0].with_traceback(None), True
        self.restart()

    def use(self, tape: Tape, operands: list[Any]) -> Use:
        """The next use of the first parameter (or else shared value) among ``operands``."""
        trail = next(((id(o),) for o in operands if tape.tracks(o)), None)
        if trail is None:
            trail = next(o.trail for o in operands if tape.shares(o))
        key = (*trail, self._counts[trail])
        self._counts[trail] += 1
        inputs, outputs = (None, None) if self.plan is None else self.plan.uses.get(key, (None, None))
        if inputs is not None and len(inputs) != len(operands):
            inputs = outputs = None
        return Use(key, operands, inputs, outputs)

    def need_plan(self, where: str, tensor: Tensor) -> None:
        """ClippingError if only a plan could tell what ``tensor`` is, and the trial runs for it failed."""
        if self.failure is not None and not tensor.requires_grad:
            raise ClippingError(
                f"{where}: whether a tensor of shape {tuple(tensor.shape)} holds examples is unknown: a trial run of "
                f"the model with another number of rows failed: {self.failure}"
            ) from self.failure

    def axes_of(self, parameter: Any, position: int) -> set[int | None]:
        """The axes seen at operand ``position`` over all direct uses of ``parameter``."""
        uses = {} if self.plan is None else self.plan.uses
        return {inputs[position] for key, (inputs, _) in uses.items()
                if key[0] == id(parameter) and len(key) == 2 and position < len(inputs)}  # fmt: skip


def leading_options(shapes: Shapes) -> Options:
    """(rows, the tensors that lead with them), the likeliest first, for arguments of ``shapes`` (() for no tensor).

    The first size of most tensors is the number of rows, in a tie that of the tensor with more dimensions; not 1 where
    another tensor has more. One of the tensors may have that size by chance: each is left out in turn.
    """
    leads: dict[int, list[int]] = {}
    for i, shape in enumerate(shapes):
        if shape:
            leads.setdefault(shape[0], []).append(i)
    order = sorted(leads, key=lambda n: (n == 1, -len(leads[n]), -max(len(shapes[i]) for i in leads[n])))
    options: Options = [(rows, frozenset(leads[rows])) for rows in order[:1]]
    for i in sorted(leads[order[0]] if order else [], key=lambda i: len(shapes[i])):
        if len(leads[order[0]]) > 1:
            options.append((order[0], frozenset(leads[order[0]]) - {i}))
    return options + [(rows, frozenset(leads[rows])) for rows in order[1:]]


def _settings() -> tuple[bool, ...]:
    return tuple(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda"))


def _kind(leaf: Any, rows: int) -> Any:
    """What of an argument can change how a model treats its rows; which of its sizes equal their number is part."""
    if isinstance(leaf, Tensor):
        return (leaf.dtype, *(size == rows for size in leaf.shape))
    return repr(leaf) if isinstance(leaf, (bool, int, str, type(None))) else type(leaf).__name__


def mixing(where: str) -> MixedExamplesError:
    """The error for a model in which rows do not stay apart."""
    return MixedExamplesError(
        f"{where}: what this parameter meets for one example changed when another example of the batch was exchanged: "
        "examples are mixed (statistics over the batch, rows averaged or in another order), so that no gradient is one "
        "example's own"
    )


def unclear(where: str, tensor: Tensor, batch: int) -> ClippingError:
    """The error for a tensor in which the examples cannot be told apart."""
    return ClippingError(
        f"{where}: a parameter met a tensor of shape {tuple(tensor.shape)} in which the {batch} examples cannot be "
        "told apart; the first dimension must be the batch, or the batch and other whole dimensions flattened"
    )
