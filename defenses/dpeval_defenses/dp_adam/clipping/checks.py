"""What cannot be clipped exactly is refused before anything trains, by module path and with the reason.

>>> refuse_unfit(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)))
Traceback (most recent call last):
    ...
dpeval_defenses.dp_adam.clipping.checks.ClippingError: module '1' (BatchNorm1d): ...
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn


class ClippingError(ValueError):
    """Exact per-example clipping is not possible here; the message names the module or operation and the reason."""


class MixedExamplesError(ClippingError):
    """What belongs to one example depends on others; the message says where."""


def refuse_unfit(model: nn.Module) -> None:
    """Raises :class:`ClippingError` for everything in ``model`` that is known not to be exact."""
    found = [f"module {path or '(the model itself)'!r} ({type(module).__name__}): {reason}"
             for path, module in model.named_modules() for reason in _reasons(module)]  # fmt: skip
    found += [f"parameter {name!r}: {reason}" for name, p in model.named_parameters() for reason in _odd(p)]
    if not any(p.requires_grad for p in model.parameters()):
        found.append("the model has no trainable parameter (requires_grad is False everywhere): nothing to clip")
    if found:
        raise ClippingError("; ".join(found))


def _reasons(module: nn.Module) -> Iterator[str]:
    """Why ``module`` cannot be exact; nothing for one that can."""
    if isinstance(module, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - the only common base of its kind
        yield "batch statistics make each example's loss depend on the others; use LayerNorm or GroupNorm"
    if isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats:  # noqa: SLF001
        yield "running statistics carry data of all examples past the clipping; set track_running_stats=False"
    if hasattr(module, "_orig_mod") or module._compiled_call_impl is not None:  # noqa: SLF001 - torch.compile's two marks
        yield "it is compiled, and compiled code goes round the recording; clip the module that was compiled"
    if isinstance(module, torch.jit.ScriptModule):
        yield "it is a TorchScript module, whose operations cannot be recorded; use the Python module"
    if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        yield "it averages or replicates gradients by itself; clip the wrapped module and sum the results yourself"
    if not any(p.requires_grad for p in module.parameters(recurse=False)):
        return
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        yield from _table_reasons(module)


def _table_reasons(module: nn.Embedding | nn.EmbeddingBag) -> Iterator[str]:
    if module.max_norm is not None:
        yield "max_norm rewrites rows during the forward pass, outside the clipped gradient; use max_norm=None"
    if module.scale_grad_by_freq:
        yield "scale_grad_by_freq divides by counts over the whole batch, which couples examples; set it to False"
    if isinstance(module, nn.EmbeddingBag):
        yield "bags have no rule; use Embedding and sum"


def _odd(parameter: nn.Parameter) -> Iterator[str]:
    if not parameter.requires_grad:
        return
    if type(parameter) is not nn.Parameter:
        yield f"its class {type(parameter).__name__} is unknown here; only plain torch.nn.Parameter can be clipped"
    elif not parameter.is_floating_point():
        yield f"its type {parameter.dtype} is not real floating point"


def refuse_stray(names: list[str]) -> None:
    """Raises :class:`ClippingError` if gradients of the parameters ``names`` went round the recording."""
    if names:
        raise ClippingError(
            f"the gradient of {', '.join(map(repr, names))} went round the recording: the parameter was used outside "
            "of the model's forward pass, or by a custom autograd function; its per-example gradients are unknown"
        )


def checked_losses(losses: Tensor) -> Tensor:
    """``losses`` itself when it is a vector of one loss for each example; otherwise an error that says what to do."""
    if not isinstance(losses, Tensor) or not losses.is_floating_point():
        raise TypeError(f"backward: expected a floating-point tensor of per-example losses, got {_described(losses)}")
    if losses.ndim == 0:
        raise ClippingError(
            "backward: expected per-example losses of shape (B,), got a scalar. A mean over all tokens or examples of "
            "a batch, as transformers models return it, mixes examples: each one's weight depends on the others, and "
            "no per-example norm bounds its influence. Compute one loss per example (reduction='none', then average "
            "over each example's own tokens)"
        )
    if losses.ndim != 1:
        raise ClippingError(f"backward: expected per-example losses of shape (B,), got {tuple(losses.shape)}")
    return losses


def _described(value: object) -> str:
    return f"a tensor of {value.dtype}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
