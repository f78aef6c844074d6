"""What is installed: the text behind ``dpeval list``."""

from __future__ import annotations

from pathlib import Path

from tabulate import tabulate

from dpeval.registry import Registry, describe

DATA = [
    ("hub:ID", "a data set of the hub", "datasets"),
    ("PATH", ".csv .tsv .jsonl .parquet, also compressed, or a saved datasets folder", "your files"),
    ("synthetic:NAME", "a small generated data set for trials", "dpeval.data.synthetic"),
]
MODELS = [
    ("hub:ID", "a transformers checkpoint of the hub", "transformers"),
    ("PATH", "a local checkpoint folder", "your files"),
]


def render_listing(files: tuple[Path, ...] = ()) -> str:
    """Defenses, attacks, data and models as text."""
    registry = Registry(files)
    sections = {
        "Defenses": describe(registry.classes("defenses").items()),
        "Attacks": describe(registry.classes("attacks").items()),
        "Data": DATA,
        "Models": MODELS,
    }
    return "\n\n".join(
        f"{title}\n{tabulate(rows, headers=['name', 'what it is', 'source'], maxcolwidths=[None, 60, 50])}"
        for title, rows in sections.items()
    )
