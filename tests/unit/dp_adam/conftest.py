"""What the tests of DP-Adam share: a slow obvious clipping engine, and a small problem to train on."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from dpeval.models.checkpoint import load_checkpoint
from dpeval.models.config import ModelConfig
from dpeval.tiny import tiny_checkpoint, tiny_dataset
from dpeval_defenses.dp_adam.noise import SeededNoise
from dpeval_defenses.dp_adam.sampler import PoissonSampler
from dpeval_defenses.dp_adam.settings import TrainSettings
from dpeval_defenses.dp_adam.trainer import PrivateTrainer


class LoopEngine:
    """The oracle: one backward pass for each example, its whole gradient clipped, then added to ``.grad``."""

    def __init__(self, model: torch.nn.Module, max_norm: float) -> None:
        self.model, self.max_norm = model, max_norm

    def backward(self, losses: torch.Tensor) -> torch.Tensor:
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        norms = []
        for loss in losses:
            gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
            norm = torch.stack([g.square().sum() for g in gradients if g is not None]).sum().sqrt()
            norms.append(norm)
            factor = min(1.0, self.max_norm / float(norm)) if float(norm) else 1.0
            for p, g in zip(parameters, gradients, strict=True):
                if g is not None:
                    p.grad = g * factor if p.grad is None else p.grad + g * factor
        return torch.stack(norms)

    def detach(self) -> None:
        pass


@dataclass
class Problem:
    """Linear regression of ``n`` records on ``d`` features through a model that the test may replace."""

    n: int = 40
    d: int = 3
    model: torch.nn.Module = field(init=False)

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(11)
        self.features = torch.randn(self.n, self.d, generator=generator, dtype=torch.float64)
        self.targets = torch.randn(self.n, generator=generator, dtype=torch.float64)
        self.model = torch.nn.Linear(self.d, 1).double()
        with torch.no_grad():
            self.model.weight.fill_(0.5)
            self.model.bias.fill_(0.1)

    def loss(self, positions: Any) -> torch.Tensor:
        at = torch.from_numpy(positions)
        return (self.model(self.features[at])[:, 0] - self.targets[at]).square()

    def trainer(
        self, rate: float = 0.3, entropy: int = 5, noise: Any = None, engine: Any = None, **settings: Any
    ) -> PrivateTrainer:
        chosen = {"steps": 6, "max_norm": 0.5, "noise_multiplier": 1.0, "learning_rate": 0.1} | settings
        return PrivateTrainer(
            self.model,
            self.loss,
            PoissonSampler(self.n, rate, entropy),
            noise or SeededNoise(entropy + 1),
            TrainSettings(**chosen),
            engine=engine or LoopEngine,
        )


@pytest.fixture
def loop_engine() -> type[LoopEngine]:
    return LoopEngine


@pytest.fixture
def problem() -> Callable[..., Problem]:
    return Problem


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A checkpoint of two small layers, and 80 generated reviews with two labels."""
    checkpoint = tiny_checkpoint(tmp_path_factory.mktemp("tiny"), max_length=14)
    return SimpleNamespace(checkpoint=checkpoint, records=tiny_dataset().records)


@pytest.fixture(scope="session")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Checkpoints of tiny masked language models with the paper's label words, by architecture."""
    import transformers as hf

    parts = runpy.run_path(str(Path(__file__).parents[2] / "tiny_models.py"))
    words = ("it", ".", ",", "?", "terrible", "great", "no", "yes", "maybe")
    tokenizer, size = parts["bert_tokenizer"](extra=words), parts["SIZE"]
    rows = {"vocab_size": len(tokenizer), "max_position_embeddings": parts["LENGTH"]}
    models: dict[str, Callable[[], Any]] = {
        "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**rows, **size)),
        "untied": lambda: hf.BertForMaskedLM(hf.BertConfig(tie_word_embeddings=False, **rows, **size)),
        "electra": lambda: hf.ElectraForMaskedLM(hf.ElectraConfig(embedding_size=8, **rows, **size)),
        "distilbert": lambda: hf.DistilBertForMaskedLM(
            hf.DistilBertConfig(dim=16, n_layers=2, n_heads=2, hidden_dim=32, **rows)
        ),
        "head that asks the encoder": lambda: hf.DebertaV2ForMaskedLM(
            hf.DebertaV2Config(legacy=False, type_vocab_size=0, **rows, **size)
        ),
        "no head": lambda: hf.BertModel(hf.BertConfig(**rows, **size)),
    }

    def load(name: str, max_length: int = 16) -> Any:
        folder = tmp_path_factory.mktemp("masked")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = models[name]()
        parts["_lively"](model)
        save_file({k: v.clone() for k, v in model.state_dict().items()}, folder / "model.safetensors", {"format": "pt"})
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return load_checkpoint(ModelConfig(source=str(folder), max_length=max_length), Path())

    return load
