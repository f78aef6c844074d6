"""The bound and the noise of DP-Forward."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpeval_defenses.dp_forward import NoisyRelease, bounded

FINITE = st.floats(-1e4, 1e4, width=32)


@given(hnp.arrays(np.float32, (2, 5, 3), elements=FINITE), st.floats(0.01, 100), st.booleans())
def test_any_two_bounded_tensors_are_at_most_twice_the_norm_apart(values, clip, normalise):
    """The sensitivity that the noise is calibrated to, in exact arithmetic on the float32 numbers that leave."""
    one, two = bounded(torch.from_numpy(values), clip=clip, normalise=normalise).double()
    assert (one - two).norm() <= 2 * clip
    assert one.norm() <= clip


def test_normalising_reaches_the_norm_and_clipping_leaves_small_ones():
    x = torch.stack([torch.full((2, 2), 3.0), torch.full((2, 2), 0.1)])
    norms = bounded(x, clip=2.0, normalise=True).flatten(1).norm(dim=1)
    assert torch.allclose(norms, torch.tensor([2.0, 2.0]), rtol=1e-5)
    clipped = bounded(x, clip=2.0, normalise=False)
    assert torch.allclose(clipped.flatten(1).norm(dim=1), torch.tensor([2.0, 0.2]), rtol=1e-5)
    assert torch.equal(clipped[1], x[1])


@pytest.mark.parametrize("normalise", [True, False])
def test_a_zero_tensor_stays_zero_with_a_small_finite_gradient(normalise):
    x = torch.zeros(2, 3, 4)
    x[1] = 1.0
    x.requires_grad_(True)
    out = bounded(x, clip=1.0, normalise=normalise)
    assert torch.equal(out[0], torch.zeros(3, 4))
    out.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert x.grad.abs().max() <= 1.0


@pytest.mark.parametrize("normalise", [True, False])
def test_gradients_flow_through_the_bound(normalise):
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    assert torch.autograd.gradcheck(lambda t: bounded(t, clip=0.7, normalise=normalise), (x,))


def test_the_release_is_the_bounded_tensor_plus_noise_of_the_stated_size():
    x = torch.randn(40, 30, 16, generator=torch.Generator().manual_seed(0))
    release = NoisyRelease(clip=1.5, sigma=0.7)
    noise = release.apply(x, [torch.Generator().manual_seed(i) for i in range(40)]) - bounded(
        x, clip=1.5, normalise=True
    )
    n = noise.numel()
    assert abs(float(noise.mean())) < 5 * 0.7 / n**0.5
    assert abs(float(noise.std()) / 0.7 - 1) < 5 / (2 * n) ** 0.5


def test_the_noise_is_a_constant_of_the_gradient():
    x = torch.randn(1, 2, 3, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    plain = torch.autograd.grad(bounded(x, clip=1.0, normalise=True)[0, 0, 0], x)[0]
    noisy = torch.autograd.grad(NoisyRelease(1.0, 5.0).apply(x, [torch.Generator().manual_seed(1)])[0, 0, 0], x)[0]
    assert torch.equal(plain, noisy)
