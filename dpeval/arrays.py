"""Raw results on disk: arrays with their record ids in ``.npz`` files, never pickled.

>>> import tempfile, pathlib
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> save_result(folder, Scores(("a", "b"), np.array([0.5, 1.5])), seconds=0.1)
>>> load_result(folder).values.tolist()
[0.5, 1.5]
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeval.types import AttackResult, Inferred, Recovered, Scores

FILE = "arrays.npz"
ABOUT = "about.json"


def save_arrays(folder: Path, **arrays: NDArray[Any]) -> None:
    """Write arrays of numbers and text; object arrays are refused."""
    for name, array in arrays.items():
        if array.dtype == object:
            raise TypeError(f"array {name!r} holds objects; only numbers and text are stored")
    with (folder / FILE).open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def load_arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """Read what :func:`save_arrays` wrote."""
    with np.load(folder / FILE, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def save_result(folder: Path, result: AttackResult, *, seconds: float) -> None:
    """Write what an attack returned, with the time it took."""
    ids = np.array(result.ids)
    if isinstance(result, Scores):
        save_arrays(folder, ids=ids, scores=result.values)
    elif isinstance(result, Inferred):
        save_arrays(folder, ids=ids, inferred=result.scores)
    else:
        offsets = np.concatenate([[0], np.cumsum([len(t) for t in result.tokens])]).astype(np.int64)
        flat = np.array([token for row in result.tokens for token in row], dtype=np.int64)
        ranked = {} if not result.ranked else {"ranked": np.concatenate(result.ranked).astype(np.int64)}
        save_arrays(folder, ids=ids, tokens=flat, offsets=offsets, **ranked)
    (folder / ABOUT).write_text(json.dumps({"seconds": seconds}), encoding="utf-8")


def load_result(folder: Path) -> AttackResult:
    """Read what :func:`save_result` wrote."""
    arrays = load_arrays(folder)
    ids = tuple(str(i) for i in arrays["ids"])
    if "scores" in arrays:
        return Scores(ids, arrays["scores"])
    if "inferred" in arrays:
        return Inferred(ids, arrays["inferred"])
    bounds = arrays["offsets"]
    rows = [tuple(int(t) for t in arrays["tokens"][a:b]) for a, b in itertools.pairwise(bounds)]
    ranked = tuple(np.split(arrays["ranked"], bounds[1:-1])) if "ranked" in arrays else None
    return Recovered(ids, tuple(rows), ranked)


def load_seconds(folder: Path) -> float:
    """How long the attack took."""
    return float(json.loads((folder / ABOUT).read_text(encoding="utf-8"))["seconds"])
