"""The text behind ``dpeval explain``: why a stage is reused, or what differs from the nearest stored one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpeval.config import read_matrix
from dpeval.errors import ConfigError, near_miss
from dpeval.identity import canonical
from dpeval.materials import load_materials
from dpeval.matrix import plan
from dpeval.outlook import Stage, stages
from dpeval.run import ORIGIN, STORE
from dpeval.store import Store


def render_explanation(folder: Path, wanted: str, matrix: Path | None, plugins: tuple[Path, ...]) -> str:
    """One paragraph for each stage whose name contains ``wanted``."""
    origin = _origin(folder)
    file = matrix or Path(origin["matrix"])
    files = plugins or tuple(Path(p) for p in origin["plugins"])
    experiment = read_matrix(file, files, origin["limit"])
    materials = load_materials(experiment)
    store = Store(folder / STORE)
    found = list(stages(plan(experiment, materials), materials, store))
    mine = [s for s in found if wanted.lower() in f"{s.job.name} {s.name}".lower()]
    if not mine:
        names = {s.name for s in found} | {s.job.defense.label for s in found}
        raise ConfigError(f"no cell's name contains {wanted!r}; {near_miss(wanted, names)}")
    return "\n\n".join(_explained(stage, store) for stage in mine)


def _origin(folder: Path) -> dict[str, Any]:
    try:
        origin: dict[str, Any] = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder} is not the folder of a run ({error}); give the --out of one") from error
    return origin


def _explained(stage: Stage, store: Store) -> str:
    title = f"{stage.job.name} · {stage.name}"
    if stage.entry is not None:
        return f"{title}\n  reused: {stage.entry.key}; nothing that can change it has changed"
    nearest = _nearest(stage, store)
    if nearest is None:
        return f"{title}\n  runs: no result of this kind is stored yet"
    lines = [f"  {path}: stored {old}, now {new}" for path, old, new in nearest]
    return f"{title}\n  runs: it differs from the nearest stored result in\n" + "\n".join(f"  {line}" for line in lines)


def _nearest(stage: Stage, store: Store) -> list[tuple[str, Any, Any]] | None:
    now = flatten(canonical(stage.identity))
    choices = [difference(flatten(entry.identity), now) for entry in store.entries(stage.stage)]
    return min(choices, key=len, default=None)


def flatten(identity: Any, path: str = "") -> dict[str, Any]:
    """Nested material as one level of paths.

    >>> flatten({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c[0]': 2}
    """
    if isinstance(identity, Mapping):
        parts = [flatten(v, f"{path}.{k}" if path else str(k)) for k, v in identity.items()]
    elif isinstance(identity, list):
        parts = [flatten(v, f"{path}[{i}]") for i, v in enumerate(identity)]
    else:
        return {path: identity}
    return {k: v for part in parts for k, v in part.items()}


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """(path, old, new) wherever two flat identities differ."""
    paths = sorted({*old, *new})
    return [(p, old.get(p, "nothing"), new.get(p, "nothing")) for p in paths if old.get(p) != new.get(p)]
