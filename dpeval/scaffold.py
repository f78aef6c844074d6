"""Writes a working plug-in and its test: the text behind ``dpeval new``.

>>> class_name("rounded-embeddings")
'RoundedEmbeddings'
"""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from typing import Literal

from dpeval.errors import ConfigError
from dpeval.files import write_text

Kind = Literal["defense", "attack"]


def class_name(name: str) -> str:
    """The class name for a plug-in name in kebab-case."""
    return "".join(part.capitalize() for part in re.split(r"[-_ ]+", name))


def write_skeleton(kind: Kind, name: str, folder: Path) -> str:
    """Write ``NAME.py`` and ``test_NAME.py`` into ``folder``; refuses to overwrite. Returns what to do next."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise ConfigError(f"expected a name of small letters, digits and hyphens, such as my-{kind}, got {name!r}")
    stem, cls = name.replace("-", "_"), class_name(name)
    targets = {folder / f"{stem}.py": f"{kind}.py.txt", folder / f"test_{stem}.py": "test.py.txt"}
    for target in targets:
        if target.exists():
            raise ConfigError(f"{target} exists; choose another name or --folder")
    for target, template in targets.items():
        text = files("dpeval").joinpath("templates", template).read_text(encoding="utf-8")
        write_text(target, text.replace("{CLASS}", cls).replace("{STEM}", stem).replace("{NAME}", name))
    made = " and ".join(str(t) for t in targets)
    file = f"{folder / stem}.py"
    return "\n".join(
        [
            f"wrote {made}",
            f"check it:  dpeval check {file}:{cls}",
            f'run it:    dpeval run MATRIX --plugin {file}   (use = "{name}")',
        ]
    )
