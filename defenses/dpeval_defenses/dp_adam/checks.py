"""What the settings of DP-Adam must be, whatever the data; what decides ε is checked in ``accounting``.

>>> from dpeval_defenses.dp_adam.defense import DPAdam
>>> DPAdam(warmup=2.0)
Traceback (most recent call last):
    ...
ValueError: dp-adam: expected warmup from 0 to 1, a share of the steps, got 2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpeval_defenses.dp_adam.template import parse_template

if TYPE_CHECKING:
    from dpeval_defenses.dp_adam.defense import DPAdam


def check_settings(defense: DPAdam) -> None:
    """ValueError for the first setting that makes no sense."""
    _check_numbers(defense)
    _check_objective(defense)


def _check_numbers(defense: DPAdam) -> None:
    """The rest of the numbers are checked where they are used."""
    for name in ("lora_rank", "prefix_length", "rgp_rank", "batch_size", "micro_batch", "epochs"):
        if getattr(defense, name) < 1:
            raise ValueError(f"dp-adam: expected {name} >= 1, got {getattr(defense, name)}")
    for name in ("clip", "learning_rate", "head_learning_rate"):
        value = getattr(defense, name)
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"dp-adam: expected {name} > 0, got {value}")
    if not 0 <= defense.weight_decay < float("inf"):
        raise ValueError(f"dp-adam: expected weight_decay >= 0, got {defense.weight_decay}")
    if not 0 <= defense.warmup <= 1:
        raise ValueError(f"dp-adam: expected warmup from 0 to 1, a share of the steps, got {defense.warmup}")


def _check_objective(defense: DPAdam) -> None:
    if defense.objective == "head" and (defense.template is not None or defense.label_words):
        raise ValueError("dp-adam: template and label_words belong to objective = 'infilling'")
    if defense.template is not None:
        parse_template(defense.template)
    if len(set(defense.label_words)) != len(defense.label_words):
        raise ValueError(f"dp-adam: expected a word of its own for each class, got {', '.join(defense.label_words)}")
