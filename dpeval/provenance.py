"""What made a run: versions, machine, seeds, the matrix text and the command.

>>> sorted(package_versions())[:2]
['datasets', 'dp-accounting']
"""

from __future__ import annotations

import datetime
import hashlib
import platform
import subprocess
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dpeval.config import Experiment
from dpeval.results import Provenance

PACKAGES = ("torch", "transformers", "datasets", "scikit-learn", "faiss-cpu", "numpy", "scipy", "dp-accounting")


def provenance(
    experiment: Experiment, command: str, jobs: int, started: float, trials: Mapping[str, int]
) -> Provenance:
    """The footer of the report."""
    text = experiment.file.read_text(encoding="utf-8-sig")
    return Provenance(
        dpeval=version_of("dpeval"),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        packages=package_versions(),
        matrix_file=experiment.file.name,
        matrix_sha256=hashlib.sha256(text.encode()).hexdigest(),
        matrix_text=text,
        seeds=experiment.seeds,
        command=command,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=round(time.time() - started, 1),
        jobs=jobs,
        threads=experiment.compute.threads,
        device=experiment.compute.device,
        git=git_commit(experiment.base),
        trials=dict(trials),
    )


def version_of(package: str) -> str:
    """The installed version of a package, or ``absent``."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def package_versions() -> dict[str, str]:
    """The versions of the packages that results depend on."""
    return {name: version_of(name) for name in sorted(PACKAGES)}


def git_commit(folder: Path) -> str | None:
    """The commit that ``folder`` stands at, with ``+`` if files differ from it; ``None`` outside a repository."""
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(  # noqa: S603 - fixed words, no shell
        ["git", "-C", str(folder), *words],  # noqa: S607 - whichever git the user has
        capture_output=True, text=True, timeout=10, check=True,
    )  # fmt: skip
    return done.stdout.strip()
