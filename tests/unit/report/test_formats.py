"""html, latex, csv and curve data: nothing from outside becomes markup, and a run that must not be quoted says so."""

from __future__ import annotations

import dataclasses
import io
import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pandas as pd
import pytest

from dpeval.errors import ConfigError
from dpeval.report import COMPARISONS, FORMATS, dump, renderer
from dpeval.report.figures import figures, roc_svg
from dpeval.rerender import rerender


class Reader(HTMLParser):
    """Tags and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name in ("src", "href") and not (value or "").startswith("#") for name, value in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def test_the_page_is_whole_and_loads_nothing(sample_run) -> None:
    """No script, image or link outward; what a label says stays text."""
    run = sample_run.build()
    page = read(renderer("html")(run))
    assert not {"script", "img", "link", "iframe", "b", "i"} & set(page.tags)
    assert "<b>half</b>" in page.text
    assert "PARTIAL" in page.text
    for heading in ("Summary", "Defenses compared", "Provenance", "Figures"):
        assert heading in page.text


def test_a_smoke_page_is_stamped(sample_run) -> None:
    page = read(renderer("html")(sample_run.build("smoke")))
    assert "Its numbers must not be quoted" in page.text
    assert "Figures (SMOKE: do not quote)" in page.text


def test_curves_are_drawn_on_logarithmic_axes(sample_run) -> None:
    """Valid XML; each decade of FPR takes the same width."""
    ((title, svg),) = figures(sample_run.build())
    assert title.startswith("ROC of mia-threshold signal=loss")
    tree = ET.fromstring(svg)  # noqa: S314 - our own text
    line = [e for e in tree if e.tag.endswith("polyline")][1]
    xs = [float(p.split(",")[0]) for p in line.attrib["points"].split()]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert roc_svg('a "<b>', [("<x>", [(1.0, 1.0)])]).count("<b>") == 0


def test_latex_holds_no_command_of_a_label(sample_run) -> None:
    """Every special character of a name is escaped; rows are as wide as the header."""
    text = renderer("latex")(sample_run.build())
    rows = [line for line in text.splitlines() if line.endswith(r" \\")]
    body = [r for r in rows if r.startswith("- ")]
    assert body
    assert r"\# `rounding`\textbar{}\textless{}b\textgreater{}half" in body[0]
    assert "ε" not in text
    widths = {line.count(" & ") for line in text.split(r"\begin{table}")[1].splitlines() if line.endswith(r" \\")}
    assert len(widths) == 1
    assert text.count("PARTIAL") == 2


def test_csv_is_the_frame(sample_run) -> None:
    run = sample_run.build()
    frame = pd.read_csv(io.StringIO(renderer("csv")(run)))
    assert len(frame) == sum(max(1, len(c.measures)) for c in run.cells)
    assert set(frame["run_status"]) == {"partial"}
    assert "run_status" not in renderer("csv")(sample_run.build("complete"))


def test_curve_data_leaves_void_cells_out(sample_run) -> None:
    run = sample_run.build()
    points = ((0.01, 0.5), (1.0, 1.0))
    cells = tuple(dataclasses.replace(c, roc=points) for c in run.cells)
    frame = pd.read_csv(io.StringIO(renderer("roc")(dataclasses.replace(run, cells=cells))))
    assert len(frame) == 2 * sum(c.status == "ok" for c in run.cells)
    assert list(frame.columns) == ["data", "model", "defense", "attack", "fpr", "tpr"]


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_several_runs_in_every_format(sample_run, tmp_path, form: str) -> None:
    """Side by side where a format can; otherwise an error that names those that can."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(dump(sample_run.build())), encoding="utf-8")
    paths = [tmp_path / "one", tmp_path / "two" / "run.json"]
    assert rerender(paths[:1], form)
    if form not in COMPARISONS:
        with pytest.raises(ConfigError, match="several runs are compared as csv, html, json, markdown"):
            rerender(paths, form)
        return
    text = rerender(paths, form)
    assert text.count("everything at once") >= 2
    if form == "json":
        assert [run["schema"] for run in json.loads(text)["runs"]] == ["dpeval/run/2"] * 2


def test_texts_are_shown_only_when_asked_for_and_only_with_the_data(sample_run, tmp_path) -> None:
    """Without the folder's origin there is nothing to read them from, and that is said."""
    (tmp_path / "run.json").write_text(json.dumps(dump(sample_run.build())), encoding="utf-8")
    assert "text:" not in rerender([tmp_path], "markdown").split("Most exposed")[1].split("\n")[0]
    with pytest.raises(ConfigError, match="--show-text needs the folder of a run"):
        rerender([tmp_path], "markdown", show_text=True)
