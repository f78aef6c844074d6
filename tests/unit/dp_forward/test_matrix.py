"""Matrix noise in a release: its law, its condition, and that nothing but the text decides a draw."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from dpeval.context import RunContext
from dpeval.models.transform import from_json, to_json
from dpeval.plugin import Task
from dpeval_defenses.dp_forward import DPForward
from dpeval_defenses.dp_forward.accounting import Shape, plan_noise
from dpeval_defenses.dp_forward.matrix import MatrixRelease, check_condition, orthogonal


@pytest.mark.parametrize("basis", ["axes", "random"])
def test_the_noise_has_the_covariance_of_its_factors(basis):
    """Cov(vec Z) = UUᵀ ⊗ VVᵀ, estimated from draws."""
    release = MatrixRelease(1.0, 0.5, row_scales=(1.0, 3.0), column_scales=(2.0, 1.0, 4.0), basis=basis, basis_seed=3)
    count = 40_000
    generator = torch.Generator().manual_seed(0)
    draws = release.noised(torch.zeros(count, 2, 3), [generator] * count).flatten(1).double().numpy()
    factors = release.factors(2, 3)
    expected = np.kron(factors.left @ factors.left.T, factors.right @ factors.right.T)
    spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs((np.cov(draws.T) - expected) / spread).max() < 5 * math.sqrt(2 / count)
    assert np.abs(draws.mean(0) / np.sqrt(np.diag(expected))).max() < 5 / math.sqrt(count)


@pytest.mark.parametrize("basis", ["axes", "random"])
@pytest.mark.parametrize(("rows", "width"), [(1, 5), (3, 4), (7, 2)])
def test_the_weakest_direction_is_as_strong_as_planned(basis, rows, width):
    """σ_min(U)·σ_min(V) computed from the factors, for patterns longer and shorter than the matrix."""
    plan = plan_noise(epsilon=2.0, delta=1e-5, clip=1.0, releases=3)
    release = MatrixRelease(1.0, plan.sigma, row_scales=(4.0, 1.0, 2.0), column_scales=(3.0, 0.5), basis=basis)
    left, right = release.factors(rows, width).singular_values()
    assert left.min() * right.min() >= plan.sigma * (1 - 1e-12)
    check_condition(release, plan, Shape(rows=rows, width=width, norm=1.0))


def test_noise_that_is_too_weak_is_refused():
    plan = plan_noise(epsilon=2.0, delta=1e-5, clip=1.0, releases=1)
    weak = MatrixRelease(1.0, plan.sigma * 0.999, row_scales=(1.0, 2.0))
    with pytest.raises(ValueError, match="needs"):
        check_condition(weak, plan, Shape(rows=2, width=2, norm=1.0))


def test_bases_are_orthogonal_and_seeded():
    one, again, other = orthogonal(6, 0, 0), orthogonal(6, 0, 0), orthogonal(6, 1, 0)
    assert np.allclose(one @ one.T, np.eye(6), atol=1e-12)
    assert np.array_equal(one, again)
    assert not np.allclose(one, other)
    assert not np.allclose(one, orthogonal(6, 0, 1))


def test_a_stored_release_draws_the_same():
    release = MatrixRelease(1.0, 0.5, rows=True, row_scales=(1.0, 2.0), basis="random", basis_seed=4)
    again = from_json(json.loads(json.dumps(to_json(release))))
    assert again == release
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    one, two = (r.apply(x, [torch.Generator().manual_seed(i) for i in (1, 2)]) for r in (release, again))
    assert torch.equal(one, two)
    alone = release.apply(x[1:], [torch.Generator().manual_seed(2)])
    assert torch.equal(alone[0], one[1])


def test_the_noise_is_a_constant_of_the_gradient():
    x = torch.randn(1, 2, 3, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    release = MatrixRelease(1.0, 5.0, row_scales=(1.0, 2.0))
    plain = torch.autograd.grad(release.bound(x)[0, 0, 0], x)[0]
    noisy = torch.autograd.grad(release.apply(x, [torch.Generator().manual_seed(1)])[0, 0, 0], x)[0]
    assert torch.equal(plain, noisy)


def test_a_matrix_defense_claims_the_epsilon_asked_for(checkpoint_of, records_of):
    defense = DPForward(
        mechanism="matrix", epsilon=3.0, row_scales=(1.0, 2.0), basis="random", position="embedding", epochs=1
    )
    claim = defense.train(Task(records_of(["a good day", "a bad day"]), 2, checkpoint_of("bert")), RunContext(0)).claim
    assert claim.epsilon == pytest.approx(3.0, rel=1e-6)
    assert "weakest direction" in claim.mechanism


@pytest.mark.parametrize(
    "wrong",
    [
        {"mechanism": "matrix", "row_scales": (1.0, 0.0)},
        {"mechanism": "matrix", "column_scales": ()},
        {"row_scales": (1.0, 2.0)},
        {"mechanism": "classic", "epsilon": 1.0},
        {"mechanism": "classic", "epsilon": 0.5, "inference": 2.0},
    ],
)
def test_mechanisms_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        DPForward(**wrong)
