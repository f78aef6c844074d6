"""Trial runs of a model on a few rows: what each operation on a parameter met, and whether rows stay apart.

Rows of the batch at hand are run without gradients, and what the runs change is put back. One row several times
over shows which sizes follow the number of rows; another row in the place of one of them shows which values follow
which row. Where other rows change as well, the model mixes its examples or puts them into another order, and no
gradient is one example's own.

>>> [followed(a, b, rows=(2, 3)) for a, b in [((2, 7), (3, 7)), ((14, 4), (21, 4)), ((7, 2), (7, 3)), ((7,), (7,))]]
[0, 0, 1, None]
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map, tree_unflatten

if TYPE_CHECKING:
    from .tape import Tape

COUNTS = (5, 7, 11, 13, 17, 19, 23, 29, 31)
"""Numbers of rows that are tried: the first two that are no size of the arguments or of the parameters."""
UNCLEAR = -1
"""The axis of a tensor in which several sizes follow the rows, or one does so unevenly."""
TRIED = 3
"""At most so many different rows are put beside the first."""

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


class Probe:
    """One run with a few rows: the shapes and the marked values that each use of a parameter met, and where."""

    def __init__(self, rows: int, axes: Uses | None = None) -> None:
        self.rows = rows
        self.shapes: dict[Key, tuple[Shapes, Shapes]] = {}
        self.marks: dict[Key, list[Tensor | None]] = {}
        self.places: dict[Key, str] = {}
        self.names: dict[Key, str] = {}
        self._axes = axes or {}

    def observe(self, tape: Tape, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Runs ``func`` as torch would; results that no example has met yet are followed further."""
        operands = tensors_in(args, kwargs)
        key = tape.layout.use(tape, operands).key
        if key in self._axes:
            self.places[key], self.names[key] = tape.where(), getattr(func, "__name__", "")
            inputs = self._axes[key][0]
            pairs = zip(operands, inputs, strict=True) if len(operands) == len(inputs) else ()
            self.marks[key] = [None if tape.tracks(o) or a == UNCLEAR else marked(o, a, self.rows) for o, a in pairs]
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - torch's own way out of a subclass
            out = func(*args, **kwargs)
        results = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.shapes[key] = ([tuple(o.shape) for o in operands], [tuple(r.shape) for r in results])
        plain = [o for o in operands if not (tape.tracks(o) or tape.shares(o))]
        if any(r.ndim and r.shape[0] == self.rows for r in (*plain, *results)):
            return out
        return tree_map(lambda t: tape.traced(t, key) if isinstance(t, Tensor) else t, out)


@torch.no_grad()
def marked(tensor: Tensor, axis: int | None, count: int) -> Tensor | None:
    """A mark of the values of each of ``count`` rows along ``axis``, (count, 3); of all values for None, (1, 3).

    None where rows do not stand evenly along the axis.
    """
    with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001
        if axis is not None and (axis >= tensor.ndim or tensor.shape[axis] % count):
            return None
        rows = tensor.reshape(1, -1) if axis is None else tensor.movedim(axis, 0).reshape(count, -1)
        values = rows.double().nan_to_num()
        ramp = torch.linspace(0.5, 1.5, values.shape[1], dtype=torch.float64, device=values.device)
        return torch.stack([values.sum(1), values @ ramp, values.abs().sum(1)], 1)


class Trial:
    """The runs of one module on rows of one set of arguments."""

    def __init__(self, tape: Tape, module: nn.Module, leaves: list[Any], spec: Any, leading: frozenset[int]) -> None:
        self.tape, self.module, self.leaves, self.spec, self.leading = tape, module, leaves, spec, leading
        self.counts = _counts(module, leaves)

    def uses(self) -> Uses:
        """For each use of a parameter, the axes of examples in its operands and results, where they are known."""
        few, more = (self._run([0] * count).shapes for count in self.counts)
        uses: Uses = {}
        for key in few.keys() & more.keys():
            pairs = list(zip(few[key], more[key], strict=True))
            if all(len(a) == len(b) for a, b in pairs):
                inputs, outputs = (
                    tuple(followed(x, y, self.counts) for x, y in zip(*pair, strict=True)) for pair in pairs
                )
                uses[key] = inputs, outputs
        return uses

    def mixed(self, uses: Uses) -> str | None:
        """Where a row changed with another one, '' where nowhere; None where all rows of the arguments are alike."""
        others = self._others()
        if not others:
            return None
        count, tolerance = self.counts[0], self._tolerance()
        base = self._run([0] * count, uses)
        for k, place in enumerate((count // 2, 0, count - 1)):
            rows = [0] * count
            rows[place] = others[k % len(others)]
            changed, same = self._run(rows, uses), [i for i in range(count) if i != place]
            for key, marks in base.marks.items():
                if changed.names.get(key) == base.names[key]:
                    pairs = zip(marks, changed.marks[key], strict=False)
                    if any(_differs(a, b, same, tolerance) for a, b in pairs):
                        return base.places[key]
        return ""

    def _run(self, rows: list[int], axes: Uses | None = None) -> Probe:
        size = len(self.leaves[min(self.leading)])
        arguments = [_rows_of(leaf, rows, i in self.leading, size) for i, leaf in enumerate(self.leaves)]
        args, kwargs = tree_unflatten(arguments, self.spec)
        self.tape.layout.restart()
        self.tape.probe = probe = Probe(len(rows), axes)
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


def _differs(base: Tensor | None, changed: Tensor | None, same: list[int], tolerance: float) -> bool:
    """Whether one of the rows that stayed the ``same`` has changed; for values without rows, whether anything has."""
    if base is None or changed is None:
        return (base is None) != (changed is None)
    rows = same if len(base) > 1 else [0]
    sums = torch.maximum(base[rows, 2:], changed[rows, 2:])
    return bool(((base[rows] - changed[rows]).abs() > tolerance * sums).any())


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


def devices(leaves: list[Any]) -> list[int]:
    """The CUDA devices on which a run draws random numbers."""
    return sorted({leaf.device.index for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_cuda})


def _rows_of(leaf: Any, rows: list[int], leads: bool, size: int) -> Any:
    """``rows`` of a tensor that leads with the batch; a copy of anything else that a run could change."""
    if isinstance(leaf, Tensor):
        return leaf.detach()[rows] if leads else leaf
    return _copied(leaf, rows, size, {})


def _copied(value: Any, rows: list[int], size: int, done: dict[int, Any]) -> Any:
    """A copy of a container or object (a cache of keys and values) whose tensors with ``size`` rows have ``rows``."""
    if isinstance(value, Tensor):
        return _rows_of(value, rows, value.ndim > 0 and len(value) == size, size)
    if id(value) in done or value is None or isinstance(value, (bool, int, float, str, type)) or callable(value):
        return done.get(id(value), value)
    if isinstance(value, (list, tuple, set, dict)):
        return _copied_container(value, rows, size, done)
    new = done[id(value)] = copy.copy(value)
    for name, attribute in list(getattr(value, "__dict__", {}).items()):
        vars(new)[name] = _copied(attribute, rows, size, done)
    return new


def _copied_container(value: Any, rows: list[int], size: int, done: dict[int, Any]) -> Any:
    if isinstance(value, dict):
        new = copy.copy(value)
        new.update({key: _copied(part, rows, size, done) for key, part in value.items()})
        return new
    parts = [_copied(part, rows, size, done) for part in value]
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


@contextmanager
def kept(module: nn.Module) -> Iterator[None]:
    """Within it, buffers and attributes of the modules may change; afterwards they are as before."""
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    tables: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for part in module.modules():
        own = vars(part)
        tables += [(table, dict(table)) for table in (own, own["_buffers"])]
    try:
        yield
    finally:
        for table, before in tables:
            _put_back(table, before)
        for buffer, value in buffers:
            if not torch.equal(buffer, value):
                buffer.copy_(value)


def _put_back(table: dict[str, Any], before: Mapping[str, Any]) -> None:
    if table.keys() == before.keys() and all(table[name] is value for name, value in before.items()):
        return
    table.clear()
    table.update(before)
