r"""The attack × defense matrix as LaTeX tables (booktabs), ready to be ``\input``.

>>> escaped("50 % of a_b & ε ≥ 1")
'50 \\% of a\\_b \\& $\\varepsilon$ $\\geq$ 1'
"""

from __future__ import annotations

from dpeval.report.layout import blocks
from dpeval.report.marks import legend, watermark
from dpeval.report.matrix import caption, matrix
from dpeval.report.table import Table
from dpeval.results import RunResult

SIGNS = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
        "|": r"\textbar{}", "ε": r"$\varepsilon$", "δ": r"$\delta$", "σ": r"$\sigma$", "μ": r"$\mu$", "≥": r"$\geq$",
        "≤": r"$\leq$", "∞": r"$\infty$", "×": r"$\times$", "·": r"$\cdot$", "–": "--", "—": "---", "…": r"\dots{}",
        "\u00a0": "~", "\n": " ", "\r": " ", "\t": " ",
    }
)  # fmt: skip
HEAD = (
    "% Written by dpeval; needs \\usepackage{booktabs}. Names outside Latin script need LuaLaTeX or XeLaTeX and a font "
    "that has them."
)


def render_latex(result: RunResult) -> str:
    """One table for each data set and model, with the legend below; a watermark stands in every caption."""
    mark = watermark(result)
    parts = [HEAD]
    for block in blocks(result):
        title = f"{result.name}: {caption(result, block)}."
        said = escaped(" ".join(text for text in (mark, title, *legend(result)) if text))
        parts.append(_floating(matrix(result, block), said))
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """``text`` as LaTeX text: nothing in it is a command."""
    return text.translate(SIGNS)


def _floating(table: Table, said: str) -> str:
    sides = "".join("r" if i in table.numeric else "l" for i in range(len(table.headers)))
    lines = [
        r"\begin{table}", r"\centering", rf"\caption{{{said}}}", rf"\begin{{tabular}}{{{sides}}}", r"\toprule",
        _row(table.headers), r"\midrule", *(_row(row) for row in table.rows), r"\bottomrule", r"\end{tabular}",
        r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines)


def _row(cells: tuple[str, ...]) -> str:
    # A row that opens with a bracket would be read as the option of the line break before it.
    shown = [escaped(cell) for cell in cells]
    shown[0] = f"{{}}{shown[0]}" if shown[0].startswith("[") else shown[0]
    return " & ".join(shown) + r" \\"
