"""The contract suite on ``none``, on every regime of ``dp-forward``, and on the example in a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpeval.testing.suite import check_plugin, check_target
from dpeval_defenses.dp_forward import DPForward
from dpeval_defenses.none import Undefended

EXAMPLE = Path(__file__).parents[2] / "examples" / "rounded_embeddings.py"


@pytest.mark.parametrize(
    "defense",
    [
        Undefended(epochs=1),
        Undefended(adapt="head"),
        DPForward(),
        DPForward(position="encoder.1.mha", training="frozen-fresh"),
        DPForward(position="encoder.0.add_norm_2", training="trained", normalise=False),
        DPForward(position="encoder.layer.0"),
    ],
    ids=lambda d: f"{type(d).__name__}-{getattr(d, 'position', '')}-{getattr(d, 'training', getattr(d, 'adapt', ''))}",
)
def test_it_keeps_the_contract(defense):
    outcome = check_plugin(defense)
    assert [(f.requirement, f.complaint) for f in outcome.findings if f.complaint] == []


def test_the_example_in_a_file_of_its_own_keeps_the_contract():
    outcome = check_target(f"{EXAMPLE}:RoundedEmbeddings")
    assert [(f.requirement, f.complaint) for f in outcome.findings if f.complaint] == []
