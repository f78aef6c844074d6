"""Clipping is exact for modules as people write them: reused, tied, bare parameters, any order, any layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

D, V, K = 6, 11, 2
Errors = Callable[..., tuple[float, float]]


class Base(nn.Module):
    """An embedding, something in between, and a head."""

    def __init__(self, padding: int | None = None) -> None:
        super().__init__()
        self.table = nn.Embedding(V, D, padding_idx=padding)
        self.head = nn.Linear(D, K)
        self.make()

    def make(self) -> None:
        """Adds the modules in between."""

    def middle(self, h: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        raise NotImplementedError

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.middle(self.table(ids))).mean(1))


class LayerUsedTwice(Base):
    def make(self) -> None:
        self.layer = nn.Linear(D, D)

    def middle(self, h: Tensor) -> Tensor:
        return self.layer(torch.tanh(self.layer(h)))


class NormUsedTwice(Base):
    def make(self) -> None:
        self.norm = nn.LayerNorm(D)

    def middle(self, h: Tensor) -> Tensor:
        return self.norm(torch.tanh(self.norm(h)) + h)


class CalledInAnotherOrder(Base):
    def make(self) -> None:
        self.first, self.second = nn.Linear(D, D), nn.Linear(D, D)

    def middle(self, h: Tensor) -> Tensor:
        return self.first(torch.tanh(self.second(h)))


class FourDimensions(Base):
    def make(self) -> None:
        self.layer = nn.Linear(D // 2, D // 2)

    def middle(self, h: Tensor) -> Tensor:
        return self.layer(h.view(*h.shape[:2], 2, D // 2)).flatten(2)


class Gain(Base):
    def make(self) -> None:
        self.gain, self.shift = nn.Parameter(torch.randn(D)), nn.Parameter(torch.randn(D))

    def middle(self, h: Tensor) -> Tensor:
        return h * self.gain + self.shift


class Scalars(Base):
    def make(self) -> None:
        self.scale, self.mix = nn.Parameter(torch.tensor(0.3)), nn.Parameter(torch.randn(3))

    def middle(self, h: Tensor) -> Tensor:
        share = self.mix.softmax(0)
        return (h * share[0] + h.sin() * share[1] + h.cos() * share[2]) * self.scale.exp()


class ClassToken(Base):
    def make(self) -> None:
        self.token, self.places = nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(30, D))

    def middle(self, h: Tensor) -> Tensor:
        h = torch.cat([self.token.expand(len(h), -1, -1), h], 1)
        return h + self.places[: h.shape[1]]


class BareMatrix(Base):
    def make(self) -> None:
        self.matrix = nn.Parameter(torch.randn(D, D))

    def middle(self, h: Tensor) -> Tensor:
        return torch.tanh(h @ self.matrix) @ self.matrix.T


class BareTable(Base):
    def make(self) -> None:
        self.rows = nn.Parameter(torch.randn(V, D))

    def middle(self, h: Tensor) -> Tensor:
        return h + self.rows[torch.arange(h.shape[1])]

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) + self.head(self.rows[ids].mean(1))


class TiedHead(Base):
    def forward(self, ids: Tensor) -> Tensor:
        return functional.linear(torch.tanh(self.table(ids)), self.table.weight).mean(1)


class TiedByTranspose(Base):
    def forward(self, ids: Tensor) -> Tensor:
        return (torch.tanh(self.table(ids)) @ self.table.weight.T).mean(1)


class TiedByEinsum(Base):
    def forward(self, ids: Tensor) -> Tensor:
        return torch.einsum("btd,vd->btv", torch.tanh(self.table(ids)), self.table.weight).mean(1)


class TensorProduct(Base):
    def make(self) -> None:
        self.heads = nn.Parameter(torch.randn(D, 2, 3))

    def middle(self, h: Tensor) -> Tensor:
        return torch.einsum("btd,dhe->bthe", h, self.heads).flatten(2)


class RootMeanSquare(Base):
    def make(self) -> None:
        self.norm = nn.RMSNorm(D)

    def middle(self, h: Tensor) -> Tensor:
        return self.norm(h)


class NormWithoutBias(Base):
    def make(self) -> None:
        self.norm = nn.LayerNorm(D, bias=False)

    def middle(self, h: Tensor) -> Tensor:
        return self.norm(h)


class Convolution(Base):
    def make(self) -> None:
        self.conv, self.norm = nn.Conv1d(D, D, 3, padding=1), nn.GroupNorm(2, D)

    def middle(self, h: Tensor) -> Tensor:
        return self.norm(self.conv(h.transpose(1, 2))).transpose(1, 2)


class Bilinear(Base):
    def make(self) -> None:
        self.pair, self.slope = nn.Bilinear(D, D, D), nn.PReLU()

    def middle(self, h: Tensor) -> Tensor:
        return self.slope(self.pair(h, h.flip(-1)))


class WeightNormed(Base):
    def make(self) -> None:
        self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(D, D))

    def middle(self, h: Tensor) -> Tensor:
        return self.layer(h)


class WrittenInPlace(Base):
    def make(self) -> None:
        self.layer, self.shift = nn.Linear(D, D), nn.Parameter(torch.randn(D))

    def middle(self, h: Tensor) -> Tensor:
        h = self.layer(h)
        h += self.shift
        return h.relu_()


class Attention(Base):
    def make(self) -> None:
        self.layer = nn.TransformerEncoderLayer(D, 2, 8, dropout=0.0, batch_first=True)

    def middle(self, h: Tensor) -> Tensor:
        return self.layer(h)


class AttentionSequenceFirst(Base):
    def make(self) -> None:
        self.layer = nn.TransformerEncoderLayer(D, 2, 8, dropout=0.0)

    def middle(self, h: Tensor) -> Tensor:
        return self.layer(h.transpose(0, 1)).transpose(0, 1)


class Recurrent(Base):
    def make(self) -> None:
        self.layer, self.back = nn.GRU(D, D, batch_first=True), nn.LSTM(D, D // 2, bidirectional=True)

    def middle(self, h: Tensor) -> Tensor:
        return self.layer(h)[0] + self.back(h.transpose(0, 1))[0].transpose(0, 1)


class RecurrentCells(Base):
    def make(self) -> None:
        self.gru, self.lstm = nn.GRUCell(D, D), nn.LSTMCell(D, D)

    def middle(self, h: Tensor) -> Tensor:
        return torch.stack([self.gru(h[:, 0]), *self.lstm(h[:, 1])], 1)


class NormsOfManyKinds(Base):
    def make(self) -> None:
        self.rms, self.group, self.instance = nn.RMSNorm(D), nn.GroupNorm(2, D), nn.InstanceNorm1d(D, affine=True)

    def middle(self, h: Tensor) -> Tensor:
        h = self.rms(h) + self.rms(h.sin().transpose(0, 1)).transpose(0, 1)
        return (self.group(h.mT) + self.instance(h.mT) + self.group(h.cos().mT)).mT


class WholeTransformer(Base):
    def make(self) -> None:
        self.layer = nn.Transformer(D, 2, 1, 1, 8, dropout=0.0, batch_first=True)

    def middle(self, h: Tensor) -> Tensor:
        return self.layer(h, h.flip(1))


class SequenceFirst(Base):
    def make(self) -> None:
        self.layer, self.norm = nn.Linear(D, D), nn.LayerNorm(D)

    def middle(self, h: Tensor) -> Tensor:
        return self.norm(self.layer(h.transpose(0, 1))).transpose(0, 1)


class Prompt(Base):
    def make(self) -> None:
        self.prompt, self.layer = nn.Embedding(3, D), nn.Linear(D, D)

    def middle(self, h: Tensor) -> Tensor:
        prompt = torch.tanh(self.layer(self.prompt(torch.arange(3))))
        return self.layer(torch.cat([prompt.unsqueeze(0).repeat(len(h), 1, 1), h], 1))


class RelativePositions(Base):
    def make(self) -> None:
        self.bias, self.value = nn.Embedding(5, 2), nn.Linear(D, D)

    def middle(self, h: Tensor) -> Tensor:
        steps = torch.arange(h.shape[1])
        bias = self.bias((steps[:, None] - steps).clamp(-2, 2) + 2).permute(2, 0, 1).unsqueeze(0)
        heads = h.view(*h.shape[:2], 2, D // 2).transpose(1, 2)
        scores = heads @ heads.transpose(2, 3) + bias
        return self.value((scores.softmax(-1) @ heads).transpose(1, 2).flatten(2))


class SharedWrittenInPlace(Base):
    def make(self) -> None:
        self.places, self.layer = nn.Embedding(7, D), nn.Linear(D, D)

    def middle(self, h: Tensor) -> Tensor:
        places = self.layer(self.places(torch.arange(h.shape[1])))
        part = places[:, :2]
        places.mul_(0.5).add_(1)
        return h * places + part.sum(1, keepdim=True)


class HalfFrozen(Base):
    def make(self) -> None:
        self.layer, self.norm = nn.Linear(D, D), nn.LayerNorm(D)
        self.layer.weight.requires_grad_(False)
        self.norm.bias.requires_grad_(False)
        self.table.requires_grad_(False)

    def middle(self, h: Tensor) -> Tensor:
        return self.norm(self.layer(h))


MODULES = Base.__subclasses__()


@pytest.mark.parametrize("made", MODULES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("rows", [4, 5, 1])
@pytest.mark.parametrize("mode", ["book-keeping", "two-pass", "per-layer"])
def test_exact(made: type[Base], rows: int, mode: str, errors: Errors) -> None:
    """Norms and clipped sum to 1e-10, also where the batch (5) equals the sequence length."""
    torch.manual_seed(0)
    model, ids, labels = made().double(), torch.randint(0, V, (rows, 5)), torch.randint(0, K, (rows,))
    assert max(errors(model, lambda: functional.cross_entropy(model(ids), labels, reduction="none"), mode)) < 1e-10


@pytest.mark.parametrize("padding", [0, -1])
def test_the_padding_row_of_a_table_gets_no_gradient(padding: int, errors: Errors) -> None:
    """Neither in the norm nor in the sum; a tied head still reaches it."""
    torch.manual_seed(0)
    model = TiedHead(padding).double()
    ids = torch.tensor([[0, 3, 0, V - 1], [V - 1, V - 1, 2, 0]])
    labels = torch.tensor([0, V - 1])
    assert max(errors(model, lambda: functional.cross_entropy(model(ids), labels, reduction="none"))) < 1e-10


def test_features_flattened_with_whole_dimensions(errors: Errors) -> None:
    """A model that flattens (batch, choices) into its batch, as multiple-choice heads do."""
    torch.manual_seed(0)
    model, ids, labels = LayerUsedTwice().double(), torch.randint(0, V, (4, 3, 5)), torch.randint(0, 3, (4,))

    class Choice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, ids: Tensor) -> Tensor:
            return self.inner(ids.view(-1, ids.shape[-1]))[:, 0].view(len(ids), -1)

    choice = Choice()
    assert max(errors(choice, lambda: functional.cross_entropy(choice(ids), labels, reduction="none"))) < 1e-10


def test_a_module_called_twice_by_the_loss(errors: Errors) -> None:
    """Both views of an example count as that example's."""
    torch.manual_seed(0)
    model, one, two = LayerUsedTwice().double(), torch.randint(0, V, (4, 5)), torch.randint(0, V, (4, 3))
    assert max(errors(model, lambda: (model(one) - model(two)).square().sum(1))) < 1e-10
