"""Reads a matrix file: one TOML document in, one frozen :class:`Experiment` out; what is wrong is said before any work.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "m.toml"
>>> _ = path.write_text('''
... name = "demo"
... [data]
... source = "synthetic:reviews"
... text = "text"
... label = "label"
... [model]
... source = "some/folder"
... [[defense]]
... use = "none"
... ''')
>>> read_matrix(path).name
'demo'
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dpeval.control_config import ControlConfig
from dpeval.data.canaries import CanaryConfig
from dpeval.data.config import DataConfig, SplitConfig
from dpeval.errors import ConfigError, near_miss
from dpeval.models.config import ModelConfig
from dpeval.plugin import Attack, Defense
from dpeval.registry import Kind, Registry
from dpeval.schema import Place, build, sweep

TABLES = {"data", "split", "canaries", "model", "defense", "attack", "release", "controls", "report", "compute"}
TOP = {"name", "seeds", "plugins"} | TABLES


@dataclass(frozen=True)
class Named:
    """A plug-in with the name it has in the matrix and the label it has in the report."""

    use: str
    label: str
    plugin: Defense | Attack


@dataclass(frozen=True, kw_only=True)
class ReleaseConfig:
    """The ``[release]`` table: what the adversary of the embedding attacks intercepts."""

    taps: tuple[str, ...] = ()
    """Positions at which models without noise of their own are attacked; empty: each defense's own, and ``output``."""
    targets: int = 100
    """How many members, and how many non-members, the inversion attacks are tried on."""

    def __post_init__(self) -> None:
        if self.targets < 1:
            raise ValueError(f"targets: expected at least 1 record for each side, got {self.targets}")


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """The ``[report]`` table: what the report says beside the default."""

    fpr: tuple[float, ...] = (0.01, 0.001)
    prevalence: float | None = None
    level: float = 0.95
    note: str = ""

    def __post_init__(self) -> None:
        if not 0.5 < self.level < 1:
            raise ValueError(f"level: expected a confidence level between 0.5 and 1, got {self.level}")
        for rate in (*self.fpr, *([] if self.prevalence is None else [self.prevalence])):
            if not 0 < rate < 1:
                raise ValueError(f"fpr and prevalence are rates between 0 and 1, got {rate}")


@dataclass(frozen=True, kw_only=True)
class ComputeConfig:
    """The ``[compute]`` table: knobs that may not change the result. ``threads`` is per worker."""

    threads: int = 1
    device: Literal["cpu", "cuda", "auto"] = "cpu"

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"threads: expected at least 1, got {self.threads}")


@dataclass(frozen=True)
class Experiment:
    """Everything a matrix file says."""

    name: str
    file: Path
    seeds: tuple[int, ...]
    data: tuple[DataConfig, ...]
    models: tuple[ModelConfig, ...]
    defenses: tuple[Named, ...]
    attacks: tuple[Named, ...]
    split: SplitConfig = field(default_factory=SplitConfig)
    canaries: CanaryConfig | None = None
    """Texts to plant in the training data; none without a table ``[canaries]``."""
    release: ReleaseConfig = field(default_factory=ReleaseConfig)
    controls: ControlConfig = field(default_factory=ControlConfig)
    report: ReportConfig = field(default_factory=ReportConfig)
    compute: ComputeConfig = field(default_factory=ComputeConfig)
    plugin_files: tuple[Path, ...] = ()
    limit: int | None = None
    """A smoke run on so many records: the report is watermarked."""

    @property
    def base(self) -> Path:
        """The folder that relative paths of the matrix start from."""
        return self.file.parent


def read_matrix(path: Path, plugins: tuple[Path, ...] = (), limit: int | None = None) -> Experiment:
    """Read and check a matrix file. ConfigError names file, key, what was expected and the nearest valid name."""
    text, document = _parse(path)
    place = Place(str(path), "", text)
    for key in document:
        if key not in TOP:
            raise place.at(key).error(f"unknown key; {near_miss(key, TOP)}")
    files = tuple(dict.fromkeys([*plugins, *((path.parent / p) for p in _texts(document, "plugins", place))]))
    registry = Registry(files)
    return Experiment(
        name=_name(document, path, place),
        file=path,
        seeds=_seeds(document.get("seeds", [0, 1, 2]), place.at("seeds")),
        data=tuple(build(DataConfig, t, p) for t, p in _tables(document, "data", place, required=True)),
        models=tuple(build(ModelConfig, t, p) for t, p in _tables(document, "model", place, required=True)),
        defenses=_plugins("defenses", document, registry, place),
        attacks=beside_sound(_plugins("attacks", document, registry, place)),
        split=_one(SplitConfig, document, "split", place),
        canaries=_one(CanaryConfig, document, "canaries", place) if "canaries" in document else None,
        release=_one(ReleaseConfig, document, "release", place),
        controls=_one(ControlConfig, document, "controls", place),
        report=_one(ReportConfig, document, "report", place),
        compute=_one(ComputeConfig, document, "compute", place),
        plugin_files=files,
        limit=limit,
    )


def _parse(path: Path) -> tuple[str, dict[str, Any]]:
    if path.suffix.lower() in {".yaml", ".yml", ".json"}:
        raise ConfigError(
            f"a matrix is a TOML file, got {path.suffix}; numbers and text are told apart there", file=path
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError("no such matrix file", file=path) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read as UTF-8 text: {error}", file=path) from error
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}", file=path) from error


def _name(document: Mapping[str, Any], path: Path, place: Place) -> str:
    name = document.get("name", path.stem)
    if not isinstance(name, str) or not re.fullmatch(r"[\w][\w .+-]*", name):
        raise place.at("name").error(f"expected a name of letters, digits, '.', '-', '_' and blanks, got {name!r}")
    return name


def _texts(document: Mapping[str, Any], key: str, place: Place) -> list[str]:
    value = document.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise place.at(key).error(f"expected a list of texts, got {value!r}")
    return value


def _seeds(value: Any, place: Place) -> tuple[int, ...]:
    good = (
        isinstance(value, list)
        and value
        and all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value)
    )
    if not good:
        raise place.error(f"expected a list of whole numbers from 0, such as [0, 1, 2], got {value!r}")
    if len(set(value)) != len(value):
        raise place.error(f"each seed once: a repeated seed would count one training twice, got {value!r}")
    return tuple(value)


def _tables(
    document: Mapping[str, Any], key: str, place: Place, *, required: bool
) -> list[tuple[dict[str, Any], Place]]:
    value = document.get(key)
    if value is None and required:
        raise place.at(key).error(f"the table [{key}] is missing")
    if isinstance(value, dict):
        return [(value, place.at(key))]
    if value is None or (isinstance(value, list) and all(isinstance(v, dict) for v in value)):
        return [(v, place.at(f"{key}[{i}]")) for i, v in enumerate(value or [])]
    raise place.at(key).error(f"expected a table [{key}], got {value!r}")


def _one(cls: type[Any], document: Mapping[str, Any], key: str, place: Place) -> Any:
    tables = _tables(document, key, place, required=False)
    if len(tables) > 1:
        raise place.at(key).error(f"expected one table [{key}], got {len(tables)}")
    return build(cls, *tables[0]) if tables else cls()


def _plugins(kind: Kind, document: Mapping[str, Any], registry: Registry, place: Place) -> tuple[Named, ...]:
    key = kind[:-1]
    found: list[Named] = []
    for table, at in _tables(document, key, place, required=key == "defense"):
        found.extend(_variants(kind, dict(table), registry, at))
    for i, one in enumerate(found):
        for other in found[:i]:
            if one.plugin == other.plugin and one.use == other.use:
                raise place.at(key).error(f"{one.label!r} occurs twice with the same settings; remove one")
    return _told_apart(tuple(_distinct(found)), place.at(key))


def _told_apart(found: tuple[Named, ...], place: Place) -> tuple[Named, ...]:
    """Results are joined by label, so two plug-ins of one label would lend each other their claims."""
    labels = [one.label for one in found]
    for label in labels:
        if labels.count(label) > 1:
            raise place.error(f"two of them would be called {label!r}; give each a `name` of its own")
    return found


def beside_sound(attacks: tuple[Named, ...]) -> tuple[Named, ...]:
    """``attacks`` with the sound version before each attack in a published protocol, where the matrix has none."""
    found: list[Named] = []
    for named in attacks:
        sound = named.plugin.sound if isinstance(named.plugin, Attack) else named.plugin
        if all(other.plugin != sound for other in (*attacks, *found)):
            found.append(Named(named.use, f"{named.label} (sound version)", sound))
        found.append(named)
    return tuple(found)


def _variants(kind: Kind, table: dict[str, Any], registry: Registry, place: Place) -> list[Named]:
    use, label = table.pop("use", None), table.pop("name", None)
    if not isinstance(use, str):
        raise place.at("use").error(f"expected the name of a {kind[:-1]}; Known: {', '.join(registry.names(kind))}")
    if label is not None and not (isinstance(label, str) and label.strip() and label.isprintable()):
        raise place.at("name").error(f"expected a name on one line, got {label!r}")
    try:
        cls = registry.get(kind, use)
    except ConfigError as error:
        raise place.at("use").error(str(error)) from error
    return [Named(use, label or use, plugin) for plugin in sweep(cls, table, place)]


_SHOWN = 4
"""Settings of a label above which those at their default are not worth their space."""


def _distinct(found: list[Named]) -> list[Named]:
    """Plug-ins of one name get the settings added in which any two of them differ, in the order of their fields.

    Where many do, those that stand at their default are left out: what is missing from a label then has that value.
    """
    result = []
    for one in found:
        family = [other.plugin for other in found if (other.use, other.label) == (one.use, one.label)]
        differing = [
            field
            for field in dataclasses.fields(one.plugin)  # type: ignore[arg-type]  # the registry checked that it is one
            if len({repr(getattr(plugin, field.name)) for plugin in family}) > 1
        ]
        if len(differing) > _SHOWN:
            differing = [field for field in differing if getattr(one.plugin, field.name) != field.default]
        shown = [f"{field.name}={_short(getattr(one.plugin, field.name))}" for field in differing]
        result.append(Named(one.use, " ".join([one.label, *shown]), one.plugin))
    return result


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
