"""The footer: what made the run, so that anyone can make it again.

>>> from dpeval.report.example import tiny_run
>>> section(tiny_run())[0]
'## Provenance'
"""

from __future__ import annotations

from dpeval.report.cells import fenced, prose
from dpeval.report.marks import watermark
from dpeval.report.numbers import duration
from dpeval.report.table import NOTHING, Table
from dpeval.results import Provenance, RunResult


def section(result: RunResult) -> list[str]:
    """Versions, seeds, hashes, command and the whole matrix file."""
    made = result.provenance
    mark = watermark(result)
    return [
        "## Provenance",
        Table(("what", "value"), _rows(made)).markdown(),
        f"Matrix file {prose(made.matrix_file)}:",
        fenced(made.matrix_text, "toml"),
        *([f"**{prose(mark)}**"] if mark else []),
    ]


def _rows(made: Provenance) -> tuple[tuple[str, str], ...]:
    return (
        ("dpeval", made.dpeval),
        ("Python", made.python),
        ("platform", made.platform),
        *made.packages.items(),
        ("seeds", ", ".join(str(s) for s in made.seeds)),
        ("command", made.command),
        ("matrix SHA-256", made.matrix_sha256),
        ("git commit of the matrix", made.git or NOTHING),
        ("workers, threads of each, device", f"{made.jobs}, {made.threads}, {made.device}"),
        ("created", made.created),
        ("whole run took", duration(made.seconds)),
    )


def comparison_row(made: Provenance) -> tuple[str, ...]:
    """What tells one run from another: version, seeds, time and matrix."""
    return (made.dpeval, ", ".join(str(s) for s in made.seeds), made.created, made.matrix_sha256[:12])
