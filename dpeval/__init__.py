"""dpeval: what a privacy defense for a language model is worth, measured by attacking it.

import dpeval
run = dpeval.run("matrix.toml")
print(run.table())
print(dpeval.audit_scores(members, nonmembers).markdown())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpeval.run import Run, run
    from dpeval.scores import Inclusion, ScoreAudit, audit_scores

__all__ = ["Inclusion", "Run", "ScoreAudit", "audit_scores", "run"]
_HOME = {"Run": "dpeval.run", "run": "dpeval.run"}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: `import dpeval.types` should not cost the seconds that torch takes.
    if name in __all__:
        import importlib

        value = getattr(importlib.import_module(_HOME.get(name, "dpeval.scores")), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dpeval' has no attribute {name!r}")
