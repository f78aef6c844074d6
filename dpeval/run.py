"""Runs a matrix: prepares, plans, trains each release once, lets every attack try it, measures, and writes the report.

The only module that knows an engine. Issuing the same command again resumes or extends; nothing finished is redone.

Example (trains a model, so it is not run as a test)::

    run = dpeval.run("examples/quickstart.toml", jobs=2)
    print(run.table())
"""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import pandas as pd
from filelock import FileLock, Timeout

from dpeval.collect import collect
from dpeval.config import Experiment, read_matrix
from dpeval.engine import Engine, InProcess, Processes
from dpeval.errors import ConfigError, StoreError, near_miss
from dpeval.files import write_json, write_text
from dpeval.identity import key_of
from dpeval.jobs import Bench, JobReport, release_identity
from dpeval.materials import Materials, load_materials
from dpeval.matrix import Plan, plan
from dpeval.models.checkpoint import Checkpoint
from dpeval.progress import progress
from dpeval.provenance import provenance
from dpeval.report import render_markdown, table
from dpeval.report.json_report import dump
from dpeval.report.positions import write_positions
from dpeval.results import Ruling, RunResult, Status
from dpeval.store import Store

log = logging.getLogger(__name__)
REPORT, RESULT, MATRIX, LEDGER, STORE, LOCK = "report.md", "run.json", "matrix.toml", "ledger.json", "store", ".lock"
ORIGIN = "origin.json"
"""Where the matrix and the plug-in files of a run lie, for `dpeval explain`."""
ENGINES = ("local", "ray", "dask")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to run; nothing here changes a result."""

    out: Path | None = None
    jobs: int = 1
    engine: str = "local"
    limit: int | None = None
    fresh: bool = False
    only_cached: bool = False
    plugins: tuple[Path, ...] = ()
    command: str = ""


@dataclass(frozen=True)
class Run:
    """A finished run: its result, and where it lies."""

    result: RunResult
    out: Path

    def table(self) -> pd.DataFrame:
        """One row for each cell and measure."""
        return table(self.result)

    @property
    def report(self) -> Path:
        """The markdown report."""
        return self.out / REPORT

    @property
    def exit_code(self) -> int:
        """3: a claim was refuted; 1: something failed; 0: all done."""
        if any(d.verdict.ruling is Ruling.REFUTED for d in self.result.defenses):
            return 3
        found = {d.status for d in self.result.defenses} | {c.status for c in self.result.cells}
        return 1 if Status.FAILED in found else 0


def run(
    matrix: str | Path,
    *,
    out: str | Path | None = None,
    jobs: int = 1,
    limit: int | None = None,
    fresh: bool = False,
    only_cached: bool = False,
    plugins: Sequence[str | Path] = (),
) -> Run:
    """Run or resume a matrix file and write its report.

    Args:
        matrix: the TOML file.
        out: the folder of the run (default ``runs/NAME``).
        jobs: worker processes; 1 works in this process, 0 takes every core. Results do not depend on it.
        limit: a smoke run on so many records; its report is watermarked.
        fresh: forget what the folder holds and do everything again.
        only_cached: train and attack nothing new.
        plugins: files that define defenses or attacks.

    Raises:
        ConfigError: something about the matrix, its data or its model is wrong; nothing was trained.
        StoreError: the folder cannot be written, or another run holds it.
    """
    options = Options(
        out=Path(out) if out else None,
        jobs=jobs,
        limit=limit,
        fresh=fresh,
        only_cached=only_cached,
        plugins=tuple(Path(p) for p in plugins),
        command=f"dpeval.run({str(matrix)!r})",
    )
    return run_matrix(Path(matrix), options)


def run_matrix(matrix: Path, options: Options, stream: TextIO | None = None) -> Run:
    """:func:`run` with its options as one record; progress goes to ``stream``."""
    started = time.time()
    experiment = read_matrix(matrix, options.plugins, options.limit)
    about = provenance(experiment, options.command, options.jobs, started, {})
    engine = choose_engine(options)
    folder = output_folder(experiment, options.out)
    with locked(folder):
        if options.fresh:
            shutil.rmtree(folder / STORE, ignore_errors=True)
        Store(folder / STORE).sweep()
        _remember(folder, experiment)
        materials = load_materials(experiment)
        planned = plan(experiment, materials)
        reports = _work(planned, bench_for(experiment, folder, options), engine, stream)
        trials = _ledger(folder / LEDGER, reports, materials)
        # the matrix and its commit as they were read: a file edited while the run works is not what was run
        about = dataclasses.replace(about, trials=trials, seconds=round(time.time() - started, 1))
        result = collect(experiment, materials, planned, reports, about)
        _write(folder, result)
    return Run(result, folder)


def choose_engine(options: Options) -> Engine:
    """The engine of a run; results do not depend on it."""
    import os

    if options.engine not in ENGINES:
        raise ConfigError(f"unknown engine {options.engine!r}; {near_miss(options.engine, ENGINES)}")
    if options.engine != "local":
        raise ConfigError(f"the engine {options.engine!r} is not built yet; use --jobs on this machine")
    if options.jobs < 0:
        raise ConfigError(f"--jobs: expected 0 (every core) or more, got {options.jobs}")
    workers = options.jobs or os.cpu_count() or 1
    return InProcess() if workers == 1 else Processes(workers)


def output_folder(experiment: Experiment, out: Path | None) -> Path:
    """Make the run's folder and prove that it can be written, before any work."""
    folder = out or Path("runs") / experiment.name
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out {folder} is a file; give a folder")
    probe = folder / ".probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_text("", encoding="utf-8")
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"--out {folder} cannot be written: {error.strerror or error}; give another folder"
        ) from error
    return folder


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for one run; the system lets go of the lock when the process ends, however it ends."""
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise StoreError(f"another run is working in {folder}; wait for it, or give another --out") from error
    except OSError as error:
        raise StoreError(
            f"cannot lock {folder}: {error.strerror or error}; free space or choose another --out"
        ) from error
    try:
        yield
    finally:
        lock.release()


def bench_for(experiment: Experiment, folder: Path, options: Options) -> Bench:
    """Where and how the workers of a run work."""
    return Bench(
        store=(folder / STORE).resolve(),
        base=experiment.base.resolve(),
        models=experiment.models,
        plugin_files=tuple(p.resolve() for p in experiment.plugin_files),
        device=device_name(experiment.compute.device),
        threads=experiment.compute.threads,
        only_cached=options.only_cached,
    )


def device_name(wanted: str) -> str:
    """The torch device for ``cpu``, ``cuda`` or ``auto``."""
    import torch

    if wanted == "cuda" and not torch.cuda.is_available():
        raise ConfigError("[compute] device = 'cuda', but torch sees no CUDA device; use 'cpu' or 'auto'")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"


def _work(planned: Plan, bench: Bench, engine: Engine, stream: TextIO | None) -> list[JobReport]:
    """Do all jobs, shadow releases and the longest kind first, and return their reports in the order of the plan.

    The reports of shadow releases are not among them: what failed there is said by the attacks that needed it.
    """
    reports: list[JobReport] = []
    shadows: list[JobReport] = []
    queue = sorted(planned.jobs, key=lambda job: not job.control)
    with progress(len(planned.shadows) + len(queue), stream) as show:

        def done(report: JobReport) -> None:
            (shadows if report.job.shadow else reports).append(report)
            show.step(report.job.name, _note(report))

        if planned.shadows:
            engine.run(planned.shadows, bench, done, show.inner)
            failed = {r.job.key: r.failures["release"].message for r in shadows if "release" in r.failures}
            bench = dataclasses.replace(bench, failed_shadows=failed)
        if queue:
            engine.run(queue, bench, done, show.inner)
    order = {job.key: i for i, job in enumerate(planned.jobs)}
    return sorted(reports, key=lambda r: order[r.job.key])


def _note(report: JobReport) -> str:
    parts = [f"{report.made} made", f"{report.reused} reused"]
    parts += [f"FAILED {name}: {failure.message}" for name, failure in report.failures.items()]
    return ", ".join(parts)


def _ledger(path: Path, reports: Sequence[JobReport], materials: Materials) -> dict[str, int]:
    """Count every distinct training on each data set that this folder has seen (validity guard V11)."""
    try:
        known: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    for report in reports:
        checkpoint = materials.checkpoints[report.job.model]
        if report.job.control or "release" not in report.entries or not isinstance(checkpoint, Checkpoint):
            continue
        seen = known.setdefault(materials.data_names[report.job.data], [])
        key = key_of(release_identity(report.job, checkpoint.fingerprint))
        if key not in seen:
            seen.append(key)
    write_json(path, known)
    return {name: len(keys) for name, keys in known.items()}


def _remember(folder: Path, experiment: Experiment) -> None:
    origin = {
        "matrix": str(experiment.file.resolve()),
        "plugins": [str(p.resolve()) for p in experiment.plugin_files],
        "limit": experiment.limit,
    }
    write_json(folder / ORIGIN, origin)


def _write(folder: Path, result: RunResult) -> None:
    write_text(folder / MATRIX, result.provenance.matrix_text)
    write_json(folder / RESULT, dump(result))
    write_text(folder / REPORT, render_markdown(result))
    write_positions(result, folder)


class _Callable(ModuleType):
    """Importing this module puts it where ``dpeval.run``, the function, is looked for: it answers as the function."""

    def __call__(self, *args: Any, **options: Any) -> Run:
        return run(*args, **options)


sys.modules[__name__].__class__ = _Callable
