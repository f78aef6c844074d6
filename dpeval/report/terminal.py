"""The matrix as plain text, as ``dpeval run`` prints it: the same table that the report holds.

>>> for_console("ε ≥ 0.31 — 日本", "ascii")
'eps >= 0.31 - ??'
"""

from __future__ import annotations

from dpeval.report.cells import one_line
from dpeval.report.layout import blocks
from dpeval.report.marks import legend, watermark
from dpeval.report.matrix import caption, matrix
from dpeval.report.summary import refuted_lines
from dpeval.results import RunResult

SPELLED = str.maketrans(
    {"ε": "eps", "δ": "delta", "σ": "sigma", "≥": ">=", "≤": "<=", "×": "x", "∞": "inf", "–": "-", "—": "-", "…": "..."}
    | {"·": "-", "\u00a0": " "}
)


def render_table(result: RunResult) -> str:
    """The compact table with its watermark, captions and legend; ends with a line break."""
    parts = [one_line(line) for line in (watermark(result), result.note) if line]
    for block in blocks(result):
        parts += [one_line(caption(result, block)), matrix(result, block).text(), ""]
    parts += [one_line(line) for line in refuted_lines(result)]
    return "\n".join([*parts, *(one_line(line) for line in legend(result))]) + "\n"


def for_console(text: str, encoding: str | None) -> str:
    """``text`` as a console of that encoding can show it: signs spelled out, the rest as ``?``; never an error."""
    coding = encoding or "ascii"
    try:
        text.encode(coding)
    except UnicodeEncodeError:
        return text.translate(SPELLED).encode(coding, "replace").decode(coding)
    except LookupError:
        return for_console(text, "ascii")
    return text
