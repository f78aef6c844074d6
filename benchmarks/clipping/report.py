"""The report: results as they were measured (results.json), and tables that a person reads (report.md)."""

from __future__ import annotations

import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from .shapes import PAPER, SHAPES

Results = dict[str, Any]
AIMS = {
    ("bert16", "book-keeping"): (1.20, 1.20), ("bert64", "book-keeping"): (1.25, 1.30),
    ("gpt2-untied16", "book-keeping"): (1.10, 1.08), ("gpt2-tied16", "book-keeping"): (1.10, 1.08),
    ("minilm32", "book-keeping"): (1.20, 1.20), ("minilm32", "two-pass"): (1.75, 1.05),
    ("llama8", "book-keeping"): (1.30, 1.20),
}  # fmt: skip


def load(folder: Path) -> Results:
    """What was measured before, or nothing."""
    path = folder / "results.json"
    if path.exists():
        results: Results = json.loads(path.read_text())
        return results
    return {"shapes": {}, "batches": {}, "throughput": {}}


def save(folder: Path, results: Results, command: str) -> None:
    """Writes both files."""
    results["machine"] = machine()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "report.md").write_text(markdown(results, command))


def machine() -> dict[str, str]:
    """What the numbers depend on besides the code."""
    names = ("torch", "transformers", "opacus", "numpy")
    found = {name: _version(name) for name in names}
    return {**found, "python": platform.python_version(), "processors": str(os.cpu_count()), "cpu": _cpu()}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def markdown(results: Results, command: str) -> str:
    """The report as text."""
    parts = [HEAD.format(command=command, machine=", ".join(f"{k} {v}" for k, v in results["machine"].items()))]
    shapes = {shape: rows for shape, rows in results["shapes"].items() if rows}
    parts += [SAME_BATCH] if shapes else []
    parts += [f"### {SHAPES[shape].title}\n\n{_ratios(shape, rows)}" for shape, rows in shapes.items()]
    searched = [name for name in PAPER if results["batches"].get(name)]
    if searched:
        parts += [PROTOCOL.format(**results["protocol"]), *(_search(name, results) for name in searched)]
    if not shapes and not searched:
        parts.append("Nothing was measured yet.")
    return "\n\n".join(parts) + "\n"


def _ratios(shape: str, rows: dict[str, Any]) -> str:
    lines = [
        "| method | time | processor | memory | floor | aim (time / memory) | seconds | peak |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for method, row in rows.items():
        if "refused" in row:
            lines.append(f"| {method} | refused: {row['refused']} | | | | | | |")
            continue
        low, high = row["wall_quartiles"]
        floor = "" if method.startswith("opacus") else f"{row['floor']:.2f}"
        aim = AIMS.get((shape, method))
        wanted = f"{aim[0]:.2f} / {aim[1]:.2f}" if aim else ""
        lines.append(
            f"| {method} | {row['wall_ratio']:.2f} ({low:.2f} to {high:.2f}) | {row['cpu_ratio']:.2f} "
            f"| {row['memory_ratio']:.2f} | {floor} | {wanted} | {row['wall']:.2f} | {row['peak'] / 2**20:.0f} MiB |"
        )
    return "\n".join(lines)


def _search(name: str, results: Results) -> str:
    batches, speeds = results["batches"][name], results["throughput"].get(name, {})
    lines = [f"### {name}\n", "| method | largest batch | examples a second | of non-private |", "|---|---|---|---|"]
    base = speeds.get("non-private", {}).get("throughput")
    for method, row in batches.items():
        if "refused" in row:
            lines.append(f"| {method} | refused: {row['refused']} | | |")
            continue
        speed = speeds.get(method, {}).get("throughput")
        shown = f"{speed:.1f} | {speed / base:.2f}" if speed and base else " | "
        lines.append(f"| {method} | {row['batch']} | {shown} |")
    return "\n".join(lines)


HEAD = """# What exact per-example clipping costs

Made by `{command}`. {machine}."""
SAME_BATCH = """## The same batch, beside plain training

Each method in a process of its own, one step each in turn, three warm-ups; ratios to the plain step of the same turn,
median and quartiles. A private step is forward, clipping, noise and Adam. *Memory* is the peak of resident memory
over the model's own, as a ratio. *Floor* is counted: the multiplications of exact clipping (three products for each
matrix, and the cheaper form of its norm; a second backward pass for `two-pass`) over those of plain training. What lies
between floor and measured time is memory traffic, noise and Python. On a machine with other work, wall time is that
work's as well: the ratio of processor time is the steadier one (it counts threads that wait for others, too)."""
PROTOCOL = """## The largest batch under a memory cap, and throughput

Mock sequences of length {length}. The largest batch whose step stays under {cap} MiB over the model's own, by binary
search up to {highest}; then a logical batch of {logical} in micro-batches of that size, methods in turn."""
