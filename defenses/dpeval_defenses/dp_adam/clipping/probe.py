"""Where the examples stand in each tensor that meets a parameter, found by running two and three rows through the model.

A size that follows the number of rows is the batch dimension; a tensor without such a size belongs to no example
(relative positions, a shared buffer), even where one of its sizes happens to equal the batch. The two runs are made
without gradients when a forward pass is called with a new kind of arguments, and the random state is put back.

>>> batch_axis((2, 7), (3, 7)), batch_axis((14, 4), (21, 4)), batch_axis((7, 2), (7, 3)), batch_axis((7, 7), (7, 7))
(0, 0, 1, None)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_flatten, tree_unflatten

from .checks import CannotClip

if TYPE_CHECKING:
    from .tape import Tape

ROWS = (2, 3)
OPERAND = {F.linear: 0, F.embedding: 0, F.layer_norm: 0, torch.addmm: 1}
"""The argument that carries the examples, for each operation with a rule."""


def batch_axis(two: tuple[int, ...], three: tuple[int, ...]) -> int | None:
    """The axis whose size follows the number of rows; None if there is none. CannotClip if several do."""
    axes = [i for i, (a, b) in enumerate(zip(two, three, strict=True)) if a != b]
    if not axes:
        return None
    if len(axes) > 1 or two[axes[0]] * ROWS[1] != three[axes[0]] * ROWS[0]:
        raise CannotClip(f"examples cannot be told apart in a tensor of shape {two} for 2 rows and {three} for 3 rows")
    return axes[0]


class Probe:
    """The shapes that each parameter's uses saw in one run."""

    def __init__(self) -> None:
        self.shapes: dict[int, list[tuple[int, ...]]] = {}

    def observe(self, tape: Tape, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Notes the operand's shape and runs ``func`` as torch would."""
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001
            at = OPERAND.get(func)
            if at is not None:
                operand = args[at] if len(args) > at else kwargs["input" if at == 0 else "mat1"]
                for parameter in (*args, *kwargs.values()):
                    if tape.tracks(parameter):
                        self.shapes.setdefault(id(parameter), []).append(tuple(operand.shape))
            return func(*args, **kwargs)


class Layout:
    """What is known about where examples stand, for each kind of call."""

    def __init__(self) -> None:
        self._plans: dict[Any, dict[int, list[int | None]] | None] = {}
        self._plan: dict[int, list[int | None]] | None = None
        self._uses: Counter[int] = Counter()

    def begin(self, tape: Tape, module: nn.Module, args: Any, kwargs: Any) -> int | None:
        """Starts a forward pass of ``module``: its number of rows, and a plan for its kind of arguments."""
        self._uses.clear()
        leaves, spec = tree_flatten((args, kwargs))
        sizes = Counter(leaf.shape[0] for leaf in leaves if isinstance(leaf, Tensor) and leaf.ndim)
        self._plan = None
        if not sizes:
            return None
        rows = sizes.most_common(1)[0][0]
        kind = (id(module), module.training, str(spec), tuple(_kind(leaf, rows) for leaf in leaves))
        if kind not in self._plans:
            self._plans[kind] = self._probed(tape, module, leaves, spec, rows)
        self._plan = self._plans[kind]
        return rows

    def axis(self, tape: Tape, tensor: Tensor, parameter: Any) -> int | None:
        """The axis along which ``tensor``, an operand of ``parameter``, holds the examples; None for no examples."""
        batch = tape.batch
        if batch is None:
            tape.batch = batch = tensor.shape[0]
        if batch == 1:
            return 0
        axis = self._planned(tape, tensor, id(parameter))
        if axis == UNPLANNED:
            axis = _conventional(tensor, batch)
        if axis is None and not tensor.requires_grad:
            return None
        if axis is None or tensor.ndim <= axis or tensor.shape[axis] % batch:
            raise CannotClip(
                f"{tape.where()}: {tape.name(parameter)!r} met a tensor of shape {tuple(tensor.shape)} in which the "
                f"{batch} examples cannot be told apart; put the batch first"
            )
        return axis

    def _planned(self, tape: Tape, tensor: Tensor, key: int) -> int | None:
        """What the probe saw in this use of the parameter; a tensor with a gradient always holds examples."""
        use = self._uses[key]
        self._uses[key] += 1
        axes = [] if self._plan is None else self._plan.get(key, [])
        choices = {a for a in axes if a is not None or not tensor.requires_grad}
        if len(choices) == 1:
            return choices.pop()
        return axes[use] if use < len(axes) and tape.receiver is None else UNPLANNED

    def _probed(self, tape: Tape, module: nn.Module, leaves: list[Any], spec: Any, rows: int) -> Any:
        runs = []
        devices = sorted({leaf.device.index for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_cuda})
        with torch.no_grad(), torch.random.fork_rng(devices=devices):
            for count in ROWS:
                args, kwargs = tree_unflatten([_first_row(leaf, rows, count) for leaf in leaves], spec)
                tape._probe = Probe()  # noqa: SLF001
                try:
                    module.forward(*args, **kwargs)
                    runs.append(tape._probe.shapes)  # noqa: SLF001
                finally:
                    tape._probe = None  # noqa: SLF001
        two, three = runs
        return {key: [batch_axis(a, b) for a, b in zip(two[key], three[key], strict=True)] for key in two}


UNPLANNED = -1


def _conventional(tensor: Tensor, batch: int) -> int | None:
    """The first axis if it has as many entries as there are examples, or several for each."""
    if tensor.ndim and (tensor.shape[0] == batch or (tensor.requires_grad and tensor.shape[0] % batch == 0)):
        return 0
    return None


def _kind(leaf: Any, rows: int) -> Any:
    if isinstance(leaf, Tensor):
        return (leaf.dtype, leaf.ndim, leaf.ndim > 0 and leaf.shape[0] == rows)
    return repr(leaf) if isinstance(leaf, (bool, int, str, type(None))) else type(leaf).__name__


def _first_row(leaf: Any, rows: int, count: int) -> Any:
    """``count`` copies of the first row of a tensor that has ``rows`` of them."""
    if isinstance(leaf, Tensor) and leaf.ndim and leaf.shape[0] == rows:
        return leaf[:1].expand(count, *leaf.shape[1:])
    return leaf
