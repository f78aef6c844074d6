"""A matrix that runs in seconds: a model of a few kilobytes on generated reviews."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeval.report.json_report import dump
from dpeval.results import RunResult
from dpeval.tiny import tiny_checkpoint

MATRIX = """
name = "tiny"
seeds = [0, 1]
{top}
[data]
source = "{source}"
text = "text"
label = "label"
attribute = "genre"
[model]
source = "{model}"
max_length = 24
{defenses}
[[attack]]
use = "mia-threshold"
{attacks}
[release]
targets = 8
"""
NONE = '[[defense]]\nuse = "none"\nepochs = 1\n'


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny BERT over the words of the generated reviews."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_checkpoint(folder)
    return folder


@pytest.fixture
def matrix(tmp_path: Path, tiny_model: Path) -> Callable[..., Path]:
    """Writes a matrix file; keywords replace its parts."""

    def write(name: str = "m.toml", **parts: str) -> Path:
        defaults = {
            "top": "",
            "source": "synthetic:reviews?n=120",
            "model": str(tiny_model),
            "defenses": NONE,
            "attacks": "",
        }
        path = tmp_path / name
        path.write_text(MATRIX.format(**(defaults | parts)), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def essence() -> Callable[[RunResult], dict[str, Any]]:
    """Everything of a result that two identical runs must share: all but times, memory and provenance."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k not in {"cost", "seconds", "provenance"}}
        return [strip(v) for v in value] if isinstance(value, list) else value

    return lambda result: dict(strip(dump(result)))


@pytest.fixture(scope="session")
def dpeval() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in a process of its own."""

    def call(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dpeval", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **options)

    return call
