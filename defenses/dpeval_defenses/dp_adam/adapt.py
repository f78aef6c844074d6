"""Which parameters train: all, small adapters, biases, the last layers, or the head alone. A new head always trains.

With few trained parameters the noise of DP-SGD, whose norm grows with the square root of their number, hurts less.

>>> parse_adapt("last-2")
Adapt(kind='last', layers=2)
>>> parse_adapt("heads")
Traceback (most recent call last):
    ...
ValueError: adapt: unknown 'heads'; did you mean 'head'? Known: bitfit, full, head, last-1, last-2, lora, prefix, rgp
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from dpeval.errors import ModelError, near_miss
from dpeval.models.classifier import TextClassifier
from dpeval.models.layout import Layout
from dpeval_defenses.dp_adam.masked import MaskedClassifier
from dpeval_defenses.dp_adam.prefix import add_prefix
from dpeval_defenses.dp_adam.rgp import LowRankCarrier, add_low_rank, remove_low_rank

Kind = Literal["full", "lora", "prefix", "bitfit", "last", "head", "rgp"]
_SIMPLE: tuple[Kind, ...] = ("full", "lora", "prefix", "bitfit", "head", "rgp")
_NAMES = (*_SIMPLE, "last-1", "last-2")


@dataclass(frozen=True)
class Adapt:
    """A way to adapt; ``layers`` counts the layers that train with ``last``."""

    kind: Kind
    layers: int = 0


def parse_adapt(text: str) -> Adapt:
    """The way that ``text`` names; ValueError with the nearest names."""
    for kind in _SIMPLE:
        if text == kind:
            return Adapt(kind)
    last = re.fullmatch(r"last-([1-9]\d*)", text)
    if last:
        return Adapt("last", int(last[1]))
    raise ValueError(f"adapt: unknown {text!r}; {near_miss(text, _NAMES)}")


@dataclass(frozen=True)
class Adapted:
    """A classifier made ready: :attr:`trained` names what trains; call :meth:`finish` when training is done."""

    trained: tuple[str, ...]
    trained_parameters: int
    finish: Callable[[], None]
    """Merges adapters into the weights and makes nothing trainable; the modules are then the public ones again."""
    carrier: LowRankCarrier | None = None
    """With ``rgp``: what turns the trained parameters' gradients into those of the weights that the optimizer moves."""


Preparation = tuple[Callable[[], None], LowRankCarrier | None]


def _nothing() -> None:
    """Nothing to merge."""


def adapt_classifier(
    classifier: TextClassifier,
    how: Adapt,
    *,
    rank: int,
    prefix_length: int,
    generator: torch.Generator,
    rgp_rank: int = 1,
) -> Adapted:
    """Freeze all of ``classifier`` but what ``how`` names and its head; adapters start from ``generator``.

    Raises ModelError when the model has no such part.
    """
    classifier.requires_grad_(requires_grad=False)
    merge, carrier = _prepare(classifier, how, rank if how.kind == "lora" else rgp_rank, prefix_length, generator)
    _train_head(classifier, how)
    trained = {name: p for name, p in classifier.named_parameters() if p.requires_grad}

    def finish() -> None:
        merge()
        classifier.requires_grad_(requires_grad=False)

    return Adapted(tuple(trained), sum(p.numel() for p in trained.values()), finish, carrier)


def _prepare(
    classifier: TextClassifier, how: Adapt, rank: int, prefix_length: int, generator: torch.Generator
) -> Preparation:
    match how.kind:
        case "full":
            classifier.requires_grad_()
        case "bitfit":
            _train_biases(classifier.encoder)
        case "last":
            _train_last(classifier.encoder, how.layers)
        case "lora":
            return _add_lora(classifier, rank, generator), None
        case "prefix":
            add_prefix(classifier, prefix_length, generator)
        case "rgp":
            carrier = add_low_rank(classifier, stack_of(classifier.encoder), rank, generator.initial_seed())
            return functools.partial(remove_low_rank, classifier), carrier
        case "head":
            pass
    return _nothing, None


def _train_head(classifier: TextClassifier, how: Adapt) -> None:
    """A new head always trains. A masked-LM head is pretrained: it trains where that is asked for, but never (beside
    ``full``) the table that it shares with the encoder's input; adapters leave it alone."""
    if not isinstance(classifier, MaskedClassifier):
        classifier.head.requires_grad_()
    elif how.kind in {"full", "last", "head", "bitfit"}:
        for name, p in classifier.own_head().items():
            p.requires_grad = how.kind != "bitfit" or name.rpartition(".")[2] == "bias"


def _train_biases(encoder: nn.Module) -> None:
    """BitFit (Ben Zaken et al. 2022): every bias, those of the norms included."""
    biases = [p for name, p in encoder.named_parameters() if name.rpartition(".")[2] == "bias"]
    if not biases:
        raise ModelError(f"adapt = 'bitfit': {type(encoder).__name__} has no bias; use 'lora', 'last-1' or 'head'")
    for p in biases:
        p.requires_grad = True


def _train_last(encoder: nn.Module, count: int) -> None:
    layers = stack_of(encoder)
    if count > len(layers):
        raise ModelError(
            f"adapt = 'last-{count}': {type(encoder).__name__} has {len(layers)} layers; "
            f"use at most 'last-{len(layers)}'"
        )
    for layer in list(layers)[-count:]:
        layer.requires_grad_()


def stack_of(encoder: nn.Module) -> nn.ModuleList:
    """The encoder's layers; for an architecture that the layouts do not know, its longest list of modules."""
    known = Layout.of(encoder).layers
    lists = [m for m in encoder.modules() if isinstance(m, nn.ModuleList)]
    found = known if len(known) else max(lists, key=len, default=nn.ModuleList())
    if not len(found):
        raise ModelError(f"adapt = 'last-K': {type(encoder).__name__} has no list of layers; use 'head' or 'full'")
    return found


def lora_targets(model_type: str) -> list[str] | str:
    """The attention projections that peft adapts by default in this architecture; ModelError where it has none."""
    from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN

    more = {"distilbert": ["q_lin", "v_lin"], "mpnet": ["q", "v"], "albert": ["query", "value"]}
    targets: list[str] | str | None = KNOWN.get(model_type) or more.get(model_type)
    if targets is None:
        raise ModelError(
            f"adapt = 'lora': no attention projections are known for {model_type!r}; use 'bitfit' or 'last-1'"
        )
    return targets


def _add_lora(classifier: TextClassifier, rank: int, generator: torch.Generator) -> Callable[[], None]:
    """LoRA (Hu et al. 2022) of rank ``rank`` and scale 1 on queries and values, by peft; returns the merging."""
    from peft import LoraConfig, LoraModel

    encoder: Any = classifier.encoder
    settings = LoraConfig(
        r=rank, lora_alpha=rank, lora_dropout=0.0, target_modules=lora_targets(encoder.config.model_type)
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed())
        adapters = LoraModel(encoder, settings, "default")
    if not any("lora_" in name for name, _ in encoder.named_parameters()):
        raise ModelError(f"adapt = 'lora': {settings.target_modules} are no modules of {type(encoder).__name__}")

    def merge() -> None:
        classifier.encoder = adapters.merge_and_unload()

    return merge
