"""Fixtures that all tests share."""

from __future__ import annotations

import itertools
import json
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpeval.types import Text

_CASES = Path(__file__).parents[1] / ".." / "shared" / "cases"


@pytest.fixture(scope="session")
def case_file() -> Callable[[str], Path]:
    """The path of an input file of a case by its name; skips where the case files are absent."""

    def find(name: str) -> Path:
        path = _CASES / "files" / name
        if not path.is_file():
            pytest.skip("case files absent")
        return path.resolve()

    return find


@pytest.fixture(scope="session")
def accounting_cases() -> dict[str, Any]:
    """The reference values of privacy accounting, as read; skips where they are absent."""
    path = _CASES / "accounting.json"
    if not path.is_file():
        pytest.skip("case files absent")
    cases: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return cases


@pytest.fixture(scope="session")
def sample_run() -> SimpleNamespace:
    """``build`` and the other makers of ``golden/sample_run.py``: a run made by hand with every kind of result."""
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).parent / "golden" / "sample_run.py")))


@pytest.fixture(scope="session")
def read_tables() -> Callable[[str], list[list[list[str]]]]:
    """Reads the tables of a markdown text as a code host does: table, row, cell. Fails where a cell holds markup."""
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])

    def read(text: str) -> list[list[list[str]]]:
        tables: list[list[list[str]]] = []
        for before, token in itertools.pairwise([Token("", "", 0), *parser.parse(text)]):
            if token.type == "table_open":
                tables.append([])
            elif token.type == "tr_open":
                tables[-1].append([])
            elif before.type in ("th_open", "td_open"):
                pieces = token.children or []
                assert {piece.type for piece in pieces} <= {"text"}, token.content
                tables[-1][-1].append("".join(piece.content for piece in pieces))
        return tables

    return read


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tiny checkpoints by name (``tiny_models.py``): bert, roberta, distilbert, electra, gpt2_no_pad, …"""
    made: dict[str, Path] = runpy.run_path(str(Path(__file__).parent / "tiny_models.py"))["build_all"](
        tmp_path_factory.mktemp("models")
    )
    return made


@pytest.fixture(scope="session")
def checkpoint_of(tiny_models: dict[str, Path]) -> Callable[..., Any]:
    """Loads a tiny checkpoint by name; keyword arguments go to its ``ModelConfig``."""
    from dpeval.models.checkpoint import load_checkpoint
    from dpeval.models.config import ModelConfig

    def load(name: str, **options: Any) -> Any:
        return load_checkpoint(ModelConfig(source=str(tiny_models[name]), **({"max_length": 16} | options)), Path())

    return load


@pytest.fixture(scope="session")
def records_of() -> Callable[..., Any]:
    """Records of the given texts, with ids r0, r1, … and alternating labels."""
    from dpeval.types import Records

    def make(texts: Sequence[Text], prefix: str = "r") -> Any:
        count = range(len(texts))
        return Records(tuple(f"{prefix}{i}" for i in count), tuple(texts), tuple(i % 2 for i in count))

    return make
