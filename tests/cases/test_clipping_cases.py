"""Faults of other tools' clipping, each as reported there (bug cases C14, C16, C20, C21, C24, C26)."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpeval_defenses.dp_adam.clipping import ClippedGradients


@pytest.fixture(scope="module")
def bert_plain(case_file: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint named bert_plain, from the script that comes with the cases."""
    script, out = case_file("make_tiny_models.py"), tmp_path_factory.mktemp("bert")
    runpy.run_path(str(script))["main"](str(out))
    return out / "bert_plain"


@pytest.fixture
def model(bert_plain: Path) -> Any:
    """The classifier, in evaluation mode."""
    import transformers as hf

    return hf.AutoModelForSequenceClassification.from_pretrained(bert_plain).eval()


def encode(bert_plain: Path, texts: list[str], length: int) -> dict[str, Tensor]:
    """Token ids and mask, padded to ``length``."""
    import transformers as hf

    tokenizer = hf.AutoTokenizer.from_pretrained(bert_plain)
    return dict(tokenizer(texts, padding="max_length", max_length=length, truncation=True, return_tensors="pt"))


def losses(model: Any, inputs: dict[str, Tensor], labels: list[int]) -> Tensor:
    """Cross-entropy of each text."""
    return functional.cross_entropy(model(**inputs).logits, torch.tensor(labels), reduction="none")


def test_c14_padding_does_not_change_a_norm(model: Any, bert_plain: Path) -> None:
    """One text padded to three lengths has one norm, that of a plain backward pass; the padding row gets nothing."""
    found = {}
    for length in (5, 10, 30):
        inputs = encode(bert_plain, ["a warm day"], length)
        model.zero_grad()
        losses(model, inputs, [1])[0].backward()
        loop = sum(float(p.grad.square().sum()) for p in model.parameters()) ** 0.5
        model.zero_grad()
        clip = ClippedGradients(model, 1e6)
        found[length] = float(clip.backward(losses(model, inputs, [1])))
        clip.detach()
        assert found[length] == pytest.approx(loop, rel=1e-5)
        assert model.bert.embeddings.word_embeddings.weight.grad[0].abs().sum() == 0
    assert found == pytest.approx(dict.fromkeys(found, 0.79204), rel=1e-4)


class TwoVectors(nn.Module):
    """A model whose gradients are its input."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2] @ self.a + x[:, 2:] @ self.b


@pytest.mark.parametrize("mode", ["book-keeping", "two-pass"])
def test_c16_one_bound_over_all_parameters(mode: Any) -> None:
    """Gradients (3, 4) and (0, 12), bound 1: both divided by 13."""
    model = TwoVectors()
    clip = ClippedGradients(model, 1.0, mode)
    assert clip.backward(model(torch.tensor([[3.0, 4.0, 0.0, 12.0]]))).tolist() == [13.0]
    assert model.a.grad.tolist() == pytest.approx([3 / 13, 4 / 13])
    assert model.b.grad.tolist() == pytest.approx([0, 12 / 13])
    assert clip.sensitivity == 1.0


def test_c16_clipping_layer_by_layer_states_its_total_bound() -> None:
    """The bound that may be accounted is the one over all groups together, and it is kept."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    clip = ClippedGradients(model, 1.0, "per-layer")
    clip.backward(1e3 * model(torch.randn(1, 2)).squeeze(1))
    total = sum(float(p.grad.square().sum()) for p in model.parameters()) ** 0.5
    assert list(clip.bounds()) == ["0", "1"]
    assert total == pytest.approx(clip.sensitivity, rel=1e-6)
    assert clip.sensitivity == pytest.approx(1.0)


@pytest.mark.parametrize("mode", ["book-keeping", "two-pass", "per-layer"])
def test_c20_an_example_without_a_gradient_has_factor_one(mode: Any, model: Any, bert_plain: Path) -> None:
    """All its targets are ignored: no NaN, and the others' sum is as without it."""
    texts = ["a warm day", "cold soup", "the red car"]

    def masked(which: list[int]) -> Tensor:
        inputs = encode(bert_plain, [texts[i] for i in which], 8)
        labels = torch.tensor([[0, -100, 1][i] for i in which])
        return functional.cross_entropy(model(**inputs).logits, labels, reduction="none", ignore_index=-100)

    clip = ClippedGradients(model, 0.1, mode)
    norms = clip.backward(masked([0, 1, 2]))
    assert norms[1] == 0
    with_it = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    clip.backward(masked([0, 2]))
    for name, p in model.named_parameters():
        assert with_it[name].isfinite().all()
        torch.testing.assert_close(with_it[name], p.grad, rtol=1e-4, atol=1e-7)
    assert clip.nonfinite == 0


def test_c21_norm_and_sum_cover_what_is_trained(model: Any, bert_plain: Path) -> None:
    """Biases and classifier alone: frozen tensors get no gradient and are bit-identical after a step."""
    for name, p in model.named_parameters():
        p.requires_grad_(name.endswith("bias") or name.startswith("classifier"))
    frozen = {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}
    inputs = encode(bert_plain, ["a warm day", "cold soup"], 8)
    trained = [p for p in model.parameters() if p.requires_grad]
    loop = []
    for loss in losses(model, inputs, [0, 1]):
        grads = torch.autograd.grad(loss, trained, retain_graph=True)
        loop.append(sum(float(g.square().sum()) for g in grads) ** 0.5)
    clip = ClippedGradients(model, 0.1)
    assert clip.backward(losses(model, inputs, [0, 1])).tolist() == pytest.approx(loop, rel=1e-5)
    torch.optim.AdamW(model.parameters(), lr=0.1).step()
    for name, p in model.named_parameters():
        assert (p.grad is None) == (name in frozen)
        assert name not in frozen or torch.equal(p, frozen[name])


def test_c24_what_got_no_gradient_is_named(model: Any, bert_plain: Path) -> None:
    """Every trained tensor moves in a step, or is listed."""
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    clip = ClippedGradients(model, 0.1)
    clip.backward(losses(model, encode(bert_plain, ["a warm day"], 8), [0]))
    assert clip.untouched == ()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    still = {name for name, p in model.named_parameters() if p.grad.abs().sum() == 0}
    assert moved | still == set(before)
    assert len(moved) > len(before) // 2
    clip.backward(model.bert(**encode(bert_plain, ["a warm day"], 8)).last_hidden_state.sum((1, 2)))
    assert {"classifier.weight", "classifier.bias"} <= set(clip.untouched)


@pytest.mark.parametrize("training", [False, True])
def test_c26_evaluation_keeps_no_activations(training: bool, model: Any, bert_plain: Path) -> None:
    """300 batches between two steps: memory flat, and the next step equals that of a run without them."""
    inputs = encode(bert_plain, ["a warm day", "cold soup"], 8)
    large = {key: value.repeat(8, 2) for key, value in inputs.items()}
    clip = ClippedGradients(model, 0.1)

    def step() -> list[Tensor]:
        model.eval()
        model.zero_grad()
        clip.backward(losses(model, inputs, [0, 1]))
        return [p.grad for p in model.parameters()]

    expected = step()
    model.train(training)
    process = psutil.Process()
    for _ in range(10):
        model(**large)
    before = process.memory_info().rss
    for _ in range(290):
        model(**large)
    assert process.memory_info().rss < before * 1.05
    for a, b in zip(step(), expected, strict=True):
        assert torch.equal(a, b)
