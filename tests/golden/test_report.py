"""The whole report, byte for byte, and its structure as a code host sees it.

``DPEVAL_UPDATE_GOLDEN=1 pytest tests/golden`` writes the files anew; read the difference before keeping it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from dpeval.report import render_comparison, render_json, render_markdown, render_table
from dpeval.results import RunResult

HERE = Path(__file__).parent
TEXTS: dict[str, Callable[[RunResult], str]] = {
    "report.md": render_markdown,
    "run.json": render_json,
    "table.txt": render_table,
    "comparison.md": lambda run: render_comparison([run, run]),
}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_the_text_is_that_of_the_golden_file(name, sample_run):
    """Every word that a reader meets was read and agreed to."""
    text, file = TEXTS[name](sample_run.build()), HERE / name
    if os.environ.get("DPEVAL_UPDATE_GOLDEN"):
        file.write_bytes(text.encode("utf-8"))
    assert file.read_bytes().decode("utf-8") == text


@pytest.mark.parametrize("name", ["report.md", "comparison.md"])
def test_the_markdown_renders(name, sample_run, read_tables):
    """Tables have as many cells in every row as in their header; there is no HTML, link, image or stray code."""
    text = TEXTS[name](sample_run.build())
    tables = read_tables(text)
    assert tables
    for table in tables:
        assert {len(row) for row in table} == {len(table[0])}
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    kinds = {t.type for block in tokens for t in (block, *(block.children or []))}
    assert not kinds & {
        "html_block",
        "html_inline",
        "link_open",
        "image",
        "code_inline",
        "s_open",
        "em_open",
        "code_block",
        "hr",
    }
    # Each line that looks like a row belongs to a table: none was broken off by what a cell holds.
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == sum(len(table) + 1 for table in tables)


def test_the_parts_come_in_order(sample_run):
    """The summary first, then the matrix, the claims, the detail by goal, and what made the run last."""
    text = render_markdown(sample_run.build())
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "Summary",
        "Attack × defense matrix",
        "Defenses compared",
        "Privacy claims",
        "Detail: membership",
        "Detail: inversion",
        "Detail: attribute",
        "Defenses in detail",
        "Controls",
        "Data",
        "Models",
        "Glossary",
        "Provenance",
    ]


def test_the_same_result_gives_the_same_text(sample_run):
    assert render_markdown(sample_run.build()) == render_markdown(sample_run.build())
