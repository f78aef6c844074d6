"""The data and models of a run: sizes, labels, and everything that cleaning dropped or changed.

>>> from dpeval.report.example import tiny_run
>>> section(tiny_run())[2]
'1,000 records after cleaning. No sensitive attribute. Fingerprint f1.'
"""

from __future__ import annotations

from dpeval.report.cells import prose
from dpeval.report.numbers import count, plural
from dpeval.report.sizes import size_of
from dpeval.report.table import NOTHING, Table
from dpeval.results import DataSummary, ModelSummary, RunResult

CLEAN = "Nothing was dropped or changed."


def section(result: RunResult) -> list[str]:
    """Data sets, then models."""
    out = ["## Data"]
    for data in result.data:
        out += _data(data)
    return [*out, "## Models", _models(result.models).markdown(), *_notes(result.models)]


def _data(data: DataSummary) -> list[str]:
    rows = (
        *(("role", role, size_of(data, role)) for role in data.roles),
        *(("label", name or "(empty)", count(n)) for name, n in data.labels.items()),
    )
    return [
        f"### {prose(data.name)}",
        f"{plural(data.records, 'record')} after cleaning. {_attribute(data)}Fingerprint {prose(data.fingerprint)}.",
        Table(("kind", "name", "records"), rows, numeric=(2,)).markdown(),
        "What cleaning did:" if data.notes else CLEAN,
        *([_cleaning(data)] if data.notes else []),
    ]


def _attribute(data: DataSummary) -> str:
    if data.attribute is None:
        return "No sensitive attribute. "
    known = f"{plural(data.attribute_values, 'value')}, known of {plural(data.attribute_records, 'record')}"
    return f"Sensitive attribute {prose(data.attribute)}: {known}. "


def _cleaning(data: DataSummary) -> str:
    rows = tuple((note.what, count(note.count), _ids(note.ids, note.count)) for note in data.notes)
    return Table(("what", "rows", "ids (the first of them)"), rows, numeric=(1,)).markdown()


def _ids(ids: tuple[str, ...], total: int) -> str:
    return (", ".join(ids) + (", …" if len(ids) < total else "")) if ids else NOTHING


def _models(models: tuple[ModelSummary, ...]) -> Table:
    headers = ("model", "parameters", "tokens at most", "pooling", "fingerprint")
    rows = tuple((m.name, count(m.parameters), count(m.max_length), m.pooling, m.fingerprint) for m in models)
    return Table(headers, rows, numeric=(1, 2))


def _notes(models: tuple[ModelSummary, ...]) -> list[str]:
    lines = [f"- **{prose(m.name)}**: {prose(note)}" for m in models for note in m.notes]
    return ["\n".join(lines)] if lines else []
