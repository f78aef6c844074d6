"""Renders finished runs again from their ``run.json``: nothing is computed anew."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dpeval.errors import ConfigError, near_miss
from dpeval.report import FORMATS, render_comparison
from dpeval.report.json_report import load
from dpeval.results import RunResult


def read_result(path: Path) -> RunResult:
    """The result of a run folder or of its ``run.json``."""
    file = path / "run.json" if path.is_dir() else path
    try:
        return load(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"no finished run at {path} ({error.strerror}); give a run folder or its run.json") from error
    except ValueError as error:
        raise ConfigError(f"{file} is not a run result: {error}") from error


def rerender(paths: Sequence[Path], form: str) -> str:
    """One run in ``form``, or a comparison of several."""
    if form not in FORMATS:
        raise ConfigError(f"unknown format {form!r}; {near_miss(form, FORMATS)}")
    results = [read_result(path) for path in paths]
    return FORMATS[form](results[0]) if len(results) == 1 else render_comparison(results)
