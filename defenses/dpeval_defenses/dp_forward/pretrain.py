"""Noisy pre-training: a masked language model learns to read noised tensors, before any private text is seen.

Du et al. 2023, section 3.6: tokens are masked, the text's tensor is bounded and noised at the position, and the rest of
the model predicts the masked tokens. The folder that comes out is a checkpoint like any other: give it as ``[model]
source`` of a matrix whose ``dp-forward`` has the same position, ε and clip.

It costs no privacy where the texts are public, and it protects them in no way: the part before the noise and the loss
both read them in clear. Texts that are not public do not belong here.

    python -m dpeval_defenses.dp_forward.pretrain models/minilm texts.jsonl --text sentence --out models/minilm-noisy

>>> round(Pretraining(epsilon=8.0, delta=1e-5).sigma, 4)
1.2005
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor, nn

from dpeval.context import RunContext
from dpeval.errors import DpevalError, ModelError
from dpeval.models.bypass import check_release_point
from dpeval.models.checkpoint import Checkpoint, load_checkpoint
from dpeval.models.classifier import TextClassifier
from dpeval.models.config import ModelConfig
from dpeval.models.fit import batches_of_like_length, linear_decay
from dpeval.models.loading import quiet
from dpeval.plugin import Context
from dpeval_defenses.dp_forward.accounting import plan_noise
from dpeval_defenses.dp_forward.client import Client, logits_of
from dpeval_defenses.dp_forward.masked import EveryRow, MaskedTexts, Through, TokenHead
from dpeval_defenses.dp_forward.noise import NoisyRelease

RECORD = "noisy_pretraining.json"
COST = (
    "none for texts that are public, and no protection of them: the part before the noise and the loss read them in "
    "clear; a text that must be protected must not be among them"
)


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """What noise the model should learn to read, and how long it learns."""

    position: str = "embedding"
    epsilon: float = 8.0
    """Of one release; with ``delta`` and ``clip`` it must be that of the matrix that the checkpoint is meant for."""
    delta: float = 1e-5
    clip: float = 1.0
    normalise: bool = True
    max_length: int = 128
    mask_rate: float = 0.15
    epochs: int = 1
    batch_size: int = 32
    learning_rate: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.mask_rate < 1:
            raise ValueError(f"mask_rate: expected a number between 0 and 1, got {self.mask_rate}")
        if self.epochs < 1 or self.batch_size < 1 or not self.learning_rate > 0:
            got = f"{self.epochs}, {self.batch_size} and {self.learning_rate}"
            raise ValueError(f"expected epochs >= 1, batch_size >= 1 and learning_rate > 0, got {got}")
        if not (self.epsilon > 0 and 0 < self.delta < 1 and self.clip > 0):
            got = f"{self.epsilon}, {self.delta} and {self.clip}"
            raise ValueError(f"expected epsilon > 0, delta between 0 and 1 and clip > 0, got {got}")

    @property
    def sigma(self) -> float:
        """Deviation of the noise on each entry."""
        return plan_noise(epsilon=self.epsilon, delta=self.delta, clip=self.clip, releases=1).sigma


def pretrain(
    source: Path, texts: Sequence[str], out: Path, how: Pretraining, ctx: Context | None = None
) -> tuple[float, ...]:
    """Continue the checkpoint in ``source`` on noised, masked ``texts`` and write it to ``out``; mean loss per epoch.

    ``out`` then holds weights, tokenizer and ``noisy_pretraining.json``, which says how it was made and what that
    costs in privacy.

    Raises:
        ModelError: the model has no mask token, or no such position with a row for each token.
        ValueError: no texts.
    """
    if not texts:
        raise ValueError("noisy pre-training: expected at least one text, got none")
    if out.exists() and any(out.iterdir()):
        raise ModelError(f"{out}: not empty; give a folder that does not exist yet")
    ctx = RunContext(how.seed) if ctx is None else ctx
    checkpoint = load_checkpoint(ModelConfig(source=str(source.resolve()), max_length=how.max_length), Path())
    model = masked_model(checkpoint, how, ctx)
    masked = MaskedTexts.of(texts, checkpoint, how.mask_rate)
    encoder: Any = model.encoder
    table = encoder.get_input_embeddings()
    head = TokenHead(checkpoint.hidden_size, table, ctx.generator("token head")).to(ctx.device)
    losses = _fit(model, head, checkpoint, masked, how, ctx)
    _write(model, checkpoint, out, how, len(texts), losses)
    return losses


def masked_model(checkpoint: Checkpoint, how: Pretraining, ctx: Context) -> TextClassifier:
    """The encoder, cut at the position, that gives the last hidden state of each row: (B, rows, d)."""
    if checkpoint.tokenizer.mask_token_id is None:
        raise ModelError(f"{checkpoint.config.source}: the tokenizer has no mask token; give a masked language model")
    model = checkpoint.build(2, how.seed).to(ctx.device)
    check_release_point(model, how.position, checkpoint)
    if how.position == "output":
        raise ModelError("position 'output' has one row for a text; expected a position with a row for each token")
    model.add_module("pool", EveryRow())
    model.head = Through(checkpoint.hidden_size)
    return model.to(ctx.device)


def _fit(
    model: TextClassifier, head: TokenHead, checkpoint: Checkpoint, masked: MaskedTexts, how: Pretraining, ctx: Context
) -> tuple[float, ...]:
    steps = how.epochs * -(-len(masked.texts) // how.batch_size)
    optimizer = torch.optim.AdamW(
        [*model.encoder.parameters(), *head.parameters()], lr=how.learning_rate, weight_decay=0.0
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: linear_decay(step, steps))
    history = []
    model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(ctx.rng("dropout").integers(2**63)))
        for epoch in ctx.progress(range(how.epochs), "noisy pre-training", how.epochs):
            losses = []
            for rows in batches_of_like_length(masked.texts.lengths, how.batch_size, ctx.rng("order", epoch)):
                optimizer.zero_grad(set_to_none=True)
                loss = masked_loss(model, head, checkpoint, masked, rows, epoch, how, ctx)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
                losses.append(float(loss.detach()))
            history.append(sum(losses) / len(losses))
    model.eval()
    return tuple(history)


def masked_loss(
    model: TextClassifier, head: TokenHead, checkpoint: Checkpoint, masked: MaskedTexts, rows: Sequence[int],
    epoch: int, how: Pretraining, ctx: Context,
) -> Tensor:  # fmt: skip
    """Mean cross-entropy of the masked tokens, predicted from the noised tensor of fixed length alone."""
    batch, true, chosen = masked.batch(rows, ctx.generator("mask", epoch, *rows))
    lengths = [masked.texts.lengths[row] for row in rows]
    client = Client(how.position)
    clear = client.clear(model, batch, lengths)
    noise = NoisyRelease(how.clip, how.sigma, how.normalise)
    draws = [ctx.generator("noise", epoch, row) for row in rows]
    released = client.released(model, clear, lengths, checkpoint.max_length, noise, draws)
    hidden = logits_of(model, how.position, released)[:, : true.shape[1]]
    return nn.functional.cross_entropy(head(hidden[chosen.to(hidden.device)]), true[chosen].to(hidden.device))


def _write(
    model: TextClassifier, checkpoint: Checkpoint, out: Path, how: Pretraining, texts: int, losses: Sequence[float]
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    encoder: Any = model.encoder.cpu()
    with quiet():
        encoder.save_pretrained(out)
        checkpoint.tokenizer.save_pretrained(out)
    record = {
        "what": "noisy pre-training (Du et al. 2023, section 3.6)",
        "base": checkpoint.config.source,
        "base_fingerprint": checkpoint.fingerprint,
        "settings": asdict(how),
        "sigma": how.sigma,
        "texts": texts,
        "loss_by_epoch": list(losses),
        "privacy_cost": COST,
    }
    (out / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_texts(file: Path, column: str) -> list[str]:
    """The texts of a file: one a line of a .txt, or a column of a .csv, .tsv, .jsonl or .parquet."""
    import pandas as pd

    readers: dict[str, Any] = {
        ".csv": pd.read_csv, ".parquet": pd.read_parquet,
        ".tsv": lambda f: pd.read_csv(f, sep="\t"), ".jsonl": lambda f: pd.read_json(f, lines=True),
    }  # fmt: skip
    if file.suffix == ".txt":
        return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    if file.suffix not in readers:
        raise ModelError(f"{file}: expected a .txt, {', '.join(sorted(readers))} file")
    frame = readers[file.suffix](file)
    if column not in frame.columns:
        raise ModelError(f"{file}: no column {column!r}; it has {', '.join(map(str, frame.columns))}")
    return [text for text in frame[column].dropna().astype(str) if text.strip()]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def main(
    model: Annotated[Path, typer.Argument(help="folder of the checkpoint to continue")],
    texts: Annotated[Path, typer.Argument(help="public texts: .txt (one a line), .csv, .tsv, .jsonl or .parquet")],
    out: Annotated[Path, typer.Option(help="the new checkpoint's folder")],
    text: Annotated[str, typer.Option(help="the column that holds the text")] = "text",
    position: Annotated[str, typer.Option(help="where the noise is")] = "embedding",
    epsilon: Annotated[float, typer.Option(help="of one release")] = 8.0,
    delta: float = 1e-5,
    clip: float = 1.0,
    max_length: int = 128,
    epochs: int = 1,
    batch_size: int = 32,
    learning_rate: float = 1e-4,
    seed: int = 0,
) -> None:
    """Continue a masked language model on noised tensors of PUBLIC texts."""
    try:
        how = Pretraining(
            position=position, epsilon=epsilon, delta=delta, clip=clip, max_length=max_length, epochs=epochs,
            batch_size=batch_size, learning_rate=learning_rate, seed=seed,
        )  # fmt: skip
        losses = pretrain(model, read_texts(texts, text), out, how)
    except (DpevalError, ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    typer.echo(f"{out}: loss by epoch {', '.join(f'{loss:.4f}' for loss in losses)}; privacy cost: {COST}")


if __name__ == "__main__":
    app()
