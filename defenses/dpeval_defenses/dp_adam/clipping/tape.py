"""Follows the trainable parameters of a model through its forward passes and hands their records on in the backward.

While a forward pass runs with gradients on, each trainable parameter is an object of a class that sends every operation
on it here; before and after, and in evaluation, the model is stock. An operation with a rule becomes an autograd
function that keeps what its rule needs; any other goes through :mod:`shared`.

>>> tape = Tape(torch.nn.Linear(2, 1))
>>> tape.attach(); tape.model(torch.zeros(3, 2)).grad_fn.name()
'ProductBackward'
>>> tape.detach(); tape.model(torch.zeros(3, 2)).grad_fn.name()
'AddmmBackward0'
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from .checks import ClippingError, refuse_stray
from .functions import Site, Spread
from .layout import Layout
from .mixing import Mixture
from .records import Record
from .rules import RULES
from .shared import Shared, share
from .tracked import Tracked, converts, passes
from .trial import Key, Probe, tensors_in

Grads = dict[nn.Parameter, Tensor | None]
"""What stands in for ``.grad`` of each trained parameter during a backward pass."""


class Tape:
    """The recording of one model."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.anchor = torch.zeros((), requires_grad=True)
        self.batch: int | None = None
        self.receiver: Callable[[nn.Parameter, Record], None] | None = None
        self.expected_batch: int | None = None
        self.touched: set[nn.Parameter] = set()
        self.layout = Layout()
        self.probe: Probe | None = None
        self.tracked_class: type[Tracked] = type("Tracked", (Tracked,), {"tape": self})
        self.shared_class: type[Shared] = type("Shared", (Shared,), {"tape": self})
        self.awake = True
        self._sites: weakref.WeakSet[Site] = weakref.WeakSet()
        self._stack: list[nn.Module] = []
        self._flipped: list[nn.Parameter] = []
        self._handles: list[RemovableHandle] = []

    def __reduce__(self) -> Any:
        """Copies of a model with a tape have a tape that does nothing."""
        return _asleep, ()

    # --- attaching -------------------------------------------------------------------------------------------------

    def attach(self) -> None:
        """Starts to follow forward passes; refused where another tape follows the model already."""
        for path, module in self.model.named_modules():
            tapes = (getattr(hook, "__self__", None) for hook in module._forward_pre_hooks.values())  # noqa: SLF001
            if any(isinstance(tape, Tape) and tape.awake for tape in tapes):
                raise ClippingError(f"module {path!r} is clipped by another ClippedGradients; detach() that first")
        for module in self.model.modules():
            self._handles.append(module.register_forward_pre_hook(self._enter, prepend=True, with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._leave, always_call=True))

    def detach(self) -> None:
        """Leaves the model as it was."""
        self._restore()
        while self._handles:
            self._handles.pop().remove()

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._stack.append(module)
        if len(self._stack) == 1 and self.awake and torch.is_grad_enabled() and self.receiver is None:
            self._start(module, args, kwargs)

    def _leave(self, module: nn.Module, *_: Any) -> None:
        if self._stack and self._stack[-1] is module:
            self._stack.pop()
        if not self._stack and self.receiver is None:
            self._restore()

    def _start(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling():
            raise ClippingError("the model is being compiled: compiled code goes round the recording; run it as it is")
        self._flip()
        self.batch = self.layout.begin(self, module, args, kwargs)

    def _flip(self) -> None:
        for parameter in self.model.parameters():
            if parameter.requires_grad and type(parameter) is nn.Parameter:
                parameter.__class__ = self.tracked_class
                self._flipped.append(parameter)

    def _restore(self) -> None:
        while self._flipped:
            self._flipped.pop().__class__ = nn.Parameter

    # --- the backward pass -----------------------------------------------------------------------------------------

    def expected(self) -> dict[nn.Parameter, int]:
        """For each parameter, how many uses the live graphs hold: at least as many as a backward pass will report."""
        counts: dict[nn.Parameter, int] = {}
        for site in list(self._sites):
            for parameter in (site.weight, site.bias):
                if parameter is not None:
                    counts[parameter] = counts.get(parameter, 0) + 1
        return counts

    @contextlib.contextmanager
    def listening(self, receiver: Callable[[nn.Parameter, Record], None], batch: int) -> Iterator[Grads]:
        """Within it, a backward pass over ``batch`` examples reports to ``receiver``; yields the gradients to add to.

        They are set aside meanwhile: a gradient that reaches a parameter by itself went round the recording and raises
        ClippingError.
        """
        trained = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        before: Grads = {p: p.grad for p in trained.values()}
        grads = dict(before)
        for parameter in trained.values():
            parameter.grad = None
        self.receiver, self.expected_batch = receiver, batch
        self.batch = batch
        self.touched.clear()
        self._flip()
        try:
            yield grads
            refuse_stray([name for name, p in trained.items() if p.grad is not None])
        except BaseException:
            grads = before
            raise
        finally:
            self.receiver = self.expected_batch = None
            self._restore()
            for parameter, grad in grads.items():
                parameter.grad = grad

    def receive(self, site: Site, parameter: nn.Parameter, record: Record) -> None:
        """Takes one record during a backward pass of the engine."""
        if self.receiver is None:
            raise RuntimeError(
                "a backward pass went through a model whose gradients are clipped: call clip.backward(losses) instead "
                "of loss.backward(), or clip.detach() first"
            )
        if site.batch != self.expected_batch:
            raise ClippingError(
                f"parameter {self.name(parameter)!r} was used by a batch of {site.batch} examples, but the losses are "
                f"{self.expected_batch}: each loss must belong to one row of the model's input"
            )
        self.touched.add(parameter)
        self.receiver(parameter, record)

    # --- operations ------------------------------------------------------------------------------------------------

    def dispatch(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Runs ``func`` on arguments of which at least one is tracked or shared."""
        if passes(func, args) or (self.probe is None and not torch.is_grad_enabled()):
            with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - torch's own way out of a subclass
                return func(*args, **kwargs)
        if converts(func, args):
            with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001
                out = func(*args, **kwargs)
            if out is args[0]:
                return out
        if self.probe is not None:
            return self.probe.observe(self, func, args, kwargs)
        operands = tensors_in(args, kwargs)
        use = self.layout.use(self, operands)
        rule = RULES.get(func)
        out = NotImplemented if rule is None else rule(self, use, *args, **kwargs)
        return Mixture(self, use, func, args, kwargs).run() if out is NotImplemented else out

    def tracks(self, value: Any) -> TypeGuard[nn.Parameter]:
        """Whether ``value`` is one of the model's trainable parameters."""
        return type(value) is self.tracked_class

    def shares(self, value: Any) -> bool:
        """Whether ``value`` is shared by all examples."""
        return isinstance(value, Shared)

    def data(self, parameter: Tensor | None) -> Tensor | None:
        """The values of a parameter, without its gradient."""
        if parameter is None:
            return None
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001
            return parameter.detach()

    def share(self, inner: Tensor, key: Key) -> Tensor:
        """``inner`` (B, *visible) as a value that all examples share."""
        return share(self, inner, key)

    def traced(self, tensor: Tensor, key: Key) -> Tensor:
        """``tensor`` as a probe follows it."""
        out: Shared = tensor.as_subclass(self.shared_class)
        out.trail = key
        return out

    def known_batch(self) -> int:
        """The number of examples of the running forward pass."""
        if self.batch is None:
            raise ClippingError(f"{self.where()}: the number of examples is unknown; pass the model a tensor (B, …)")
        return self.batch

    def site(self, axis: int, weight: Any, bias: Any, *, transposed: bool = False) -> Site:
        """A use of the tracked ones among ``weight`` and ``bias``."""
        site = Site(
            tape=self,
            batch=self.known_batch(),
            axis=axis,
            weight=weight if self.tracks(weight) else None,
            bias=bias if self.tracks(bias) else None,
            transposed=transposed,
        )
        self._sites.add(site)
        return site

    def spread(self, parameter: Any) -> Tensor:
        """A parameter used bare, as a shared value."""
        site = self.site(0, parameter, None)
        spread: Tensor = Spread.apply(self.data(parameter), self.anchor, site)  # type: ignore[no-untyped-call]
        return self.share(spread, (id(parameter),))

    # --- names -----------------------------------------------------------------------------------------------------

    def name(self, parameter: Any) -> str:
        """The parameter's first name in the model."""
        return next((name for name, p in self.model.named_parameters() if p is parameter), "(unknown)")

    def where(self) -> str:
        """The path of the module that is running."""
        running = self._stack[-1] if self._stack else self.model
        path = next((name for name, m in self.model.named_modules() if m is running), "")
        return f"module {path or '(the model itself)'!r} ({type(running).__name__})"


def _asleep() -> Tape:
    tape = Tape(nn.Module())
    tape.awake = False
    return tape
