"""What a trainable parameter is during a recorded forward pass, and which operations on it need no recording.

>>> import torch
>>> passes(torch.Tensor.size, ()), passes(torch.Tensor.mul, ())
(True, False)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from .shared import Shared

if TYPE_CHECKING:
    from .tape import Tape

_PASSED = """size dim ndimension numel nelement stride is_contiguous is_floating_point is_complex is_signed
element_size __len__ __repr__ __format__ __hash__ __bool__ __deepcopy__ __reduce_ex__ detach data_ptr storage_offset
untyped_storage storage get_device requires_grad_ register_hook register_post_accumulate_grad_hook new_zeros new_empty
new_ones new_full new_tensor zeros_like ones_like empty_like full_like rand_like randn_like argmax argmin isnan isinf
isfinite eq ne lt gt le ge __eq__ __ne__ __lt__ __gt__ __le__ __ge__ item tolist numpy __array__ result_type can_cast
is_same_size allclose equal has_names is_shared is_pinned"""
PASSED = frozenset(_PASSED.split())
"""Operations whose result carries no gradient of the parameter."""
LIKE = frozenset(("to", "type_as", "view_as", "reshape_as"))
"""Operations that only look at their second tensor's type or shape."""


CONVERSIONS = frozenset(("to", "type", "type_as", "float", "double", "half", "bfloat16", "contiguous", "cpu", "cuda"))


class Tracked(nn.Parameter):
    """A trainable parameter during a recorded forward pass; each tape has a subclass of its own."""

    tape: Tape

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Sends every operation on the parameter to its tape."""
        del types
        return cls.tape.dispatch(func, args, kwargs or {})


def passes(func: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Whether the result of ``func`` carries no gradient of a parameter or shared value among ``args``."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return getattr(getattr(func, "__self__", None), "__name__", "") not in ("T", "mT", "H", "mH")
    return name in PASSED or (name in LIKE and not isinstance(args[0], (Tracked, Shared)))


def converts(func: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Whether ``func`` may return its first argument, a parameter, as it is."""
    return isinstance(args[0] if args else None, Tracked) and getattr(func, "__name__", "") in CONVERSIONS


def all_leaves(*values: Tensor | None) -> bool:
    """Whether each of ``values`` is a trained parameter or needs no gradient: none is computed from others."""
    return all(v is None or isinstance(v, Tracked) or not v.requires_grad for v in values)
