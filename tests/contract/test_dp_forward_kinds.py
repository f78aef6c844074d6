"""Every kind of DP-Forward passes the contract of a defense: nothing goes round the noise, all can be repeated."""

from __future__ import annotations

import pytest

from dpeval.testing import check_plugin
from dpeval_defenses.dp_forward import DPForward

KINDS = {
    "token": {"level": "token", "position": "embedding"},
    "token in the attention": {"level": "token-attention", "position": "encoder.0.qkv"},
    "token in the attention, trained": {
        "level": "token-attention", "position": "encoder.0.qkv", "training": "trained", "inference": 2.0,
    },
    "a whole text in the attention": {"position": "encoder.1.qkv"},
    "any matrix": {
        "mechanism": "matrix", "position": "encoder.0.ffn", "row_scales": (1.0, 3.0), "column_scales": (2.0, 1.0, 5.0),
        "basis": "random",
    },
    "public lengths": {"length_is_public": True, "position": "encoder.1.mha", "training": "frozen-fresh"},
    "as published": {"paper_compat": True, "position": "encoder.0.add_norm_2", "training": "trained"},
    "labels, shuffled": {"label_epsilon": 1.0, "shuffled": True, "epsilon": 0.5},
    "clear answers": {"inference": "none", "position": "encoder.1.ffn"},
    "mvg": {"mechanism": "mvg", "position": "output"},
    "classic": {"mechanism": "classic", "epsilon": 0.5},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_keeps_the_contract(kind):
    outcome = check_plugin(DPForward(**({"epochs": 1} | KINDS[kind])))
    assert outcome.passed, outcome.text
