"""dpeval: what a privacy defense for a language model is worth, measured by attacking it.

import dpeval
run = dpeval.run("matrix.toml")
print(run.table())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpeval.run import Run, run

__all__ = ["Run", "run"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: `import dpeval.types` should not cost the seconds that torch takes.
    if name in __all__:
        import importlib

        value = getattr(importlib.import_module("dpeval.run"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dpeval' has no attribute {name!r}")
