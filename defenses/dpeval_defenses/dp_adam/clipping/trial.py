"""Trial runs of a model on a few rows: what each operation on a parameter met, and whether rows stay apart.

Rows of the batch at hand are run without gradients, and what the runs change is put back. One row several times
over shows which sizes follow the number of rows; another row in the place of one of them shows which values follow
which row. Where other rows change as well, the model mixes its examples or puts them into another order, and no
gradient is one example's own.

>>> [followed(a, b, rows=(2, 3)) for a, b in [((2, 7), (3, 7)), ((14, 4), (21, 4)), ((7, 2), (7, 3)), ((7,), (7,))]]
[0, 0, 1, None]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map, tree_unflatten

from .rerun import devices, kept, rows_of

if TYPE_CHECKING:
    from .tape import Tape

COUNTS = (5, 7, 11, 13, 17, 19, 23, 29, 31)
"""Numbers of rows that are tried: the first two that are no size of the arguments or of the parameters."""
UNCLEAR = -1
"""The axis of a tensor in which several sizes follow the rows, or one does so unevenly."""
TRIED = 2
"""So many different rows, at most, are put beside the first."""

Key: TypeAlias = tuple[int, ...]
Axes: TypeAlias = tuple[int | None, ...]
Shapes: TypeAlias = list[tuple[int, ...]]
Uses: TypeAlias = dict[Key, tuple[Axes, Axes]]


def followed(few: Sequence[int], more: Sequence[int], rows: tuple[int, int]) -> int | None:
    """The axis whose size follows the number of ``rows``, from a tensor's shapes for two of them; None if none does."""
    if len(few) != len(more):
        return UNCLEAR
    axes = [i for i, (a, b) in enumerate(zip(few, more, strict=True)) if a != b]
    if len(axes) == 1 and few[axes[0]] * rows[1] == more[axes[0]] * rows[0]:
        return axes[0]
    return UNCLEAR if axes else None


@dataclass(frozen=True)
class Mark:
    """What an operand was in one run: its shape, and numbers that stand for the values of each row."""

    shape: tuple[int, ...]
    rows: Tensor | None
    """(rows, 3), or (1, 3) for a value without rows; None where rows do not stand evenly along the axis."""

    def mixed(self, other: Mark, same: list[int], tolerance: float) -> bool:
        """Whether one of the rows that stayed the ``same`` has changed; for a value without rows, whether anything."""
        if self.rows is None or other.rows is None:
            return (self.rows is None) != (other.rows is None)
        if self.shape != other.shape:
            return False
        rows = same if len(self.rows) > 1 else [0]
        sums = torch.maximum(self.rows[rows, 2:], other.rows[rows, 2:])
        return bool(((self.rows[rows] - other.rows[rows]).abs() > tolerance * sums).any())


class Probe:
    """One run with a few rows: the shapes that each use of a parameter met; with those of another run, marks too."""

    def __init__(self, rows: int, other: Probe | None = None) -> None:
        self.rows = rows
        self.shapes: dict[Key, tuple[Shapes, Shapes]] = {}
        self.marks: dict[Key, tuple[str, str, list[Mark]]] = {}
        """The operation, where it is, and the marks of its operands, parameters left out."""
        self._other = other

    def observe(self, tape: Tape, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Runs ``func`` as torch would; results that no example has met yet are followed further."""
        operands = tensors_in(args, kwargs)
        key = tape.layout.use(tape, operands).key
        shapes = [tuple(o.shape) for o in operands]
        if self._other is not None and key in self._other.shapes:
            axes = self._axes(shapes, self._other.shapes[key][0])
            marks = [self._mark(o, a) for o, a in zip(operands, axes, strict=False) if not tape.tracks(o)]
            self.marks[key] = getattr(func, "__name__", ""), tape.where(), marks
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - torch's own way out of a subclass
            out = func(*args, **kwargs)
        results = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.shapes[key] = shapes, [tuple(r.shape) for r in results]
        plain = [o for o in operands if not (tape.tracks(o) or tape.shares(o))]
        if any(r.ndim and r.shape[0] == self.rows for r in (*plain, *results)):
            return out
        return tree_map(lambda t: tape.traced(t, key) if isinstance(t, Tensor) else t, out)

    def uses(self) -> Uses:
        """For each use seen in both runs, the axes of examples in its operands and results, where they are known."""
        found: Uses = {}
        for key, other in {} if self._other is None else self._other.shapes.items():
            own = self.shapes.get(key, ([], []))
            if all(len(a) == len(b) for a, b in zip(own, other, strict=True)):
                inputs, outputs = (self._axes(a, b) for a, b in zip(own, other, strict=True))
                found[key] = inputs, outputs
        return found

    def mixed(self, changed: Probe, same: list[int], tolerance: float) -> str:
        """Where a row that is the ``same`` in a run with ``changed`` rows has another value there; '' for nowhere."""
        for key, (name, place, marks) in self.marks.items():
            other_name, _, others = changed.marks.get(key, ("", "", []))
            pairs = zip(marks, others, strict=False)
            if name == other_name and any(a.mixed(b, same, tolerance) for a, b in pairs):
                return place
        return ""

    def _axes(self, own: Shapes, other: Shapes) -> Axes:
        rows = (self.rows, 0 if self._other is None else self._other.rows)
        return tuple(followed(a, b, rows) for a, b in zip(own, other, strict=False))

    @torch.no_grad()
    def _mark(self, tensor: Tensor, axis: int | None) -> Mark:
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001
            if axis == UNCLEAR or (axis is not None and tensor.shape[axis] % self.rows):
                return Mark(tuple(tensor.shape), None)
            rows = tensor.reshape(1, -1) if axis is None else tensor.movedim(axis, 0).reshape(self.rows, -1)
            values = rows.double().nan_to_num()
            ramp = torch.arange(values.shape[1], dtype=torch.float64, device=values.device)
            marks = [values.sum(1), values @ ramp.div_(max(1, len(ramp))), values.abs_().sum(1)]
            return Mark(tuple(tensor.shape), torch.stack(marks, 1))


class Trial:
    """The runs of one module on rows of one set of arguments."""

    def __init__(self, tape: Tape, module: nn.Module, leaves: list[Any], spec: Any, leading: frozenset[int]) -> None:
        self.tape, self.module, self.leaves, self.spec, self.leading = tape, module, leaves, spec, leading

    def run(self) -> tuple[Uses, str | None]:
        """The axes of each use of a parameter, and where rows do not stay apart; '' for nowhere.

        None where that is unknown: all rows of the arguments are alike, or a run does not repeat another to the bit.
        """
        few, more = _counts(self.module, self.leaves)
        shapes = self._run([0] * more)
        base = self._run([0] * few, shapes)
        others = self._others()
        if not others:
            return base.uses(), None
        rows = [0] * few
        rows[few // 2], rows[-1] = others[0], others[-1]
        same = [i for i, row in enumerate(rows) if row == 0]
        found = base.mixed(self._run(rows, shapes), same, self._tolerance())
        if found and base.mixed(self._run([0] * few, shapes), same, self._tolerance()):
            return base.uses(), None
        return base.uses(), found

    def _run(self, rows: list[int], other: Probe | None = None) -> Probe:
        size = len(self.leaves[min(self.leading)])
        arguments = [rows_of(leaf, rows, i in self.leading, size) for i, leaf in enumerate(self.leaves)]
        args, kwargs = tree_unflatten(arguments, self.spec)
        self.tape.layout.restart()
        self.tape.probe = probe = Probe(len(rows), other)
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=devices(self.leaves)), kept(self.module):
                self.module.forward(*args, **kwargs)
        finally:
            self.tape.probe = None
        return probe

    def _others(self) -> list[int]:
        """Rows that differ from the first in some argument, at most ``TRIED`` of them and unlike one another."""
        leading = [self.leaves[i] for i in sorted(self.leading)]
        different: list[int] = []
        for row in range(1, len(leading[0])):
            if len(different) < TRIED and all(_unlike(leading, row, seen) for seen in (0, *different)):
                different.append(row)
        return different

    def _tolerance(self) -> float:
        types = {p.dtype for p in self.module.parameters()}
        if types == {torch.float64}:
            return 1e-9
        autocast = any(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda"))
        return 3e-2 if autocast or types & {torch.float16, torch.bfloat16} else 1e-4


def _counts(module: nn.Module, leaves: list[Any]) -> tuple[int, int]:
    """Two numbers of rows that stand out: no size of an argument or parameter is one of them, or next to it."""
    shapes = [t.shape for t in (*leaves, *module.parameters()) if isinstance(t, Tensor)]
    taken = {size + near for shape in shapes for size in shape for near in (-1, 0, 1)}
    free = [count for count in COUNTS if count not in taken]
    few, more = (*free, *COUNTS)[:2]
    return few, more


def _unlike(leading: list[Tensor], one: int, other: int) -> bool:
    return any(not torch.equal(t[one], t[other]) for t in leading)


def tensors_in(args: Any, kwargs: Any) -> list[Any]:
    """The tensors among the arguments of an operation, those in lists included."""
    found = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [v for v in value if isinstance(v, Tensor)]
    return found
