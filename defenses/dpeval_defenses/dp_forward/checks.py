"""Settings of DP-Forward that cannot be, or not together, found before anything is trained.

>>> from dpeval_defenses.dp_forward import DPForward
>>> DPForward(mechanism="classic", epsilon=8.0)
Traceback (most recent call last):
...
ValueError: mechanism = "classic": expected epsilon < 1, where its theorem holds, got 8.0; use "analytic", or \
paper_compat = true for the published baseline, which then claims no more than its noise gives
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, get_args, get_origin, get_type_hints

from dpeval.privacy.labels import top_labels
from dpeval_defenses.dp_forward.matrix import check_scales

if TYPE_CHECKING:
    from dpeval_defenses.dp_forward.defense import DPForward


def check_settings(defense: DPForward) -> None:
    """Raise ValueError, with what was expected, for settings that make no sense."""
    _choices(defense)
    _numbers(defense)
    _level(defense)
    _mechanism(defense)
    _labels(defense)


def _choices(d: DPForward) -> None:
    """A word that is none of a setting's words; the config check finds it too, Python code alone does not."""
    for name, hint in get_type_hints(type(d)).items():
        if get_origin(hint) is Literal and getattr(d, name) not in get_args(hint):
            raise ValueError(f"{name}: expected one of {', '.join(get_args(hint))}, got {getattr(d, name)!r}")
    if isinstance(d.inference, str) and d.inference not in ("same", "none"):
        raise ValueError(f'inference: expected "same", "none" or an epsilon > 0, got {d.inference!r}')


def _numbers(d: DPForward) -> None:
    if not 0 < d.epsilon < math.inf or not 0 < d.clip < math.inf:
        raise ValueError(f"expected finite epsilon > 0 and clip > 0, got {d.epsilon} and {d.clip}")
    if d.delta is not None and not 0 < d.delta < 1:
        raise ValueError(f"delta: expected a number between 0 and 1, got {d.delta}")
    if d.layers_before is not None and not (d.layers_before >= 0 and d.training == "trained"):
        got = f"{d.layers_before} with training = {d.training!r}"
        raise ValueError(f'layers_before: expected 0 or more with training = "trained", got {got}')
    if d.reduce_to is not None and (d.reduce_to < 1 or d.level == "token-attention"):
        got = f"{d.reduce_to} with level = {d.level!r}"
        raise ValueError(f'reduce_to: expected 1 or more, and no level = "token-attention", got {got}')
    if not isinstance(d.inference, str) and not 0 < d.inference < math.inf:
        raise ValueError(f'inference: expected "same", "none" or an epsilon > 0, got {d.inference}')


def _level(d: DPForward) -> None:
    if d.level != "token-attention":
        return
    if d.position != "encoder.0.qkv":
        raise ValueError(
            'level = "token-attention": expected position = "encoder.0.qkv" (queries, keys and values of the first '
            f"attention), got {d.position!r}"
        )
    if d.paper_compat or d.mechanism == "mvg":
        what = "paper_compat" if d.paper_compat else 'mechanism = "mvg"'
        raise ValueError(f'level = "token-attention": expected no {what}: nothing was published for it')


def _mechanism(d: DPForward) -> None:
    if d.mechanism == "classic" and not d.paper_compat:
        for name, epsilon in (("epsilon", d.epsilon), ("inference", d.inference)):
            if not isinstance(epsilon, str) and epsilon >= 1:
                raise ValueError(
                    f'mechanism = "classic": expected {name} < 1, where its theorem holds, got {epsilon}; use '
                    '"analytic", or paper_compat = true for the published baseline, which then claims no more than its '
                    "noise gives"
                )
    for name in ("row_scales", "column_scales"):
        check_scales(name, getattr(d, name))
        if d.mechanism != "matrix" and tuple(getattr(d, name)) != (1.0,):
            raise ValueError(f'{name}: expected mechanism = "matrix" with it, got {d.mechanism!r}')


def _labels(d: DPForward) -> None:
    if d.label_epsilon is not None and not 0 <= d.label_epsilon < math.inf:
        raise ValueError(f"label_epsilon: expected a finite number >= 0, got {d.label_epsilon}")
    if d.label_epsilon is None and (d.label_prior or d.label_mechanism != "rr"):
        raise ValueError("label_mechanism and label_prior: expected label_epsilon with them, got none")
    if (d.label_mechanism == "prior") != bool(d.label_prior):
        raise ValueError(
            "label_prior: expected the probability of each label, known from elsewhere, with label_mechanism = "
            f'"prior" and only then, got {list(d.label_prior)} with {d.label_mechanism!r}'
        )
    if d.label_prior:
        top_labels(d.label_epsilon or 0.0, d.label_prior)  # refuses what are no probabilities
