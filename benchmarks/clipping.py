"""What exact clipping costs beside plain training: time, processor time and memory, for each mode and shape.

Each method runs in a process of its own; the steps are interleaved, so that a busy machine slows all alike. Three
warm-ups, then paired ratios. ``python benchmarks/clipping.py bert16 gpt2-tied16 --steps 7``

A private step is: forward, ``clip.backward``, noise, Adam. ``--no-noise`` leaves the noise out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

METHODS = ("non-private", "book-keeping", "two-pass", "per-layer")
SHAPES = ("bert16", "bert64", "gpt2-untied16", "gpt2-tied16", "minilm32", "llama8", "bert-tiny")


def main() -> None:
    """Runs the shapes named on the command line and prints one line for each method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", default=["bert16"], choices=SHAPES)
    parser.add_argument("--methods", nargs="*", default=list(METHODS[1:]))
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-noise", action="store_true")
    parser.add_argument("--worker", default="")
    options = parser.parse_args()
    if options.worker:
        work(options.shapes[0], options.worker, options.threads, noise=not options.no_noise)
        return
    for shape in options.shapes:
        compare(shape, options)


def compare(shape: str, options: argparse.Namespace) -> None:
    """Interleaves the methods on one shape and prints the ratios to non-private training."""
    methods = ["non-private", *options.methods]
    workers = {m: start(shape, m, options) for m in methods}
    rows: dict[str, list[dict[str, float]]] = {m: [] for m in methods}
    for step in range(3 + options.steps):
        for method in methods:
            measured = ask(workers[method])
            if step >= 3:
                rows[method].append(measured)
    for worker in workers.values():
        worker.terminate()
        worker.wait()
    base = rows["non-private"]
    for method in methods:
        pairs = list(zip(rows[method], base, strict=True))
        line = {key: statistics.median(a[key] / b[key] for a, b in pairs) for key in ("wall", "cpu")}
        peak = max(r["peak"] for r in rows[method]) / max(r["peak"] for r in base)
        seconds = statistics.median(r["wall"] for r in rows[method])
        megabytes = max(r["peak"] for r in rows[method]) / 1e6
        floor = statistics.median(r["floor"] for r in rows[method])
        print(f"{shape:14s} {method:13s} time {line['wall']:.3f}  cpu {line['cpu']:.3f}  memory {peak:.3f}"
              f"   ({seconds:.3f} s, {megabytes:.0f} MB, floor {floor:.3f})", flush=True)  # fmt: skip


def start(shape: str, method: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    """A worker process for one method."""
    command = [sys.executable, str(Path(__file__)), shape, "--worker", method, "--threads", str(options.threads)]
    command += ["--no-noise"] if options.no_noise else []
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(options.threads)}
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    ask(worker, send=False)
    return worker


def ask(worker: subprocess.Popen[str], *, send: bool = True) -> dict[str, float]:
    """One step of a worker: its wall and processor seconds and its peak memory over the model's own, in bytes."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    if send:
        worker.stdin.write("step\n")
        worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        raise RuntimeError(f"a worker ended early with status {worker.wait()}")
    answer: dict[str, float] = json.loads(line)
    return answer


# --- the worker ----------------------------------------------------------------------------------------------------


def work(shape: str, method: str, threads: int, *, noise: bool) -> None:
    """Builds the model, then takes one training step for each line on standard input."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    import dpeval_defenses.dp_adam.clipping  # noqa: F401 - in every worker, so that code is not counted as memory

    model, batch, losses = build(shape)
    model.train()
    own = resident()
    step = training_step(model, batch, losses, method, noise=noise)
    print(json.dumps({"own": own}), flush=True)
    for _ in sys.stdin:
        Path("/proc/self/clear_refs").write_text("5")
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        measured = {"wall": wall, "cpu": cpu, "peak": peak() - own, "floor": counted_floor(model, batch)}
        print(json.dumps(measured), flush=True)


def training_step(model, batch, losses, method: str, *, noise: bool) -> Callable[[], None]:
    """One optimizer step of ``method``."""
    import torch

    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=1e-4)
    count = len(batch["input_ids"])

    def plain() -> None:
        optimizer.zero_grad()
        losses(model(**batch)).mean().backward()
        optimizer.step()

    if method == "non-private":
        return plain
    from dpeval_defenses.dp_adam.clipping import ClippedGradients

    clip = ClippedGradients(model, max_norm=0.1, mode=method)  # type: ignore[arg-type]
    threads = torch.get_num_threads()
    generators = [torch.Generator().manual_seed(k) for k in range(threads)]
    pool = ThreadPoolExecutor(threads)

    def private() -> None:
        optimizer.zero_grad()
        clip.backward(losses(model(**batch)))
        grads = [p.grad.view(-1) for p in parameters if p.grad is not None]
        parts = [part for grad in grads for part in grad.split(1 << 16)]
        list(pool.map(finish, [parts[k::threads] for k in range(threads)], generators, [noise] * threads))
        optimizer.step()

    def finish(parts, generator, noise) -> None:
        buffer = torch.empty(1 << 16)
        for part in parts:
            if noise:
                part.add_(buffer[: len(part)].normal_(std=0.1, generator=generator))
            part.div_(count)

    return private


def build(shape: str):
    """(model, batch, per-example losses of the model's output) of a named shape."""
    import torch
    import transformers as hf
    from torch.nn import functional

    def cls_losses(out):
        return functional.cross_entropy(out.logits, labels, reduction="none")

    def lm_losses(out):
        logits = out.logits
        each = functional.cross_entropy(logits.flatten(0, 1), shifted.flatten(), reduction="none", ignore_index=-100)
        return each.view(shifted.shape).sum(1) / (shifted.shape[1] - 1)

    if shape in ("bert16", "bert64", "bert-tiny"):
        rows, width = {"bert16": (16, 512), "bert64": (64, 512), "bert-tiny": (8, 64)}[shape]
        config = hf.BertConfig(vocab_size=30522, hidden_size=width, num_hidden_layers=4, num_attention_heads=8,
                               intermediate_size=4 * width)  # fmt: skip
        model, steps = hf.BertForSequenceClassification(config), 128
    elif shape == "minilm32":
        rows, steps = 32, 64
        model = hf.BertForSequenceClassification(
            hf.BertConfig(
                vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
            )
        )
    elif shape.startswith("gpt2"):
        rows, steps = 16, 100
        model = hf.GPT2LMHeadModel(
            hf.GPT2Config(vocab_size=50257, n_embd=512, n_layer=4, n_head=8, tie_word_embeddings="untied" not in shape)
        )
    else:
        rows, steps = 8, 256
        model = hf.LlamaForCausalLM(
            hf.LlamaConfig(
                vocab_size=32000,
                hidden_size=512,
                intermediate_size=1376,
                num_hidden_layers=4,
                num_attention_heads=8,
                num_key_value_heads=8,
            )
        )
    ids = torch.randint(5, model.config.vocab_size, (rows, steps))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    labels = torch.randint(0, 2, (rows,))
    shifted = torch.cat([ids[:, 1:], torch.full((rows, 1), -100)], 1)
    if hasattr(model, "lm_head"):
        model.config.use_cache = False
    return model, batch, lm_losses if hasattr(model, "lm_head") else cls_losses


def counted_floor(model, batch) -> float:
    """1 + (operations of the norms) / (operations of plain training), over the linear layers."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    steps = batch["input_ids"].shape[1]
    plain = norm = 0.0
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, Conv1D)):
            p, d = module.weight.shape
            t = 1 if "pooler" in name or "classifier" in name else steps
            plain += 6 * t * p * d
            norm += min(2 * t * t * (p + d), 2 * t * p * d)
    return 1 + norm / plain


def resident() -> int:
    """Resident memory of this process, in bytes."""
    return _status("VmRSS")


def peak() -> int:
    """The highest resident memory since the peak was last reset, in bytes."""
    return _status("VmHWM")


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}")


if __name__ == "__main__":
    main()
