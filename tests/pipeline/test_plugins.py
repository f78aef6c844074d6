"""Plug-ins of a user's own: single files and installed packages, honest and dishonest ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dpeval.results import Ruling, Status
from dpeval.run import run
from dpeval.testing import check_target

Matrix = Callable[..., Path]
Dpeval = Callable[..., subprocess.CompletedProcess[str]]

HEAD = '''
"""A plug-in under test."""
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import torch
from dpeval.models.fit import fit
from dpeval.models.release import TextRelease
from dpeval.models.transform import Identity, Transform, normal_like
from dpeval.plugin import *
from dpeval.types import Adjacency, Claim, Embeddings, NoClaim, Trust, Unit


def trained(task, ctx, epochs=20, rate=3e-3):
    model = task.checkpoint.build(task.num_labels, ctx.seed)
    fit(model, task.train, checkpoint=task.checkpoint, epochs=epochs, batch_size=16, learning_rate=rate, ctx=ctx)
    return model


def claim(epsilon, unit, trust, adjacency):
    return Claim(epsilon=epsilon, delta=1e-4, unit=unit, trust=trust, adjacency=adjacency, mechanism="a promise",
                 accountant="none", scope="everything")
'''
LEAKY_CENTRAL = (
    HEAD
    + '''

@dataclass(frozen=True, kw_only=True)
class Leaky(Defense):
    """Over-fits, adds no noise, and claims ε = 1 for each record."""
    source: ClassVar[str] = "wishful thinking"
    def train(self, task, ctx):
        stated = claim(1.0, Unit.RECORD, Trust.CENTRAL, Adjacency.ADD_OR_REMOVE_ONE)
        return TextRelease.of(trained(task, ctx), task.checkpoint, claim=stated, seed=ctx.seed)
'''
)
LEAKY_LOCAL = (
    HEAD
    + '''

@dataclass(frozen=True, kw_only=True)
class Leaky(Defense):
    """Adds a thousandth of the noise that its claim of ε = 1 for each text needs."""
    source: ClassVar[str] = "wishful thinking"
    def train(self, task, ctx):
        stated = claim(1.0, Unit.SEQUENCE, Trust.LOCAL, Adjacency.ANY_TWO_INPUTS)
        model = trained(task, ctx, epochs=1)
        return TextRelease.of(model, task.checkpoint, claim=stated, tap="output", transform=Little(), seed=ctx.seed)
    def releases_at(self):
        return "output"

@dataclass(frozen=True)
class Little(Transform):
    """Almost no noise."""
    def apply(self, x, generators):
        return x / x.flatten(1).norm(dim=1).view(-1, 1, 1) + 0.005 * normal_like(x, generators)
'''
)
RANDOM_ATTACK = (
    HEAD
    + '''

@dataclass(frozen=True, kw_only=True)
class CoinFlip(MembershipAttack):
    """Flips a coin for each candidate."""
    source: ClassVar[str] = "folklore"
    def score(self, view, candidates, knowledge, ctx):
        return Scores(candidates.ids, ctx.rng("coin").random(len(candidates)))
'''
)
BYPASS = (
    HEAD
    + '''

@dataclass(frozen=True, kw_only=True)
class Bypass(Defense):
    """Noise on the attention output inside the layer, where the residual connection goes round it."""
    source: ClassVar[str] = "a residual connection"
    def train(self, task, ctx):
        stated = claim(8.0, Unit.SEQUENCE, Trust.LOCAL, Adjacency.ANY_TWO_INPUTS)
        model, tap = trained(task, ctx, epochs=1), self.releases_at()
        return TextRelease.of(model, task.checkpoint, claim=stated, tap=tap, transform=Noise(), seed=ctx.seed)
    def releases_at(self):
        return "encoder.layer.0.attention.output.dense"

@dataclass(frozen=True)
class Noise(Transform):
    """Normalises and adds noise."""
    def apply(self, x, generators):
        return x / x.flatten(1).norm(dim=1).view(-1, 1, 1) + 1.2 * normal_like(x, generators)
'''
)
SIDE_DOOR = (
    HEAD
    + '''

@dataclass(frozen=True, eq=False)
class SideDoor(TextRelease):
    """Answers from the clear text, whatever noise it shows."""
    def predict(self, records, *, draw=0):
        return TextRelease(self.classifier, self.checkpoint, NoClaim(), None, None, self.seed).predict(records)

@dataclass(frozen=True, kw_only=True)
class Bypass(Defense):
    """Shows a noised tensor but predicts from the clear text."""
    source: ClassVar[str] = "a side door"
    def train(self, task, ctx):
        stated = claim(8.0, Unit.SEQUENCE, Trust.LOCAL, Adjacency.ANY_TWO_INPUTS)
        return SideDoor(trained(task, ctx, epochs=1), task.checkpoint, stated, "output", Noise(), ctx.seed)
    def releases_at(self):
        return "output"

@dataclass(frozen=True)
class Noise(Transform):
    """Normalises and adds noise."""
    def apply(self, x, generators):
        return x / x.flatten(1).norm(dim=1).view(-1, 1, 1) + 1.2 * normal_like(x, generators)
'''
)
RAGGED = (
    HEAD
    + '''

@dataclass(frozen=True, eq=False)
class OneRowAWord(TextRelease):
    """Lets out as many noised rows as the text has tokens."""
    def embed(self, records, tap, *, draw=0):
        whole = super().embed(records, tap, draw=draw)
        many = [min(len(whole.rows(i)), 3 + i) for i in range(len(whole))]
        rows = [whole.rows(i)[:n] for i, n in enumerate(many)]
        return Embeddings(whole.ids, np.concatenate(rows), np.cumsum([0, *many]))
    def predict_from(self, released):
        answers = np.full((len(released), 2), np.log(0.5))
        return Predictions(released.ids, answers)
    def predict(self, records, *, draw=0):
        return self.predict_from(self.embed(records, "embedding", draw=draw))

@dataclass(frozen=True, kw_only=True)
class Bypass(Defense):
    """Noise on every row, and the number of rows in the clear."""
    source: ClassVar[str] = "a length"
    def train(self, task, ctx):
        stated = claim(8.0, Unit.SEQUENCE, Trust.LOCAL, Adjacency.ANY_TWO_INPUTS)
        return OneRowAWord(trained(task, ctx, epochs=1), task.checkpoint, stated, "embedding", Noise(), ctx.seed)
    def releases_at(self):
        return "embedding"

@dataclass(frozen=True)
class Noise(Transform):
    """Normalises and adds noise."""
    def apply(self, x, generators):
        return x / x.flatten(1).norm(dim=1).view(-1, 1, 1) + 1.2 * normal_like(x, generators)
'''
)


def plugin(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_false_central_claim_is_refuted_and_the_exit_status_is_3(
    matrix: Matrix, dpeval: Dpeval, tmp_path: Path
) -> None:
    """Guard V10: many records and an over-fitted model leave no doubt."""
    file = matrix(source="synthetic:reviews?n=800", defenses='[[defense]]\nuse = "leaky"\n')
    done = dpeval("run", file, "--out", tmp_path / "out", "--plugin", plugin(tmp_path, LEAKY_CENTRAL))
    assert done.returncode == 3, done.stderr + done.stdout
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "refuted" in report.partition("## Attack")[0].lower(), "the summary says it first"


def test_a_false_local_claim_is_refuted_by_repeated_queries(matrix: Matrix, tmp_path: Path) -> None:
    done = run(
        matrix(defenses='[[defense]]\nuse = "leaky"\n'), out=tmp_path / "out", plugins=[plugin(tmp_path, LEAKY_LOCAL)]
    )
    verdict = done.result.defenses[0].verdict
    assert verdict.ruling is Ruling.REFUTED, verdict
    assert done.exit_code == 3


def test_an_honest_local_claim_is_not_refuted(matrix: Matrix, tmp_path: Path) -> None:
    honest = '[[defense]]\nuse = "dp-forward"\nposition = "output"\nepsilon = [1, 3]\nepochs = 1\n'
    done = run(matrix(defenses=honest), out=tmp_path / "out")
    assert [d.verdict.ruling for d in done.result.defenses] == [Ruling.CONSISTENT] * 2
    assert all((d.verdict.bound or 0) <= d.verdict.claimed for d in done.result.defenses if d.verdict.claimed)


def test_random_scores_read_attack_not_validated(matrix: Matrix, tmp_path: Path) -> None:
    """Guard V5."""
    attack = '[[attack]]\nuse = "coin-flip"\n'
    done = run(matrix(attacks=attack), out=tmp_path / "out", plugins=[plugin(tmp_path, RANDOM_ATTACK)])
    cell = next(c for c in done.result.cells if c.attack == "coin-flip")
    assert cell.status is Status.NOT_VALIDATED
    assert "does not break" in cell.reason
    assert "private" not in cell.reading.lower()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(BYPASS, "can be gone round"), (SIDE_DOOR, "goes round"), (RAGGED, "the length of the text")],
)
def test_a_way_round_the_noise_fails_the_contract(tmp_path: Path, text: str, complaint: str) -> None:
    outcome = check_target(f"{plugin(tmp_path, text)}:Bypass")
    assert not outcome.passed
    assert complaint in outcome.text


def test_a_plugin_of_an_installed_package_enters_by_its_entry_point(
    matrix: Matrix, dpeval: Dpeval, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    about = site / "foreign-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[dpeval.attacks]\nforeign-coin = foreign_plugin:CoinFlip\n")
    plugin(site, RANDOM_ATTACK, "foreign_plugin.py")
    environment = os.environ | {"PYTHONPATH": str(site)}
    assert "foreign-coin" in dpeval("list", env=environment).stdout
    file = matrix(attacks='[[attack]]\nuse = "foreign-coin"\n')
    done = dpeval("run", file, "--out", tmp_path / "out", "--jobs", 2, env=environment)
    assert done.returncode == 0, done.stderr
    assert "foreign-coin" in done.stdout


@pytest.mark.parametrize("kind", ["defense", "attack"])
def test_a_new_skeleton_passes_its_own_test(dpeval: Dpeval, tmp_path: Path, kind: str) -> None:
    made = dpeval("new", kind, "my-idea", "--folder", tmp_path)
    assert made.returncode == 0, made.stderr
    outcome = check_target(f"{tmp_path / 'my_idea.py'}:MyIdea")
    assert outcome.passed, outcome.text
    again = dpeval("new", kind, "my-idea", "--folder", tmp_path)
    assert again.returncode == 2
    assert "exists" in again.stderr


RAGGED = (
    HEAD
    + '''

@dataclass(frozen=True, kw_only=True)
class Leaky(Defense):
    """Releases one clear row for each token and claims ε = 1 for each text."""
    source: ClassVar[str] = "wishful thinking"
    def train(self, task, ctx):
        stated = claim(1.0, Unit.SEQUENCE, Trust.LOCAL, Adjacency.ANY_TWO_INPUTS)
        return TextRelease(trained(task, ctx, epochs=1), task.checkpoint, stated, None, None, ctx.seed)
    def releases_at(self):
        return "embedding"
'''
)


def test_a_local_claim_on_rows_that_tell_the_length_is_refuted(matrix: Matrix, tmp_path: Path) -> None:
    done = run(
        matrix(defenses='[[defense]]\nuse = "leaky"\n'), out=tmp_path / "out", plugins=[plugin(tmp_path, RAGGED)]
    )
    assert done.result.defenses[0].verdict.ruling is Ruling.REFUTED
