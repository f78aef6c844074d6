"""``dpeval.run`` is the function that users call, whatever was imported before it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("first", ["import dpeval.run", "from dpeval.run import run", "import dpeval.cli", "pass"])
def test_dpeval_run_can_be_called_whatever_was_imported_first(first):
    code = (
        f"{first}\nimport dpeval\ntry:\n    dpeval.run('no such file.toml')\nexcept Exception as e:\n    print(type(e))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ConfigError" in done.stdout, done.stdout + done.stderr
