"""Clipping in use: dropout, checkpointing, autocast, adapters, frozen parts, micro-batches, odd gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import peft
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpeval_defenses.dp_adam.clipping import ClippedGradients, ClippingError

Errors = Callable[..., tuple[float, float]]
Task = tuple[nn.Module, Callable[[], Tensor]]
MODES = ("book-keeping", "two-pass", "per-layer")


@pytest.fixture
def task(zoo: SimpleNamespace) -> Callable[..., Task]:
    """``task(name)``: a named model and a function that runs it to per-example losses."""

    def make(name: str, prepare: Callable[[nn.Module], nn.Module] = lambda m: m) -> Task:
        model, inputs = prepare(zoo.build(name, "sdpa")), zoo.batch(name, 4, 6)
        labels = zoo.targets(name, inputs)
        return model, lambda: zoo.losses(model(**inputs).logits, labels)

    return make


@pytest.mark.parametrize("name", ["bert-cls", "gpt2-lm", "t5-lm", "deberta-v2-cls"])
@pytest.mark.parametrize("mode", MODES)
def test_dropout_stays_on(name: str, mode: str, task: Callable[..., Task], errors: Errors) -> None:
    """Norms and sum belong to the masks that were drawn, in every mode."""
    assert max(errors(*task(name, nn.Module.train), mode)) < 1e-10


@pytest.mark.parametrize("name", ["bert-cls", "gpt2-lm", "t5-lm", "deberta-v2-cls", "llama-lm", "opt-lm"])
@pytest.mark.parametrize("mode", MODES)
def test_gradient_checkpointing(name: str, mode: str, task: Callable[..., Task], errors: Errors) -> None:
    """Recomputed layers are counted once."""

    def prepare(model: Any) -> nn.Module:
        model.activation_checkpointing_enable({"use_reentrant": False})
        model.config.use_cache = False
        model.train()
        return without_dropout(model)

    assert max(errors(*task(name, prepare), mode)) < 1e-10


@pytest.mark.filterwarnings("ignore:.*requires_grad=True")
@pytest.mark.parametrize("name", ["bert-cls", "gpt2-lm", "llama-lm"])
def test_reentrant_gradient_checkpointing(name: str, task: Callable[..., Task], zoo: SimpleNamespace) -> None:
    """The old kind of checkpointing gives the same as none."""
    model, losses = task(name, lambda m: without_dropout(m.train()))
    clip = ClippedGradients(model, 0.5)
    norms = clip.backward(losses())
    plain = {n: p.grad for n, p in model.named_parameters()}
    model.zero_grad()
    model.activation_checkpointing_enable({"use_reentrant": True})  # type: ignore[operator]
    model.config.use_cache = False  # type: ignore[union-attr]
    torch.testing.assert_close(clip.backward(losses()), norms)
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, plain[name])


@pytest.mark.filterwarnings("ignore:.*requires_grad=True")
def test_reentrant_checkpointing_of_shared_positions_is_refused(task: Callable[..., Task]) -> None:
    """T5 hands its position bias through the checkpoint, where it cannot be followed."""
    model, losses = task("t5-lm", lambda m: without_dropout(m.train()))
    model.activation_checkpointing_enable({"use_reentrant": True})  # type: ignore[operator]
    model.config.use_cache = False  # type: ignore[union-attr]
    clip = ClippedGradients(model, 0.5)
    with pytest.raises(ClippingError, match="use_reentrant=False"):
        clip.backward(losses())


@pytest.mark.parametrize("name", ["bert-cls", "gpt2-lm", "llama-lm-tied", "t5-lm"])
@pytest.mark.parametrize("mode", MODES)
def test_bfloat16_autocast(name: str, mode: str, zoo: SimpleNamespace, oracle: SimpleNamespace) -> None:
    """Norms are float32; they and the sum agree with brute force under autocast up to bfloat16 rounding."""
    model, inputs = zoo.build(name).float(), zoo.batch(name, 4, 6)
    labels = zoo.targets(name, inputs)

    def losses() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return zoo.losses(model(**inputs).logits.float(), labels)

    bound = 1e9 if mode == "per-layer" else 0.5
    norms, expected = oracle.each_loss(model, losses(), bound)
    clip = ClippedGradients(model, bound, mode)  # type: ignore[arg-type]
    found = clip.backward(losses())
    assert found.dtype == torch.float32
    assert max(oracle.compare(model, found, norms, expected)) < 1e-2


def test_a_clipped_gradient_under_autocast_keeps_the_bound(zoo: SimpleNamespace) -> None:
    """The bound holds for the sum as it is, to float32 rounding, although the pass was in bfloat16."""
    model, inputs = zoo.build("bert-cls").float(), zoo.batch("bert-cls", 1, 6)
    clip = ClippedGradients(model, 0.01)
    with torch.autocast("cpu", torch.bfloat16):
        losses = model(**inputs).logits[:, 0].float()
    assert clip.backward(losses) > 0.01
    assert length(model) == pytest.approx(0.01, rel=1e-5)


def test_half_precision_weights(zoo: SimpleNamespace) -> None:
    """A bfloat16 model has float32 norms and bfloat16 gradients."""
    model, inputs = zoo.build("bert-cls").bfloat16(), zoo.batch("bert-cls")
    clip = ClippedGradients(model, 0.5)
    assert clip.backward(model(**inputs).logits[:, 0]).dtype == torch.float32
    assert {p.grad.dtype for p in model.parameters() if p.grad is not None} == {torch.bfloat16}


ADAPTERS = {
    "lora-bert": ("bert-cls", peft.LoraConfig(task_type="SEQ_CLS", r=3, target_modules=["query", "value"])),
    "lora-gpt2": (
        "gpt2-lm",
        peft.LoraConfig(task_type="CAUSAL_LM", r=3, target_modules=["c_attn"], fan_in_fan_out=True),
    ),
    "lora-table": ("llama-lm", peft.LoraConfig(task_type="CAUSAL_LM", r=3, target_modules=["q_proj", "embed_tokens"])),
    "dora": ("llama-lm", peft.LoraConfig(task_type="CAUSAL_LM", r=3, target_modules=["q_proj"], use_dora=True)),
    "prefix": ("gpt2-lm", peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)),
    "prefix-projected": (
        "gpt2-lm",
        peft.PrefixTuningConfig(
            task_type="CAUSAL_LM", num_virtual_tokens=4, prefix_projection=True, encoder_hidden_size=5
        ),
    ),
    "ia3": (
        "llama-lm",
        peft.IA3Config(
            task_type="CAUSAL_LM", target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]
        ),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ADAPTERS)
@pytest.mark.parametrize("mode", MODES)
def test_adapters(kind: str, mode: str, task: Callable[..., Task], errors: Errors) -> None:
    """LoRA and its kin, prefixes and IA3 through peft."""
    name, config = ADAPTERS[kind]

    def prepare(model: Any) -> nn.Module:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adapted = peft.get_peft_model(model, config).double()
        with torch.no_grad():
            for p in adapted.parameters():
                if p.requires_grad:
                    p.add_(torch.randn_like(p) * 0.2)
        return adapted

    assert max(errors(*task(name, prepare), mode)) < 1e-10


@pytest.mark.parametrize("trained", ["bias", "layer.1", "classifier", "LayerNorm"])
def test_frozen_parts(trained: str, task: Callable[..., Task], errors: Errors) -> None:
    """BitFit, the last layer, the head alone, norms alone: the rest gets no gradient and does not count."""

    def prepare(model: nn.Module) -> nn.Module:
        for name, p in model.named_parameters():
            p.requires_grad_(trained in name)
        return model

    assert max(errors(*task("bert-cls", prepare))) < 1e-10


def test_frozen_parts_cost_nothing(task: Callable[..., Task]) -> None:
    """Only what is trained is recorded: biases alone keep no input of any layer."""

    def prepare(model: nn.Module) -> nn.Module:
        for name, p in model.named_parameters():
            p.requires_grad_("classifier" in name)
        return model

    model, losses = task("bert-cls", prepare)
    clip = ClippedGradients(model, 0.5)
    value = losses()
    assert sum(1 for node in nodes(value) if hasattr(node, "site")) == 1
    clip.backward(value)


@pytest.mark.parametrize("mode", MODES)
def test_two_backward_calls_before_a_step_add_up(mode: str, task: Callable[..., Task]) -> None:
    """Micro-batches: the second call adds to the gradients of the first."""
    model, losses = task("bert-cls")
    clip = ClippedGradients(model, 0.5, mode)  # type: ignore[arg-type]
    clip.backward(losses())
    once = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    clip.backward(losses())
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, 2 * once[name])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e300])
def test_an_example_that_is_not_finite_contributes_nothing_and_is_counted(
    mode: str, bad: float, task: Callable[..., Task]
) -> None:
    """The sum is that of the others; its norm is returned as not finite."""
    model, losses = task("bert-cls")
    clip = ClippedGradients(model, 0.5, mode)  # type: ignore[arg-type]
    clip.backward(losses() * torch.tensor([1.0, 0.0, 1.0, 1.0]))
    others = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad()
    norms = clip.backward(losses() * torch.tensor([1.0, bad, 1.0, 1.0]))
    assert norms.isfinite().tolist() == [True, False, True, True]
    assert clip.nonfinite == 1
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, others[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_a_poisoned_input_stays_with_its_example(mode: str) -> None:
    """A NaN in one example's features reaches no other example's gradient."""
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1))
    features = torch.randn(3, 5, 3)
    clip = ClippedGradients(model, 0.5, mode)  # type: ignore[arg-type]
    clip.backward(model(features[[0, 2]]).mean((1, 2)))
    others = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad()
    features[1, 2, 0] = float("nan")
    clip.backward(model(features).mean((1, 2)))
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, others[name], rtol=1e-5, atol=1e-7)


def test_parameters_without_a_gradient_are_named(task: Callable[..., Task]) -> None:
    """What a loss does not reach keeps its ``.grad`` and is listed."""
    model = nn.ModuleDict({"used": nn.Linear(3, 1), "left": nn.Linear(3, 1)})
    clip = ClippedGradients(model, 0.5)
    clip.backward(model["used"](torch.randn(2, 3)).squeeze(1))
    assert clip.untouched == ("left.weight", "left.bias")
    assert model["left"].weight.grad is None


def test_a_part_called_on_its_own(zoo: SimpleNamespace, errors: Errors) -> None:
    """Encoder and head called one after the other, without the model around them."""
    model: Any = zoo.build("bert-cls")
    inputs = zoo.batch("bert-cls")

    def losses() -> Tensor:
        hidden = model.bert(**inputs).last_hidden_state[:, 0]
        return functional.cross_entropy(model.classifier(hidden), torch.tensor([0, 1, 0, 1, 1]), reduction="none")

    assert max(errors(model, losses)) < 1e-10


@pytest.mark.parametrize("bound", [1e-3, 1.0, 1e6])
def test_the_bound_is_kept_and_reached(bound: float, task: Callable[..., Task]) -> None:
    """One example alone: its clipped gradient is as long as the bound allows, and no longer."""
    model, losses = task("bert-cls")
    clip = ClippedGradients(model, bound)
    norms = clip.backward(losses() * torch.tensor([0.0, 0.0, 1.0, 0.0]))
    assert length(model) == pytest.approx(min(bound, float(norms[2])), rel=1e-12)


def test_layer_by_layer_clipping_keeps_its_total_bound(task: Callable[..., Task]) -> None:
    """Each of K groups is clipped to C/√K; together one example moves the sum by at most C, the stated sensitivity."""
    model, losses = task("bert-cls")
    clip = ClippedGradients(model, 0.01, "per-layer")
    clip.backward(losses() * torch.tensor([0.0, 0.0, 1.0, 0.0]))
    bounds = clip.bounds()
    assert clip.sensitivity == pytest.approx(0.01)
    assert length(model) <= 0.01 * (1 + 1e-9)
    for path, bound in bounds.items():
        own = length(model.get_submodule(path), recurse=False)
        assert own == pytest.approx(bound, rel=1e-9), path


def without_dropout(model: nn.Module) -> nn.Module:
    """The model in training mode with every dropout rate zero."""
    for module in model.modules():
        for name in ("p", "dropout", "attention_dropout", "dropout_rate", "layerdrop"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


def length(module: nn.Module, *, recurse: bool = True) -> float:
    """The norm of all gradients."""
    return sum(float(p.grad.double().square().sum()) for p in module.parameters(recurse) if p.grad is not None) ** 0.5


def nodes(value: Tensor) -> set[Any]:
    """All nodes of the graph behind ``value``."""
    found, stack = set(), [value.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in found:
            found.add(node)
            stack += [parent for parent, _ in node.next_functions]
    return found
