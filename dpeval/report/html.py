"""The report as one HTML file that needs no other: the markdown report, rendered, with ROC figures and a contents list.

>>> from dpeval.report.example import tiny_run
>>> page = render_html(tiny_run())
>>> page.startswith("<!doctype html>"), "<script" in page, "http" in page.split("</style>")[0]
(True, False, False)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from dpeval.report.cells import visible
from dpeval.report.comparison import render_comparison
from dpeval.report.figures import figures
from dpeval.report.markdown import render_markdown
from dpeval.report.marks import stamp
from dpeval.results import RunResult

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#1a1a1a;background:#fff}
table{border-collapse:collapse;display:block;overflow-x:auto;margin:1rem 0;font-variant-numeric:tabular-nums}
th,td{border:1px solid #ccc;padding:.25rem .6rem;vertical-align:top}th{background:#f3f3f3;text-align:left}
blockquote{margin:1rem 0;padding:.5rem 1rem;border-left:4px solid #d1495b;background:#fdf3f4}
pre{background:#f6f6f6;padding:1rem;overflow-x:auto}nav ul{columns:2}figure{margin:1.5rem 0;max-width:42rem}
@media print{nav{display:none}table{display:table;font-size:70%}}
"""


def render_html(result: RunResult) -> str:
    """The whole report as a page; it loads nothing and runs nothing."""
    drawn = "".join(
        f"<figure>{svg}<figcaption>{escape(visible(title))}. Logarithmic axes; TPR is the mean over seeds; the dotted "
        "line is guessing.</figcaption></figure>"
        for title, svg in figures(result)
    )
    more = f'<h2 id="figures">Figures{escape(stamp(result))}</h2>{drawn}' if drawn else ""
    return page(f"Privacy evaluation: {result.name}", render_markdown(result), more, ["Figures"] if drawn else [])


def compare_html(results: Sequence[RunResult]) -> str:
    """Several runs side by side as a page."""
    return page("Comparison of runs", render_comparison(results), "", [])


def page(title: str, markdown: str, more: str, added: Sequence[str]) -> str:
    """A page from markdown, with a list of its second-level headings."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    headings = _numbered(tokens)
    links = [(f"s{i}", text) for i, text in enumerate(headings)] + [(name.lower(), name) for name in added]
    contents = "".join(f'<li><a href="#{key}">{escape(visible(text))}</a></li>' for key, text in links)
    body = parser.renderer.render(tokens, parser.options, {})
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(visible(title))}</title><style>{STYLE}</style></head>\n"
        f"<body><nav><ul>{contents}</ul></nav>\n{body}{more}</body></html>\n"
    )


def _numbered(tokens: Sequence[Token]) -> list[str]:
    """Give every second-level heading an id; their texts."""
    found: list[str] = []
    for token, inline in itertools.pairwise(tokens):
        if token.type == "heading_open" and token.tag == "h2":
            token.attrSet("id", f"s{len(found)}")
            found.append("".join(child.content for child in inline.children or []))
    return found
