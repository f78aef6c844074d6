"""Runs the contract checks on a plug-in and says which hold."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeval.errors import ConfigError, near_miss
from dpeval.plugin import Attack, Defense
from dpeval.registry import PluginClass, Registry, load_file, plugin_classes
from dpeval.testing.attacks import ATTACK_CHECKS, AttackSubject
from dpeval.testing.bench import ContractError, Tiny
from dpeval.testing.defenses import DEFENSE_CHECKS, DefenseSubject
from dpeval.testing.shape import SHAPE_CHECKS


@dataclass(frozen=True)
class Finding:
    """One check: what it requires, and the complaint if it does not hold."""

    requirement: str
    complaint: str | None = None


@dataclass(frozen=True)
class Outcome:
    """All findings on one plug-in."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(f.complaint is None for f in self.findings)

    @property
    def text(self) -> str:
        """The findings, a line each."""
        lines = [f"  {'ok  ' if f.complaint is None else 'FAIL'} {f.requirement}"
                 + (f"\n       {f.complaint}" if f.complaint else "") for f in self.findings]  # fmt: skip
        return "\n".join([f"{self.name}: {'passes' if self.passed else 'FAILS'} the contract", *lines])


def check_target(target: str) -> Outcome:
    """Check ``FILE.py:Class``, ``package.module:Class`` or an installed name, with its default settings."""
    cls = find(target)
    try:
        plugin = cls()
    except TypeError as error:
        raise ConfigError(f"{target}: cannot be made without settings ({error}); give every field a default") from error
    return check_plugin(plugin)


def check_plugin(plugin: Defense | Attack) -> Outcome:
    """Check a plug-in instance on a tiny model."""
    findings = list(_run(SHAPE_CHECKS, plugin))
    with tempfile.TemporaryDirectory() as folder:
        tiny = Tiny.make(Path(folder))
        make, checks = (
            (DefenseSubject, DEFENSE_CHECKS) if isinstance(plugin, Defense) else (AttackSubject, ATTACK_CHECKS)
        )
        subject, finding = _made(make, plugin, tiny)
        findings.append(finding)
        if subject is not None:
            findings.extend(_run(checks, subject))
    return Outcome(type(plugin).__name__, tuple(findings))


def _made(make: Callable[..., Any], plugin: Defense | Attack, tiny: Tiny) -> tuple[Any, Finding]:
    words = (
        "it trains, drawing only from its context"
        if isinstance(plugin, Defense)
        else "it runs, drawing only from its context"
    )
    try:
        return make(plugin, tiny), Finding(words)
    except Exception as error:  # noqa: BLE001 - whatever the plug-in raises is the finding
        return None, Finding(words, _complaint(error))


def _run(checks: Iterable[Callable[[Any], None]], subject: object) -> Iterable[Finding]:
    for check in checks:
        requirement = (inspect.getdoc(check) or check.__name__).split("\n\n")[0].replace("\n", " ")
        try:
            check(subject)
        except Exception as error:  # noqa: BLE001 - whatever the plug-in raises is the finding
            yield Finding(requirement, _complaint(error))
        else:
            yield Finding(requirement)


def _complaint(error: Exception) -> str:
    return str(error) if isinstance(error, ContractError) else f"{type(error).__name__}: {error}"


def find(target: str) -> PluginClass:
    """The class that ``target`` names."""
    place, _, name = target.rpartition(":")
    if not place:
        return _installed(target)
    module = load_file(Path(place)) if place.endswith(".py") else _module(place)
    cls = getattr(module, name, None)
    if not (inspect.isclass(cls) and issubclass(cls, (Defense, Attack))):
        known = [c.__name__ for c in plugin_classes(module)]
        raise ConfigError(f"{place} defines no defense or attack {name!r}; {near_miss(name, known)}")
    return cls


def _installed(name: str) -> PluginClass:
    registry = Registry()
    for kind in ("defenses", "attacks"):
        if name in registry.names(kind):
            return registry.get(kind, name)
    known = [*registry.names("defenses"), *registry.names("attacks")]
    raise ConfigError(
        f"no plug-in {name!r}: give FILE.py:Class, package.module:Class or a name; {near_miss(name, known)}"
    )


def _module(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"cannot import {name}: {error}") from error
