"""One small run and the dishonest plug-ins that the guards must catch."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeval.results import RunResult
from dpeval.run import run
from dpeval.testing import check_target
from dpeval.tiny import tiny_checkpoint

PLUGINS = Path(__file__).parents[1] / "pipeline" / "test_plugins.py"
DROPOUT = '''

@dataclass(frozen=True, eq=False)
class Training(TextRelease):
    """Answers as in training: dropout on, drawn from the number of records asked."""
    def predict(self, records, *, draw=0):
        answer = super().predict(records, draw=draw)
        keep = np.random.default_rng(len(records)).random(answer.log_probs.shape) > 0.1
        noisy = answer.log_probs * np.where(keep, 1.0, 0.5)
        return Predictions(answer.ids, noisy - np.logaddexp.reduce(noisy, axis=1, keepdims=True))

@dataclass(frozen=True, kw_only=True)
class Sloppy(Defense):
    """Forgets evaluation mode."""
    source: ClassVar[str] = "a demo notebook"
    def train(self, task, ctx):
        return Training(trained(task, ctx, epochs=1), task.checkpoint, NoClaim(), None, None, ctx.seed)
'''
MATRIX = """
name = "guards"
seeds = [0, 1]
[data]
source = "synthetic:reviews?n=120"
text = "text"
label = "label"
[model]
source = "{model}"
max_length = 24
[[defense]]
use = "none"
epochs = [1, 2]
[[attack]]
use = "mia-threshold"
[[attack]]
use = "coin-flip"
"""


@pytest.fixture(scope="session")
def texts() -> dict[str, str]:
    """The sources of plug-ins under test, by name."""
    found: dict[str, Any] = runpy.run_path(str(PLUGINS))
    return {k: v for k, v in found.items() if isinstance(v, str)} | {"DROPOUT": found["HEAD"] + DROPOUT}


@pytest.fixture
def check_plugin(texts: dict[str, str], tmp_path: Path) -> Callable[[str, str], Any]:
    """Runs the contract suite on a plug-in: name of its source, class."""

    def check(name: str, cls: str) -> Any:
        file = tmp_path / "mine.py"
        file.write_text(texts[name], encoding="utf-8")
        return check_target(f"{file}:{cls}")

    return check


@pytest.fixture(scope="session")
def tiny_run(texts: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A finished run: two settings of no defense, a threshold attack and one that flips coins, two seeds."""
    folder = tmp_path_factory.mktemp("guards")
    (folder / "model").mkdir()
    tiny_checkpoint(folder / "model")
    (folder / "coin.py").write_text(texts["RANDOM_ATTACK"], encoding="utf-8")
    (folder / "m.toml").write_text(MATRIX.format(model=folder / "model"), encoding="utf-8")
    return run(folder / "m.toml", out=folder / "out", plugins=[folder / "coin.py"]).result
