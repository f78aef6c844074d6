"""Fine-tune a causal language model privately on prompt-and-target pairs, in the open: data, loss, noise, claim.

    python examples/private_generation.py MODEL DATA --prompt mr --target ref --epsilon 8 --out trained

MODEL is a local transformers checkpoint (GPT-2, OPT, Llama-like), DATA a csv or parquet file with a column of prompts
and one of targets, such as the E2E table-to-text data of Li et al. 2022, whose settings are the defaults here: clipping
norm 0.1, batches of about a thousand, a learning rate of 2e-3 that does not fall. Only the target part is learnt; each
record's loss is the mean over its own target tokens, so that no record's loss depends on another record.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dpeval_defenses.dp_adam import ClippedGradients, PoissonSampler, SecureNoise, TrainSettings, train_private
from dpeval_defenses.dp_adam.accounting import Accounting
from dpeval_defenses.dp_adam.causal import TargetTexts, causal_loss, target_loss


def main() -> None:
    """Read, plan, check, train, claim."""
    options = read_options()
    tokenizer = AutoTokenizer.from_pretrained(options.model, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(options.model, local_files_only=True, dtype=torch.float32)
    texts = read_texts(options, tokenizer)

    # σ from ε, before anything is trained; the claim later counts the steps that were really taken.
    accounting = Accounting(
        epsilon=options.epsilon, clip=options.clip, epochs=options.epochs, batch_size=options.batch_size
    )
    plan = accounting.plan(len(texts))
    tell(f"{len(texts)} records, {plan.steps} steps, σ = {plan.noise_multiplier:.3f}, δ = {plan.delta:.2g}")

    check_clipping(model, texts, options.clip)
    settings = TrainSettings(
        steps=plan.steps, max_norm=options.clip, noise_multiplier=plan.noise_multiplier,
        learning_rate=options.learning_rate, schedule="constant", micro_batch=options.micro_batch,
        dropout_entropy=secrets.randbits(128),
    )  # fmt: skip
    sampler = PoissonSampler(len(texts), plan.sampling_rate, entropy=secrets.randbits(128))
    log = train_private(model, causal_loss(model, texts), sampler, SecureNoise(), settings)

    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    tell(accounting.claim(plan, steps_taken=len(log), trained=trained, repeatable=False))
    if options.out is not None:
        model.save_pretrained(options.out)
        tokenizer.save_pretrained(options.out)


def tell(what: object) -> None:
    """A line on the terminal."""
    sys.stdout.write(f"{what}\n")


def check_clipping(model: torch.nn.Module, texts: TargetTexts, max_norm: float) -> None:
    """Compare the engine with brute force on three records; it raises where clipping would not be exact."""
    clip = ClippedGradients(model, max_norm)
    batch = texts.batch(range(min(3, len(texts))))
    clip.verify(batch, lambda output, part: target_loss(output.logits, part["labels"]))
    clip.detach()


def read_texts(options: argparse.Namespace, tokenizer: Any) -> TargetTexts:
    """Token ids of the pairs; a prompt that leaves no room for a target is left out."""
    read = pd.read_parquet if options.data.suffix == ".parquet" else pd.read_csv
    frame = read(options.data).dropna(subset=[options.prompt, options.target]).head(options.limit)
    end = tokenizer.eos_token_id
    prompts = [[*tokenizer(str(text))["input_ids"], end] for text in frame[options.prompt]]
    targets = [tokenizer(" " + str(text))["input_ids"] for text in frame[options.target]]
    # The prompt's separator is the end token too: it is part of every tokenizer and public.
    fits = [i for i, p in enumerate(prompts) if len(p) < options.max_length]
    return TargetTexts.of(
        [prompts[i] for i in fits], [targets[i] for i in fits], pad_id=end, end_id=end, max_length=options.max_length
    )


def read_options() -> argparse.Namespace:
    """The command line; the defaults are the paper's for E2E."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--clip", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--max-length", type=int, default=100)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
