"""The table of guards: each of the twenty-five has an acceptance test of its name in this folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TEXT = "\n".join(file.read_text(encoding="utf-8") for file in sorted(HERE.glob("test_*.py")))
NAMES = re.findall(r"^def (test_v\d\d_\w+)", TEXT, re.MULTILINE)


@pytest.mark.parametrize("number", range(1, 26))
def test_a_guard_has_its_test(number: int) -> None:
    assert any(name.startswith(f"test_v{number:02d}_") for name in NAMES)
