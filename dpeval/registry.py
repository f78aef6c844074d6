"""Names to plug-ins: entry points and single files, through one door.

Nothing is imported until it is asked for by name. A broken plug-in that nobody asked for is a warning that names it.

>>> Registry().names("defenses")[:1]
['dp-adam']
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import inspect
import logging
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Literal

from dpeval.errors import ConfigError, near_miss
from dpeval.plugin import Attack, Defense

log = logging.getLogger(__name__)
Kind = Literal["defenses", "attacks"]
PluginClass = type[Defense] | type[Attack]
BASES: dict[Kind, type] = {"defenses": Defense, "attacks": Attack}


@dataclass(frozen=True)
class Registry:
    """The plug-ins that are installed, and those of the files handed over."""

    files: tuple[Path, ...] = ()

    def names(self, kind: Kind) -> list[str]:
        """Every known name of a kind, sorted."""
        return sorted({*self._installed(kind), *self._from_files(kind)})

    def get(self, kind: Kind, name: str) -> PluginClass:
        """The class behind ``name``; ConfigError with near misses, duplicates, or why it cannot be imported."""
        installed, local = self._installed(kind), self._from_files(kind)
        if name in installed and name in local:
            raise ConfigError(
                f"{kind[:-1]} {name!r} is installed and also defined in {inspect.getfile(local[name])}; rename one"
            )
        if name in local:
            return local[name]
        if name not in installed:
            raise ConfigError(f"unknown {kind[:-1]} {name!r}; {near_miss(name, self.names(kind))}")
        return _checked(_import(installed[name]), kind, name)

    def classes(self, kind: Kind) -> dict[str, PluginClass]:
        """All classes of a kind that can be imported; a broken one is a warning."""
        found: dict[str, PluginClass] = {}
        for name in self.names(kind):
            try:
                found[name] = self.get(kind, name)
            except ConfigError as error:
                log.warning("%s", error)
        return found

    @staticmethod
    def _installed(kind: Kind) -> dict[str, EntryPoint]:
        points: dict[str, EntryPoint] = {}
        for point in entry_points(group=f"dpeval.{kind}"):
            other = points.get(point.name)
            if other is not None and other.value != point.value:
                raise ConfigError(
                    f"{kind[:-1]} {point.name!r} is registered twice: {other.value} and {point.value}; remove one"
                )
            points[point.name] = point
        return points

    def _from_files(self, kind: Kind) -> dict[str, PluginClass]:
        found: dict[str, PluginClass] = {}
        for path in self.files:
            for cls in plugin_classes(load_file(path)):
                name = plugin_name(cls)
                if not issubclass(cls, BASES[kind]):
                    continue
                if name in found and found[name] is not cls:
                    raise ConfigError(
                        f"{kind[:-1]} {name!r} is defined in {inspect.getfile(found[name])} and {path}; rename one"
                    )
                found[name] = cls
        return found


def plugin_name(cls: type) -> str:
    """The name a matrix uses for a class of a single file: its ``name`` attribute, or the class name in kebab-case.

    >>> plugin_name(type("LabelSmoothing", (), {}))
    'label-smoothing'
    """
    given = cls.__dict__.get("name")
    return (
        given
        if isinstance(given, str)
        else re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()
    )


def plugin_classes(module: ModuleType) -> list[PluginClass]:
    """The concrete plug-ins that ``module`` itself defines."""
    return [
        cls
        for cls in vars(module).values()
        if inspect.isclass(cls)
        and issubclass(cls, (Defense, Attack))
        and cls.__module__ == module.__name__
        and not inspect.isabstract(cls)
        and dataclasses.is_dataclass(cls)
    ]


def load_file(path: Path) -> ModuleType:
    """Import a Python file as a module of its own; the same content is imported once."""
    path = path.resolve()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot read the plug-in file {path}: {error.strerror}; give the path of a Python file"
        ) from error
    name = f"dpeval_plugin_{path.stem}_{hashlib.sha256(content).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file; a plug-in file ends in .py")
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__dpeval_name__"] = f"file:{path.name}"
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"the plug-in file {path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _import(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:
        raise ConfigError(
            f"plug-in {point.name!r} ({point.value}) cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _checked(cls: object, kind: Kind, name: str) -> PluginClass:
    base = BASES[kind]
    if not (inspect.isclass(cls) and issubclass(cls, base) and dataclasses.is_dataclass(cls)):
        raise ConfigError(
            f"{kind[:-1]} {name!r}: expected a frozen dataclass that extends {base.__name__}, got {cls!r}"
        )
    return cls  # type: ignore[return-value]


def first_line(cls: type) -> str:
    """The first line of a plug-in's docstring."""
    return next(iter((inspect.getdoc(cls) or "").splitlines()), "")


def describe(classes: Iterable[tuple[str, type]]) -> list[tuple[str, str, str]]:
    """(name, one line, source) of each class, for ``dpeval list``."""
    return [(name, first_line(cls), str(getattr(cls, "source", ""))) for name, cls in classes]
