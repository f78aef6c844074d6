"""Fixtures that all tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
