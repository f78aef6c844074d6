"""Where the examples stand in each tensor that meets a parameter, found by running two and three rows of the input.

A size that follows the number of rows is the batch dimension; a tensor without such a size belongs to no example
(relative positions, a shared buffer), even where one of its sizes happens to equal the batch. The two runs are made
without gradients when a forward pass is called with a new kind of arguments, and the random state is put back.

>>> followed((2, 7), (3, 7)), followed((14, 4), (21, 4)), followed((7, 2), (7, 3)), followed((7, 7), (7, 7))
(0, 0, 1, None)
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from .checks import ClippingError

if TYPE_CHECKING:
    from .tape import Tape

ROWS = (2, 3)
UNCLEAR = -1
"""The axis of a tensor in which several sizes follow the rows, or one does so unevenly."""

Key = tuple[int, ...]
Axes = tuple[int | None, ...]
Shapes = list[tuple[int, ...]]


def followed(two: Sequence[int], three: Sequence[int]) -> int | None:
    """The axis whose size follows the number of rows, from a tensor's shapes for 2 and 3 rows; None if none does."""
    if len(two) != len(three):
        return UNCLEAR
    axes = [i for i, (a, b) in enumerate(zip(two, three, strict=True)) if a != b]
    if len(axes) == 1 and two[axes[0]] * ROWS[1] == three[axes[0]] * ROWS[0]:
        return axes[0]
    return UNCLEAR if axes else None


@dataclass(frozen=True)
class Use:
    """One operation on parameters: its name in the plan, and along which axes examples stand, if the plan knows."""

    key: Key
    operands: list[Any]
    inputs: Axes | None
    outputs: Axes | None


@dataclass
class Plan:
    """What the two runs of one kind of call saw: for each use, the axes of its operands and of its results."""

    uses: dict[Key, tuple[Axes, Axes]] = field(default_factory=dict)

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
        self._plans: dict[Any, Plan] = {}
        self._counts: Counter[Key] = Counter()

    def begin(self, tape: Tape, module: nn.Module, args: Any, kwargs: Any) -> int | None:
        """Starts a forward pass of ``module``: its number of rows (None: unknown), with a plan for its arguments."""
        self._counts.clear()
        self.plan = self.failure = None
        leaves, spec = tree_flatten((args, kwargs))
        shapes = [tuple(leaf.shape) for leaf in leaves if isinstance(leaf, Tensor) and leaf.ndim]
        self.sizes = frozenset(math.prod(shape[1:k]) for shape in shapes for k in range(1, len(shape) + 1))
        rows = _rows(shapes)
        if rows is None or rows == 1:
            return rows
        kind = (id(module), module.training, str(spec), tuple(_kind(leaf, rows) for leaf in leaves))
        if kind not in self._plans:
            try:
                self._plans[kind] = self._probed(tape, module, leaves, spec, rows)
            except Exception as error:  # noqa: BLE001 - what the model's own run shows as well is shown by that
                with torch.no_grad(), torch.random.fork_rng(devices=_devices(leaves)):
                    module.forward(*args, **kwargs)
                self.failure = error
            self._counts.clear()
        self.plan = self._plans.get(kind)
        return rows

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
                f"the model with {ROWS[0]} or {ROWS[1]} rows of the input failed: {self.failure}"
            ) from self.failure

    def axes_of(self, parameter: Any, position: int) -> set[int | None]:
        """The axes seen at operand ``position`` over all direct uses of ``parameter``."""
        uses = {} if self.plan is None else self.plan.uses
        return {inputs[position] for key, (inputs, _) in uses.items()
                if key[0] == id(parameter) and len(key) == 2 and position < len(inputs)}  # fmt: skip

    def _probed(self, tape: Tape, module: nn.Module, leaves: list[Any], spec: Any, rows: int) -> Plan:
        runs = []
        with torch.no_grad(), torch.random.fork_rng(devices=_devices(leaves)), kept_buffers(module):
            for count in ROWS:
                self._counts.clear()
                args, kwargs = tree_unflatten([_first_row(leaf, rows, count) for leaf in leaves], spec)
                tape.probe = Probe(count)
                try:
                    module.forward(*args, **kwargs)
                    runs.append(tape.probe.shapes)
                finally:
                    tape.probe = None
        return Plan(_compared(*runs))


def _rows(shapes: Shapes) -> int | None:
    """The number of examples in arguments of ``shapes``: the first size of most, and not 1 where others have more."""
    leads = Counter(shape[0] for shape in shapes)
    several = [size for size, _ in leads.most_common() if size != 1]
    return several[0] if several else next(iter(leads), None)


def _compared(two: dict[Key, tuple[Shapes, Shapes]], three: dict[Key, tuple[Shapes, Shapes]]) -> Any:
    uses = {}
    for key in two.keys() & three.keys():
        pairs = list(zip(two[key], three[key], strict=True))
        if all(len(a) == len(b) for a, b in pairs):
            uses[key] = tuple(tuple(followed(x, y) for x, y in zip(a, b, strict=True)) for a, b in pairs)
    return uses


class Probe:
    """One run with a few rows: the shapes that each use of a parameter saw."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.shapes: dict[Key, tuple[Shapes, Shapes]] = {}

    def observe(self, tape: Tape, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Runs ``func`` as torch would; results that no example has met yet are followed further."""
        operands = tensors_in(args, kwargs)
        key = tape.layout.use(tape, operands).key
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - torch's own way out of a subclass
            out = func(*args, **kwargs)
        results = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.shapes[key] = ([tuple(o.shape) for o in operands], [tuple(r.shape) for r in results])
        plain = [o for o in operands if not (tape.tracks(o) or tape.shares(o))]
        if any(r.ndim and r.shape[0] == self.rows for r in (*plain, *results)):
            return out
        return tree_map(lambda t: tape.traced(t, key) if isinstance(t, Tensor) else t, out)


def tensors_in(args: Any, kwargs: Any) -> list[Any]:
    """The tensors among the arguments of an operation, those in lists included."""
    found = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [v for v in value if isinstance(v, Tensor)]
    return found


def _devices(leaves: list[Any]) -> list[int]:
    """The CUDA devices on which a run draws random numbers."""
    return sorted({leaf.device.index for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_cuda})


def _kind(leaf: Any, rows: int) -> Any:
    if isinstance(leaf, Tensor):
        return (leaf.dtype, leaf.ndim, leaf.ndim > 0 and leaf.shape[0] == rows)
    return repr(leaf) if isinstance(leaf, (bool, int, str, type(None))) else type(leaf).__name__


def _first_row(leaf: Any, rows: int, count: int) -> Any:
    """``count`` copies of the first row of a tensor that has ``rows`` of them; a copy of what a run could change."""
    if isinstance(leaf, Tensor):
        lead = leaf.ndim and leaf.shape[0] == rows
        return leaf[:1].repeat(count, *[1] * (leaf.ndim - 1)) if lead else leaf
    return leaf if isinstance(leaf, (bool, int, float, str, type(None))) or callable(leaf) else copy.deepcopy(leaf)


@contextmanager
def kept_buffers(module: nn.Module) -> Iterator[None]:
    """Within it, buffers may change; afterwards they are as before."""
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in before:
            if not torch.equal(buffer, value):
                buffer.copy_(value)


def unclear(where: str, tensor: Tensor, batch: int) -> ClippingError:
    """The error for a tensor in which the examples cannot be told apart."""
    return ClippingError(
        f"{where}: a parameter met a tensor of shape {tuple(tensor.shape)} in which the {batch} examples cannot be "
        "told apart; the first dimension must be the batch, or the batch and other whole dimensions flattened"
    )
