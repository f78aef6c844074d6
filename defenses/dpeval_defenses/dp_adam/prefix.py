"""Prefix tuning (Li and Liang 2021): trained keys and values that every layer's attention sees before the text.

The parameters are peft's; the encoder stays the public one and gets the prefix through a hook, so that named positions,
pooling and the rest of a release work as on any classifier.

>>> prefix_of(nn.Linear(1, 1)) is None
True
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from dpeval.errors import ModelError
from dpeval.models.classifier import TextClassifier, forward_names

_NAME = "prefix"
_FILE = "prefix.safetensors"


class Prefix(nn.Module):
    """``length`` trained positions for each layer: keys and values from peft's prefix encoder."""

    def __init__(self, encoder: nn.Module, length: int) -> None:
        super().__init__()
        self.hook: RemovableHandle | None = None
        from peft import PrefixEncoder, PrefixTuningConfig

        config: Any = encoder.config
        self.length, self.layers = length, int(config.num_hidden_layers)
        self.heads = int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
        width = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads) * self.heads
        self.keys_and_values = PrefixEncoder(
            PrefixTuningConfig(
                num_virtual_tokens=length, token_dim=width, num_layers=self.layers,
                num_attention_heads=self.heads, encoder_hidden_size=width,
            )
        )  # fmt: skip

    def forward(self, batch: int, device: torch.device) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of each layer, each of shape (B, heads, length, d / heads)."""
        positions = torch.arange(self.length, device=device).expand(batch, -1)
        flat = self.keys_and_values(positions).view(batch, self.length, 2 * self.layers, self.heads, -1)
        both = flat.permute(2, 0, 3, 1, 4)
        return [(both[2 * i], both[2 * i + 1]) for i in range(self.layers)]


def add_prefix(classifier: TextClassifier, length: int, generator: torch.Generator) -> None:
    """Put ``length`` trained positions before every text; ModelError where the encoder's attention takes none."""
    encoder = classifier.encoder
    problem = unfit_for_prefix(encoder)
    if problem:
        raise ModelError(problem)
    with torch.random.fork_rng(devices=[]):
        prefix = Prefix(encoder, length)
    with torch.no_grad():
        for p in prefix.parameters():
            p.normal_(0.0, 1.0, generator=generator)
    attach_prefix(classifier, prefix)


def unfit_for_prefix(encoder: nn.Module) -> str | None:
    """Why ``encoder`` cannot be given a prefix, or ``None``."""
    return (
        None
        if _argument(encoder)
        else f"adapt = 'prefix': the attention of {type(encoder).__name__} takes no prefix; use 'lora' or 'bitfit'"
    )


def _argument(encoder: nn.Module) -> str | None:
    """What the model calls the keys and values that come before; transformers renames it in 5.x."""
    return next((name for name in ("cache", "past_key_values") if name in forward_names(encoder)), None)


def attach_prefix(classifier: TextClassifier, prefix: Prefix) -> None:
    """Register ``prefix`` on ``classifier`` and have the encoder read it."""
    from transformers import DynamicCache

    argument = _argument(classifier.encoder) or ""

    def before(_encoder: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        mask = kwargs["attention_mask"]
        seen = torch.cat([mask.new_ones(len(mask), prefix.length), mask], dim=1)
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(prefix(len(mask), mask.device)):
            cache.update(keys, values, layer)
        return args, kwargs | {"attention_mask": seen, argument: cache}

    classifier.add_module(_NAME, prefix.to(classifier.device))
    prefix.hook = classifier.encoder.register_forward_pre_hook(before, with_kwargs=True)


def prefix_of(classifier: nn.Module) -> Prefix | None:
    """The prefix that ``classifier`` carries, if any."""
    found = dict(classifier.named_children()).get(_NAME)
    return found if isinstance(found, Prefix) else None


@contextlib.contextmanager
def without_prefix(classifier: TextClassifier) -> Iterator[Prefix | None]:
    """The plain classifier for the duration; yields the prefix that it gets back at the end, if it has one."""
    prefix = prefix_of(classifier)
    if prefix is None:
        yield None
        return
    if prefix.hook is not None:
        prefix.hook.remove()
    delattr(classifier, _NAME)
    try:
        yield prefix
    finally:
        attach_prefix(classifier, prefix)


def save_prefix(prefix: Prefix, folder: Path) -> None:
    """Write the prefix into ``folder``."""
    save_file({name: t.detach().cpu().contiguous() for name, t in prefix.state_dict().items()}, folder / _FILE)


def load_prefix(classifier: TextClassifier, folder: Path) -> None:
    """Put the prefix of ``folder``, if there is one, before the texts of ``classifier``."""
    if not (folder / _FILE).exists():
        return
    tensors = load_file(folder / _FILE)
    length = len(next(iter(tensors.values())))
    with torch.random.fork_rng(devices=[]):
        prefix = Prefix(classifier.encoder, length)
    prefix.load_state_dict(tensors)
    attach_prefix(classifier, prefix.eval())
