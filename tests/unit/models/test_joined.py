"""Joined maps: the stacked matrix and its largest singular value against the textbook."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from dpeval.models.joined import largest_singular_value, side_by_side, stacked_weight


@pytest.mark.parametrize("outputs", [(3,), (4, 4, 4), (8, 2, 2), (1, 1)])
def test_the_stacked_matrix_is_the_joint_map(outputs):
    torch.manual_seed(0)
    maps = [nn.Linear(5, size) if i % 2 else Conv1D(size, 5) for i, size in enumerate(outputs)]
    x = torch.randn(2, 3, 5)
    with torch.no_grad():
        linear = side_by_side(maps, x) - side_by_side(maps, torch.zeros(2, 3, 5))
        assert torch.allclose(linear, x @ stacked_weight(maps).T, atol=1e-5)
        expected = np.linalg.svd(stacked_weight(maps).double().numpy(), compute_uv=False)[0]
    assert largest_singular_value(maps) == pytest.approx(expected, rel=1e-12)


def test_a_map_of_zeros_stretches_nothing():
    layer = nn.Linear(3, 3)
    nn.init.zeros_(layer.weight)
    assert largest_singular_value([layer]) == 0.0


def test_what_is_no_map_is_refused():
    with pytest.raises((TypeError, AttributeError)):
        stacked_weight([nn.ReLU()])
