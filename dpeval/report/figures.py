"""ROC curves on logarithmic axes as SVG text, without any drawing library.

>>> roc_svg("a figure", [("none", ((0.01, 0.1), (0.1, 0.4), (1.0, 1.0)))]).startswith("<svg")
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TypeAlias

from dpeval.report.cells import visible
from dpeval.report.layout import Block, Column, block_name, blocks, ok
from dpeval.results import RunResult

Curve: TypeAlias = tuple[str, Sequence[tuple[float, float]]]
WIDTH, HEIGHT, LEFT, BOTTOM, SIDE = 640, 420, 60, 50, 360
COLOURS = ("#0b6e99", "#d1495b", "#2e933c", "#8f5fbf", "#e0861a", "#4d4d4d", "#00a5a5", "#a4590b")
DASHES = ("", "6 3", "2 3")


def figures(result: RunResult) -> list[tuple[str, str]]:
    """(caption, SVG) for each membership attack of each block: one curve for each defense that has a valid result."""
    out = []
    for block in blocks(result):
        for column in block.columns:
            curves = [(cell.defense, cell.roc) for cell in ok(block.column(column)) if cell.roc]
            if curves:
                title = _title(result, block, column)
                out.append((title, roc_svg(title, curves)))
    return out


def _title(result: RunResult, block: Block, column: Column) -> str:
    place = block_name(result, block)
    return f"ROC of {column.label}" + (f" ({place})" if place else "")


def roc_svg(title: str, curves: Sequence[Curve]) -> str:
    """True against false positive rate, both logarithmic; the dotted line is guessing."""
    least = min((fpr for _, points in curves for fpr, _ in points if fpr > 0), default=0.1)
    decades = max(1, math.ceil(-math.log10(least) - 1e-9))
    axes = _Axes(decades)
    label = escape(visible(title))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}"',
        'font-family="sans-serif" font-size="12">',
        *axes.grid(),
        axes.line([(10.0**-decades, 10.0**-decades), (1.0, 1.0)], "#888", "1 4"),
    ]
    for i, (name, points) in enumerate(curves):
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]
        lines.append(axes.line(points, colour, dash))
        y = 20 + 18 * i
        lines.append(f'<line x1="450" y1="{y}" x2="470" y2="{y}" stroke="{colour}" stroke-width="2" '
                     f'stroke-dasharray="{dash}"/>')  # fmt: skip
        lines.append(f'<text x="476" y="{y + 4}">{escape(_short(name))}</text>')
    return "\n".join([*lines, "</svg>"])


def _short(name: str) -> str:
    shown = visible(name)
    return shown if len(shown) <= 26 else shown[:25] + "…"


class _Axes:
    """Logarithmic axes from 10^-decades to 1 in both directions."""

    def __init__(self, decades: int) -> None:
        self.decades = decades

    def at(self, fpr: float, tpr: float) -> str:
        """Pixels of a point; what lies below the axes is drawn on them."""
        x, y = (max(0.0, 1 + math.log10(max(value, 1e-300)) / self.decades) for value in (fpr, tpr))
        return f"{LEFT + x * SIDE:.1f},{HEIGHT - BOTTOM - y * (HEIGHT - BOTTOM - 15):.1f}"

    def line(self, points: Sequence[tuple[float, float]], colour: str, dash: str) -> str:
        """A curve."""
        path = " ".join(self.at(fpr, tpr) for fpr, tpr in points if fpr > 0)
        return (f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
                f'stroke-dasharray="{dash}"/>')  # fmt: skip

    def grid(self) -> list[str]:
        """A line and a label for each decade."""
        out = []
        for k in range(self.decades + 1):
            value, label = 10.0**-k, "1" if k == 0 else f"1e-{k}"
            (x, bottom), (_, top) = (self.at(value, t).split(",") for t in (0.0, 1.0))
            (left, y), (right, _) = (self.at(f, value).split(",") for f in (0.0, 1.0))
            out.append(f'<line x1="{x}" y1="{bottom}" x2="{x}" y2="{top}" stroke="#ddd"/>')
            out.append(f'<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="#ddd"/>')
            out.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>')
            out.append(f'<text x="{LEFT - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{label}</text>')
        middle = LEFT + SIDE / 2
        out.append(f'<text x="{middle:.0f}" y="{HEIGHT - 10}" text-anchor="middle">false positive rate</text>')
        out.append(f'<text x="14" y="{HEIGHT / 2:.0f}" text-anchor="middle" transform="rotate(-90 14 '
                   f'{HEIGHT / 2:.0f})">true positive rate</text>')  # fmt: skip
        return out
