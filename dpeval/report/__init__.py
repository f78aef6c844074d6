"""Reports: one result, rendered as text of several formats, as a terminal table, or as a data frame.

A format is a function from a result to text, entered in :data:`FORMATS` and nowhere else; one that can set several runs
side by side is entered in :data:`COMPARISONS` too.

>>> sorted(FORMATS)
['csv', 'html', 'json', 'latex', 'markdown', 'positions', 'roc']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from dpeval.errors import ConfigError, near_miss
from dpeval.report.comparison import render_comparison
from dpeval.report.delimited import compare_csv, render_csv, render_roc
from dpeval.report.frame import table
from dpeval.report.html import compare_html, render_html
from dpeval.report.json_report import compare_json, dump, load
from dpeval.report.json_report import text as render_json
from dpeval.report.latex import render_latex
from dpeval.report.markdown import render_markdown
from dpeval.report.positions import render_positions
from dpeval.report.terminal import for_console, render_table
from dpeval.results import RunResult

Renderer: TypeAlias = Callable[[RunResult], str]

FORMATS: Mapping[str, Renderer] = MappingProxyType(
    {
        "markdown": render_markdown, "html": render_html, "json": render_json, "csv": render_csv,
        "latex": render_latex, "roc": render_roc, "positions": render_positions,
    }
)  # fmt: skip
COMPARISONS: Mapping[str, Callable[[Sequence[RunResult]], str]] = MappingProxyType(
    {"markdown": render_comparison, "html": compare_html, "json": compare_json, "csv": compare_csv}
)


def renderer(name: str) -> Renderer:
    """The function that renders a format; ConfigError names the nearest known one."""
    if name not in FORMATS:
        raise ConfigError(f"unknown report format {name!r}; {near_miss(name, FORMATS)}")
    return FORMATS[name]


__all__ = [
    "COMPARISONS", "FORMATS", "Renderer", "dump", "for_console", "load", "render_comparison", "render_json",
    "render_markdown", "render_table", "renderer", "table",
]  # fmt: skip
