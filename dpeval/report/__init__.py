"""Reports: one result, rendered as markdown, as JSON, as a terminal table, or as a data frame.

A format is a function from a result to text; html, latex and csv would enter :data:`FORMATS` and nowhere else.

>>> sorted(FORMATS)
['json', 'markdown']
>>> renderer("markdwon")
Traceback (most recent call last):
    ...
dpeval.errors.ConfigError: unknown report format 'markdwon'; did you mean 'markdown'? Known: json, markdown
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from dpeval.errors import ConfigError, near_miss
from dpeval.report.comparison import render_comparison
from dpeval.report.frame import table
from dpeval.report.json_report import dump, load
from dpeval.report.json_report import text as render_json
from dpeval.report.markdown import render_markdown
from dpeval.report.terminal import for_console, render_table
from dpeval.results import RunResult

Renderer: TypeAlias = Callable[[RunResult], str]

FORMATS: Mapping[str, Renderer] = MappingProxyType({"markdown": render_markdown, "json": render_json})


def renderer(name: str) -> Renderer:
    """The function that renders a format; ConfigError names the nearest known one."""
    if name not in FORMATS:
        raise ConfigError(f"unknown report format {name!r}; {near_miss(name, FORMATS)}")
    return FORMATS[name]


__all__ = [
    "FORMATS", "Renderer", "dump", "for_console", "load", "render_comparison", "render_json", "render_markdown",
    "render_table", "renderer", "table",
]  # fmt: skip
