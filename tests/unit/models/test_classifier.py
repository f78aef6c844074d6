"""Pooling and batching: a text's numbers do not depend on its neighbours."""

from __future__ import annotations

import pytest
import torch

from dpeval.models.classifier import Pool

ENCODERS = ["bert", "roberta", "distilbert", "electra", "mpnet", "albert", "deberta", "gpt2_no_pad"]
TEXTS = ["a warm day", " ".join(["the cold old car"] * 3), "tea"]


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_logits_do_not_depend_on_the_batch(checkpoint_of, records_of, name, pooling):
    checkpoint = checkpoint_of(name, pooling=pooling)
    classifier, texts = checkpoint.build(3, 0), checkpoint.encode(records_of(TEXTS))
    with torch.no_grad():
        together = classifier(**texts.batch([0, 1, 2]))
        alone = torch.cat([classifier(**texts.batch([i])) for i in range(3)])
        longer = classifier(**texts.batch([0, 1, 2], length=16))
    assert (together - alone).abs().max() <= 1e-5
    assert (together - longer).abs().max() <= 1e-5
    assert (alone[0] - alone[2]).abs().max() > 1e-3, "the texts must be told apart for the test to mean anything"


def test_pools_are_what_they_say():
    """Against a plain loop, with interior length and full length."""
    hidden = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
    lengths = [2, 4, 1]
    for i, n in enumerate(lengths):
        assert torch.allclose(Pool("mean")(hidden, mask)[i], sum(hidden[i, :n]) / n)
        assert torch.equal(Pool("cls")(hidden, mask)[i], hidden[i, 0])
        assert torch.equal(Pool("last")(hidden, mask)[i], hidden[i, n - 1])


def test_no_parameter_is_without_effect(checkpoint_of, records_of):
    """An unused pooler would be noised and counted by private training for nothing."""
    for name in ENCODERS:
        checkpoint = checkpoint_of(name)
        classifier = checkpoint.build(2, 0)
        classifier(**checkpoint.encode(records_of(TEXTS)).batch([0, 1])).sum().backward()
        assert [n for n, p in classifier.named_parameters() if p.grad is None] == []


def test_evaluation_batches_give_the_same_bits_in_any_company(checkpoint_of, records_of):
    checkpoint = checkpoint_of("bert")
    classifier = checkpoint.build(2, 0)
    records = records_of([" ".join(["a"] * (1 + i % 9)) + " good" for i in range(21)])

    def logits(chosen):
        out = torch.empty(len(chosen), 2)
        with torch.no_grad():
            for rows, batch in checkpoint.encode(chosen).evaluation_batches(16):
                out[rows] = classifier(**batch)[: len(rows)]
        return out

    whole = logits(records)
    for rows in ([4], [3, 17, 4], list(reversed(range(21)))):
        assert torch.equal(logits(records.take(rows)), whole[rows])
