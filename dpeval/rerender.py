"""Renders finished runs again from their ``run.json``: nothing is computed anew.

>>> rerender([Path("/nowhere")], "html")
Traceback (most recent call last):
    ...
dpeval.errors.ConfigError: no finished run at /nowhere (No such file or directory); give a run folder or its run.json
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpeval.errors import ConfigError, near_miss
from dpeval.report import COMPARISONS, FORMATS
from dpeval.report.json_report import load
from dpeval.results import RecordRisk, RunResult


def read_result(path: Path) -> RunResult:
    """The result of a run folder or of its ``run.json``."""
    file = path / "run.json" if path.is_dir() else path
    try:
        return load(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"no finished run at {path} ({error.strerror}); give a run folder or its run.json") from error
    except ValueError as error:
        raise ConfigError(f"{file} is not a run result: {error}") from error


def rerender(paths: Sequence[Path], form: str, show_text: bool = False) -> str:
    """One run in ``form``, or a comparison of several; ``show_text`` adds the texts of the most exposed records.

    Raises:
        ConfigError: an unknown format, one that cannot compare, or a run whose data are gone when texts are asked for.
    """
    if form not in FORMATS:
        raise ConfigError(f"unknown format {form!r}; {near_miss(form, FORMATS)}")
    results = [with_texts(read_result(path), path) if show_text else read_result(path) for path in paths]
    if len(results) == 1:
        return FORMATS[form](results[0])
    if form not in COMPARISONS:
        raise ConfigError(f"several runs are compared as {', '.join(sorted(COMPARISONS))}, not as {form}; give one run")
    return COMPARISONS[form](results)


def with_texts(result: RunResult, path: Path) -> RunResult:
    """The same result with the text of every exposed record, read again from the data that the run's matrix names."""
    folder = path if path.is_dir() else path.parent
    texts = _texts(folder)
    cells = tuple(dataclasses.replace(c, risks=tuple(_told(r, texts, c.data) for r in c.risks)) for c in result.cells)
    return dataclasses.replace(result, cells=cells)


def _told(risk: RecordRisk, texts: Mapping[tuple[str, str], str], data: str) -> RecordRisk:
    return dataclasses.replace(risk, text=texts.get((data, risk.id), "(not in the data any more)"))


def _texts(folder: Path) -> dict[tuple[str, str], str]:
    from dpeval.config import read_matrix
    from dpeval.materials import load_materials
    from dpeval.types import Dataset

    try:
        origin = json.loads((folder / "origin.json").read_text(encoding="utf-8"))
        experiment = read_matrix(Path(origin["matrix"]), tuple(map(Path, origin["plugins"])), origin["limit"])
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"--show-text needs the folder of a run with its matrix and data: {error}") from error
    materials = load_materials(experiment)
    return {
        (name, key): " / ".join(text) if isinstance(text, tuple) else text
        for name, data in zip(materials.data_names, materials.datasets, strict=True)
        if isinstance(data, Dataset)
        for key, text in zip(data.records.ids, data.records.texts, strict=True)
    }
