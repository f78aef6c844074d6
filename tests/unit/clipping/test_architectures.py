"""Clipping is exact for transformers as they ship: norms and clipped sums against one example at a time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from dpeval_defenses.dp_adam.clipping import ClippedGradients

NAMES = (
    "bert-cls", "bert-mlm", "bert-mlm-untied", "roberta-cls", "roberta-mlm", "distilbert-cls", "distilbert-mlm",
    "electra-cls", "albert-cls", "albert-mlm", "mpnet-cls", "mpnet-mlm", "deberta-v2-cls", "deberta-v2-unshared-cls",
    "deberta-v2-mlm", "gpt2-lm", "gpt2-lm-untied", "gpt2-cls", "opt-lm", "llama-lm", "llama-lm-tied", "llama-cls",
    "t5-lm", "t5-lm-untied",
)  # fmt: skip
BOUND = 0.5


@pytest.fixture
def measured(zoo: SimpleNamespace, oracle: SimpleNamespace) -> Callable[..., tuple[float, float]]:
    """Relative errors of norms and sum for a named model: padded batch, −100 targets, each example run alone."""

    def measure(
        name: str,
        *,
        rows: int = 4,
        steps: int = 6,
        attention: str = "sdpa",
        dtype: torch.dtype = torch.float64,
        mode: str = "book-keeping",
        bound: float = BOUND,
    ) -> tuple[float, float]:
        model, inputs = zoo.build(name, attention), zoo.batch(name, rows, steps)
        labels = zoo.targets(name, inputs)

        def one(i: int) -> torch.Tensor:
            row = {key: value[i : i + 1] for key, value in inputs.items()}
            return zoo.losses(model(**row).logits, labels[i : i + 1])[0]

        norms, expected = oracle.alone(model, rows, one, bound)
        model.to(dtype)
        clip = ClippedGradients(model, bound, mode)
        found = clip.backward(zoo.losses(model(**inputs).logits, labels))
        clip.detach()
        return oracle.compare(model, found, norms, expected)

    return measure


def test_every_architecture_of_the_zoo_is_listed(zoo: SimpleNamespace) -> None:
    """A model added to the zoo is tested."""
    assert set(NAMES) == set(zoo.BUILDERS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_norms_and_sum_are_exact_in_float64(
    name: str, attention: str, measured: Callable[..., tuple[float, float]]
) -> None:
    """Relative error below 1e-10, with padding and ignored targets."""
    assert max(measured(name, attention=attention)) < 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_norms_and_sum_are_exact_in_float32(name: str, measured: Callable[..., tuple[float, float]]) -> None:
    """Relative error below 1e-5, against brute force in float64."""
    assert max(measured(name, dtype=torch.float32)) < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_as_large_as_the_sequence_is_long(name: str, measured: Callable[..., tuple[float, float]]) -> None:
    """Sizes that coincide are not mistaken for one another (positions are shared by all examples)."""
    assert max(measured(name, rows=6, steps=6)) < 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_one(name: str, measured: Callable[..., tuple[float, float]]) -> None:
    """One example is its own batch."""
    assert max(measured(name, rows=1)) < 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_two_passes_give_the_same(name: str, measured: Callable[..., tuple[float, float]]) -> None:
    """The mode with the least memory is as exact."""
    assert max(measured(name, mode="two-pass")) < 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_layer_by_layer_has_the_same_norms(name: str, measured: Callable[..., tuple[float, float]]) -> None:
    """Unbounded, per-layer clipping is the plain sum; its norms are those of the whole gradient."""
    assert max(measured(name, mode="per-layer", bound=1e9)) < 1e-10
