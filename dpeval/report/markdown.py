"""One markdown file that says what a run found; it renders on a code host and needs no other file.

Order: the summary first, then the matrix, the defenses compared, the claims, the detail by attack goal, the defenses,
the controls, the inputs, a glossary, and what made the run.

>>> from dpeval.report.example import tiny_run
>>> render_markdown(tiny_run()).splitlines()[0]
'# Privacy evaluation: tiny (COMPLETE)'
"""

from __future__ import annotations

from dpeval.report import (
    attacks,
    compared,
    controls,
    defenses,
    glossary,
    inputs,
    matrix,
    positions,
    provenance,
    summary,
    training,
)
from dpeval.report.cells import prose
from dpeval.report.marks import watermark
from dpeval.results import RunResult


def render_markdown(result: RunResult) -> str:
    """The whole report; ends with one line break. Pure: the same result gives the same text."""
    parts = [
        *title(result),
        *summary.section(result),
        *matrix.section(result),
        *positions.section(result),
        *compared.section(result),
        *defenses.claims_section(result),
        *attacks.sections(result),
        *training.section(result),
        *defenses.detail_section(result),
        *controls.section(result),
        *inputs.section(result),
        *glossary.section(result),
        *provenance.section(result),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def title(result: RunResult) -> list[str]:
    """The title with its status, the watermark of a run that is not complete, and the user's own note."""
    mark = watermark(result)
    return [
        f"# Privacy evaluation: {prose(result.name)} ({prose(result.status.upper())})",
        *([f"> **{prose(mark)}**"] if mark else []),
        *([f"> {prose(result.note)}"] if result.note.strip() else []),
    ]
