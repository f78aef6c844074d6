"""Squared norms from factors equal those of the gradients built from them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dpeval_defenses.dp_adam.clipping import norms
from dpeval_defenses.dp_adam.clipping.records import Dense, Outer, Record, Rows, squared_norms, total_squared_norms

sizes = st.integers(1, 9)


def built(record: Record, i: int, shape: tuple[int, ...]) -> Tensor:
    """The gradient of example i, by definition."""
    out = torch.zeros(shape, dtype=torch.float64)
    if isinstance(record, Dense):
        return record.grad[i]
    if isinstance(record, Outer):
        product = sum(torch.outer(g, a) for g, a in zip(record.grad[i], record.data[i], strict=True))
        assert isinstance(product, Tensor)
        return product.T if record.transposed else product
    for row, g in zip(record.ids[i], record.grad[i], strict=True):
        out[row] += g
    return out


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=60, deadline=None)
@given(sizes, sizes, sizes, sizes, st.integers(0, 10**6))
def test_every_form_of_the_norm_agrees(examples: int, steps: int, p: int, d: int, seed: int) -> None:
    """Ghost, built, and whichever is chosen."""
    left, right = draw(seed, examples, steps, p), draw(seed + 1, examples, steps, d)
    expected = torch.stack([(a.T @ b).square().sum() for a, b in zip(left, right, strict=True)])
    for found in (
        norms.outer_squared_norms(left, right),
        norms.ghost_squared_norms(right, [left]),
        norms.built_squared_norms(left, right),
    ):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("steps", [255, 256, 257, 600])
@pytest.mark.parametrize("buffer", [1, 10**5, 10**9])
def test_long_sequences_in_blocks(steps: int, buffer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Halving by symmetry and taking few examples at a time change nothing."""
    monkeypatch.setattr(norms, "BUFFER", buffer)
    data, grads = draw(0, 3, steps, 5), [draw(1, 3, steps, 4), draw(2, 3, steps, 7)]
    expected = sum((g.mT @ data).square().sum((1, 2)) for g in grads)
    torch.testing.assert_close(norms.ghost_squared_norms(data, grads), expected)


def kinds(shape: tuple[int, int], seed: int) -> list[Record]:
    rows, columns = shape
    ids = torch.randint(0, rows, (3, 6), generator=torch.Generator().manual_seed(seed))
    return [
        Outer(draw(seed, 3, 4, columns), draw(seed + 1, 3, 4, rows)),
        Outer(draw(seed + 2, 3, 5, rows), draw(seed + 3, 3, 5, columns), transposed=True),
        Rows(ids, draw(seed + 4, 3, 6, columns), rows),
        Rows(ids[:, :2], draw(seed + 5, 3, 2, columns), rows),
        Dense(draw(seed + 6, 3, rows, columns)),
        Dense(draw(seed + 7, 3, rows, columns)),
    ]


@pytest.mark.parametrize("used", range(1, 64))
def test_several_uses_of_one_parameter_have_all_their_cross_terms(used: int) -> None:
    """Every combination of kinds of use."""
    records = [r for k, r in enumerate(kinds((7, 5), 10)) if used >> k & 1]
    expected = torch.stack([sum(built(r, i, (7, 5)) for r in records).square().sum() for i in range(3)])  # type: ignore[union-attr]
    torch.testing.assert_close(squared_norms(records, torch.Size((7, 5))), expected)


@pytest.mark.parametrize("k", range(6))
def test_sums_and_single_examples_follow_the_definition(k: int) -> None:
    """Σ w_i G_i, G_i, and the record of some examples alone."""
    record, weights = kinds((7, 5), 20)[k], torch.tensor([0.5, 0.0, 2.0])
    total = torch.zeros(7, 5, dtype=torch.float64)
    record.add_sum(weights, total)
    torch.testing.assert_close(total, sum(w * built(record, i, (7, 5)) for i, w in enumerate(weights)))
    one = torch.zeros(7, 5, dtype=torch.float64)
    record.add_example(2, one)
    torch.testing.assert_close(one, built(record, 2, (7, 5)))
    few = record.take(torch.tensor([False, True, True]))
    torch.testing.assert_close(built(few, 1, (7, 5)), built(record, 2, (7, 5)))


def test_matrices_applied_to_the_same_rows_share_their_gram_matrix() -> None:
    """The total is the sum of each matrix's own."""
    data = draw(0, 3, 4, 50)
    records = [Outer(data, draw(k, 3, 4, 60)) for k in range(1, 4)]
    uses: dict[nn.Parameter, list[Record]] = {nn.Parameter(torch.zeros(60, 50)): [r] for r in records}
    expected = sum(squared_norms([r], torch.Size((60, 50))) for r in records)
    torch.testing.assert_close(total_squared_norms(uses, 3), expected)


def test_half_precision_factors_are_widened_first() -> None:
    """A norm of bfloat16 factors is that of the same numbers in float32."""
    left, right = torch.randn(2, 5, 4).bfloat16(), torch.randn(2, 5, 3).bfloat16()
    expected = norms.outer_squared_norms(left.float(), right.float())
    found = squared_norms([Outer(right, left)], torch.Size((4, 3)))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected)
