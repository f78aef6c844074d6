"""What exact clipping costs beside plain training and beside Opacus, in one interleaved run.

    python -m benchmarks.clipping                               # everything, into reports/efficiency
    python -m benchmarks.clipping --stages table --shapes bert16 minilm32 --turns 7
    python -m benchmarks.clipping --stages search throughput --models bert gpt2

Opacus is measured where it is installed (``pip install "dpeval[bench]"``). Results of several runs are joined in
results.json; each shape's rows come from one run.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from pathlib import Path

from .driver import Turns, compare
from .methods import METHODS, OPACUS
from .report import load, save
from .search import LENGTH, search, throughput
from .shapes import PAPER, SHAPES


def main() -> None:
    """Runs the stages that the command line names and writes the report after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clipping", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    known = [m for m in METHODS if m not in OPACUS or find_spec("opacus")]
    parser.add_argument("--stages", nargs="*", default=["table", "search", "throughput"],
                        choices=["table", "search", "throughput", "report"])  # fmt: skip
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--models", nargs="*", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--methods", nargs="*", default=known[1:], choices=known)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=600, help="for each shape; then no further turn begins")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cap", type=int, default=1536, help="MiB over the model's own")
    parser.add_argument("--highest", type=int, default=128)
    parser.add_argument("--logical", type=int, default=32)
    parser.add_argument("--out", type=Path, default=Path("reports/efficiency"))
    run(parser.parse_args())


def turns(options: argparse.Namespace) -> Turns:
    """As many as were asked for, counted from now."""
    return Turns(options.turns, time.monotonic() + options.seconds)


def run(options: argparse.Namespace) -> None:
    """The stages in order."""
    results, command = load(options.out), "python -m benchmarks.clipping"
    methods = ["non-private", *(m for m in options.methods if m != "non-private")]
    if "table" in options.stages:
        for shape in options.shapes:
            results["shapes"][shape] = compare(shape, methods, turns(options), options.threads)
            save(options.out, results, command)
    if "search" in options.stages:
        results["protocol"] = {"length": LENGTH, "cap": options.cap, "highest": options.highest,
                               "logical": options.logical}  # fmt: skip
        for name in options.models:
            results["batches"][name] = search(name, methods, options.cap * 2**20, options.highest, options.threads)
            save(options.out, results, command)
    if "throughput" in options.stages:
        for name in options.models:
            results["throughput"][name] = throughput(
                name, results["batches"][name], options.logical, turns(options), options.threads
            )
            save(options.out, results, command)
    save(options.out, results, command)


if __name__ == "__main__":
    main()
