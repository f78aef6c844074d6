"""DP-Forward beside the undefended model: time and memory of a forward pass and of a training step, at each position.

    python benchmarks/forward.py --out reports/forward_overhead          # both shapes, a few minutes on a quiet machine
    python benchmarks/forward.py --shape minilm --rounds 3               # prints the table only

Models have the shapes of MiniLM (6 layers, 384) and BERT-base (12 layers, 768) and random weights; texts have 128
tokens each. The defended pass does all that the defense does to a training text: the part before the noise, the bound,
fresh noise, the rest. Passes alternate: every defended one stands between two undefended ones and is divided by their
mean, so that a slow moment of the machine falls on both. The table gives the median of these ratios with a 95 %
interval of the median (order statistics). Memory of a pass is the peak of the resident set above where it stood before;
the memory ratio counts the model's weights on both sides.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import transformers
from scipy.stats import binom
from torch import Tensor, nn

from dpeval.models.classifier import TextClassifier
from dpeval.models.encoding import Batch
from dpeval.models.layout import Layout
from dpeval_defenses.dp_forward.accounting import plan_noise
from dpeval_defenses.dp_forward.client import Client, logits_of
from dpeval_defenses.dp_forward.noise import NoisyRelease

LENGTH = 128
TARGET = 1.05


@dataclass(frozen=True)
class Size:
    """A model's shape, and how many texts a pass takes."""

    layers: int
    width: int
    heads: int
    inner: int
    texts: int
    shown: tuple[int, ...]
    """Layers whose positions are measured."""


SHAPES = {
    "minilm": Size(6, 384, 12, 1536, 4, (0, 5)),
    "bert-base": Size(12, 768, 12, 3072, 1, (0, 11)),
}


@dataclass(frozen=True)
class Row:
    """What one position costs."""

    shape: str
    mode: str
    position: str
    undefended_ms: float
    defended_ms: float
    ratio: float
    low: float
    high: float
    model_mib: float
    undefended_mib: float
    defended_mib: float

    @property
    def memory_ratio(self) -> float:
        """Model and peak above it, defended over undefended."""
        return (self.model_mib + self.defended_mib) / (self.model_mib + self.undefended_mib)


def build(size: Size) -> TextClassifier:
    """A classifier of that shape with random weights."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=size.width, num_hidden_layers=size.layers, num_attention_heads=size.heads,
        intermediate_size=size.inner,
    )  # fmt: skip
    return TextClassifier(transformers.BertModel(config, add_pooling_layer=False), "mean", 2, torch.Generator()).eval()


def texts_of(size: Size) -> Batch:
    """Random texts of full length."""
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 30522, (size.texts, LENGTH), generator=draw)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def positions(size: Size) -> list[str]:
    """The positions that are measured."""
    inside = [f"encoder.{i}.{sub}" for i in size.shown for sub in ("mha", "add_norm_1", "ffn", "add_norm_2")]
    return ["embedding", *inside, "output"]


def undefended(model: TextClassifier, batch: Batch) -> Callable[[], Tensor]:
    """The model as it is."""
    return lambda: model(**batch)


def defended(model: TextClassifier, batch: Batch, position: str) -> Callable[[], Tensor]:
    """All of DP-Forward at ``position``, with fresh noise."""
    client, lengths = Client(position), [LENGTH] * len(batch["input_ids"])
    transform = NoisyRelease(1.0, plan_noise(epsilon=8.0, delta=1e-5, clip=1.0, releases=1).sigma)
    generators = [torch.Generator().manual_seed(i) for i in range(len(lengths))]
    rows = 1 if position == "output" else LENGTH

    def run() -> Tensor:
        released = client.released(model, client.clear(model, batch, lengths), lengths, rows, transform, generators)
        return logits_of(model, position, released)

    return run


CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def compare(
    plain: Callable[[], object], noisy: Callable[[], object], rounds: int, clock: Callable[[], float]
) -> tuple[list[float], ...]:
    """Undefended and defended seconds, and the ratio of each defended run to its two neighbours."""

    def timed(run: Callable[[], object]) -> float:
        start = clock()
        run()
        return clock() - start

    plain(), noisy()
    before = [timed(plain)]
    after: list[float] = []
    for _ in range(rounds):
        after.append(timed(noisy))
        before.append(timed(plain))
    ratios = [2 * n / (a + b) for n, a, b in zip(after, before[:-1], before[1:], strict=True)]
    return before, after, ratios


def interval(values: list[float]) -> tuple[float, float]:
    """At least 95 % for the median, by order statistics; the whole range where there are too few values."""
    ordered, n = sorted(values), len(values)
    k = int(binom.ppf(0.025, n, 0.5))
    return (ordered[0], ordered[-1]) if k < 1 else (ordered[k - 1], ordered[n - k])


def peak_mib(run: Callable[[], object]) -> float:
    """Peak of the resident set during ``run`` above where it stood (Linux)."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    start = _status("VmRSS")
    run()
    return (_status("VmHWM") - start) / 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def kinds(model: TextClassifier, batch: Batch, mode: str, position: str) -> tuple[Callable[[], object], ...]:
    """Undefended and defended work of one kind."""
    assert position in Layout.of(model.encoder).names()
    plain, noisy = undefended(model, batch), defended(model, batch, position)
    targets = torch.zeros(len(batch["input_ids"]), dtype=torch.long)
    if mode == "forward":
        return without_gradients(plain), without_gradients(noisy)
    model.train()
    return training(model, plain, targets), training(model, noisy, targets)


def without_gradients(forward: Callable[[], Tensor]) -> Callable[[], object]:
    """The pass of an answer."""

    def run() -> object:
        with torch.inference_mode():
            return forward()

    return run


def training(model: nn.Module, forward: Callable[[], Tensor], targets: Tensor) -> Callable[[], object]:
    """Forward, loss and backward, with everything before and after the noise learning."""

    def run() -> object:
        model.zero_grad(set_to_none=True)
        return nn.functional.cross_entropy(forward(), targets).backward()

    return run


def memory(shape: str, mode: str) -> dict[str, tuple[float, float]]:
    """Peaks of both at each position, in a process where the allocator gives back what is freed."""
    command = [sys.executable, __file__, "--peaks", shape, mode]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return {name: (first, second) for name, (first, second) in json.loads(out).items()}


def peaks(shape: str, mode: str) -> dict[str, list[float]]:
    """What the child of :func:`memory` measures."""
    size = SHAPES[shape]
    model, batch, found = build(size), texts_of(size), {}
    for position in positions(size):
        plain, noisy = kinds(model, batch, mode, position)
        plain(), noisy()
        found[position] = [min(peak_mib(run) for _ in range(2)) for run in (plain, noisy)]
    return found


def measure(shape: str, mode: str, rounds: int, clock: Callable[[], float], *, with_memory: bool) -> list[Row]:
    """All positions of one shape."""
    size = SHAPES[shape]
    model, batch, found = build(size), texts_of(size), []
    held = memory(shape, mode) if with_memory else {}
    for position in positions(size):
        before, after, ratios = compare(*kinds(model, batch, mode, position), rounds, clock)
        found.append(
            Row(
                shape,
                mode,
                position,
                1e3 * statistics.median(before),
                1e3 * statistics.median(after),
                statistics.median(ratios),
                *interval(ratios),
                sum(p.numel() * p.element_size() for p in model.parameters()) / 2**20,
                *held.get(position, (math.nan, math.nan)),
            )
        )
    return found


def markdown(rows: list[Row], about: dict[str, object]) -> str:
    """The table."""
    intro = (
        f"{LENGTH} tokens a text; {', '.join(f'{k} {v}' for k, v in about.items())}. Ratios are medians over "
        f"alternating passes, with a 95 % interval of the median. The aim is at most {TARGET} in time and memory."
    )
    lines = ["# DP-Forward beside the undefended model", "", intro]
    for shape, mode in dict.fromkeys((r.shape, r.mode) for r in rows):
        of = [r for r in rows if (r.shape, r.mode) == (shape, mode)]
        worst = max(of, key=lambda r: r.ratio)
        largest = max(r.memory_ratio for r in of)
        lines += [
            "",
            f"## {shape}, {mode} ({SHAPES[shape].texts} texts, a model of {of[0].model_mib:.0f} MiB)",
            "",
            f"Largest time ratio {worst.ratio:.3f} at `{worst.position}`; largest memory ratio {largest:.3f}.",
            "",
            "| position | plain ms | defended | time ratio | 95 % interval | plain MiB | defended | memory ratio |",
            "|---|--:|--:|--:|:-:|--:|--:|--:|",
            *(
                f"| `{r.position}` | {r.undefended_ms:.1f} | {r.defended_ms:.1f} | {r.ratio:.3f} | "
                f"{r.low:.3f} to {r.high:.3f} | {r.undefended_mib:.1f} | {r.defended_mib:.1f} | {r.memory_ratio:.3f} |"
                for r in of
            ),
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), action="append")
    parser.add_argument("--mode", choices=("forward", "training"), action="append")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall", help="processor: on a machine that is busy")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--peaks", nargs=2, metavar=("SHAPE", "MODE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.peaks:
        print(json.dumps(peaks(*asked.peaks)))
        return
    rows = [
        row
        for shape in asked.shape or sorted(SHAPES, reverse=True)
        for mode in asked.mode or ("forward", "training")
        for row in measure(shape, mode, asked.rounds, CLOCKS[asked.clock], with_memory=not asked.no_memory)
    ]
    about: dict[str, object] = {
        "threads": asked.threads, "clock": asked.clock, "rounds": asked.rounds, "torch": torch.__version__,
        "transformers": transformers.__version__, "processor": platform.machine(),
    }  # fmt: skip
    text = markdown(rows, about)
    print(text)
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        stem = "-".join(["overhead", *(asked.shape or ()), *(asked.mode or ())])
        (asked.out / f"{stem}.md").write_text(text)
        record = {"command": sys.argv, **about, "rows": [asdict(r) | {"memory_ratio": r.memory_ratio} for r in rows]}
        (asked.out / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
