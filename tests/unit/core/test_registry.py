"""Plug-ins by name: installed ones, files, near misses, duplicates, broken ones."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from dpeval import registry as module
from dpeval.errors import ConfigError
from dpeval.registry import Registry

PLUGIN = '''
"""A plug-in."""
from dataclasses import dataclass
from typing import ClassVar
from dpeval.plugin import Context, Defense, Release, Task

@dataclass(frozen=True, kw_only=True)
class {name}(Defense):
    """Does nothing."""
    source: ClassVar[str] = "none"
    def train(self, task: Task, ctx: Context) -> Release:
        raise NotImplementedError
'''


def plugin_file(folder: Path, file: str, cls: str) -> Path:
    path = folder / file
    path.write_text(PLUGIN.format(name=cls), encoding="utf-8")
    return path


def test_a_single_file_is_a_plugin_under_its_kebab_name(tmp_path: Path) -> None:
    registry = Registry((plugin_file(tmp_path, "mine.py", "LabelSmoothing"),))
    assert "label-smoothing" in registry.names("defenses")
    assert registry.get("defenses", "label-smoothing").__name__ == "LabelSmoothing"
    assert "label-smoothing" not in registry.names("attacks")


def test_an_unknown_name_is_answered_with_near_misses() -> None:
    with pytest.raises(ConfigError, match=r"unknown defense 'dp-adm'; did you mean 'dp-adam'\?"):
        Registry().get("defenses", "dp-adm")


def test_a_name_defined_in_two_files_is_refused(tmp_path: Path) -> None:
    files = (plugin_file(tmp_path, "a.py", "Mine"), plugin_file(tmp_path, "b.py", "Mine"))
    files[1].write_text(files[1].read_text() + "\n# another\n")
    with pytest.raises(ConfigError, match="'mine' is defined in"):
        Registry(files).names("defenses")


def test_a_file_that_cannot_be_imported_says_why(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import no_such_module_anywhere", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"broken\.py cannot be imported: ModuleNotFoundError"):
        Registry((path,)).names("defenses")


def points(*pairs: tuple[str, str]) -> list[EntryPoint]:
    return [EntryPoint(name, value, "dpeval.defenses") for name, value in pairs]


def test_a_name_registered_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "entry_points", lambda group: points(("x", "a:A"), ("x", "b:B")))
    with pytest.raises(ConfigError, match="registered twice: a:A and b:B"):
        Registry().names("defenses")


def test_a_broken_plugin_that_nobody_asked_for_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "entry_points", lambda group: points(("gone", "no_such_package:X")))
    assert Registry().classes("defenses") == {}
    assert "no_such_package" in caplog.text
    with pytest.raises(ConfigError, match="cannot be imported"):
        Registry().get("defenses", "gone")
