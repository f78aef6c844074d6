"""On which seeds attacks are validated, and that every one of them has to bear it out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpeval.collect.controls import _weakest
from dpeval.config import read_matrix
from dpeval.control_config import ControlConfig
from dpeval.errors import ConfigError
from dpeval.materials import load_materials
from dpeval.matrix import plan
from dpeval.report.controls import section
from dpeval.report.example import tiny_run
from dpeval.tiny import tiny_checkpoint
from dpeval.types import Estimate, Undefined

MATRIX = """
seeds = [0, 1, 2]
[data]
source = "synthetic:reviews?n=60"
text = "text"
label = "label"
attribute = "genre"
[model]
source = "{model}"
max_length = 24
[[defense]]
use = "none"
[[attack]]
use = "mia-threshold"
[[attack]]
use = "mia-lira"
shadows = 2
[[attack]]
use = "attribute-probe"
{controls}
"""
THRESHOLD, LIRA, PROBE = ("mia-threshold", "mia-lira", "attribute-probe")


def controls(folder: Path, text: str = "") -> dict[tuple[int, str], list[tuple[str, str]]]:
    """The (attack, role) pairs of each control job, by seed and label."""
    tiny_checkpoint(folder)
    file = folder / "m.toml"
    file.write_text(MATRIX.format(model=folder, controls=text), encoding="utf-8")
    experiment = read_matrix(file)
    jobs = plan(experiment, load_materials(experiment)).jobs
    return {
        (job.seed, job.defense.label.split()[0]): [(t.attack.label, t.role) for t in job.trials]
        for job in jobs
        if job.control
    }


def test_by_default_controls_run_on_the_first_seed(tmp_path: Path) -> None:
    found = controls(tmp_path)
    assert set(found) == {(0, "positive"), (0, "negative")}
    assert found[0, "positive"] == [(THRESHOLD, "positive"), (LIRA, "positive")]
    both = [(PROBE, "positive"), (PROBE, "negative")]
    assert found[0, "negative"] == [(THRESHOLD, "negative"), (LIRA, "negative"), *both]


@pytest.mark.parametrize(("text", "seeds"), [('seeds = "all"', 3), ("seeds = 2", 2), ("seeds = 9", 3)])
def test_a_setting_validates_on_more_seeds(tmp_path: Path, text: str, seeds: int) -> None:
    found = controls(tmp_path, f"[controls]\n{text}")
    whole = [seed for seed in range(3) if (seed, "positive") in found]
    assert whole == list(range(seeds))
    assert all(found[seed, "negative"] == found[0, "negative"] for seed in whole)


@pytest.mark.parametrize("text", ["seeds = 0", 'seeds = "some"', "seeds = true", "seed = 1"])
def test_what_makes_no_sense_is_refused_by_key(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"controls\.?.*seeds?"):
        controls(tmp_path, f"[controls]\n{text}")


def test_the_worst_model_decides() -> None:
    """A good mean over the seeds must not hide a seed on which the attack fails; an undefined one fails, too."""
    good, bad = Estimate(0.9, 0.8, 0.95, n=100), Estimate(0.6, 0.45, 0.7, n=100)
    assert _weakest([good, bad, good]) == bad
    assert _weakest([good, bad], largest=True) == good
    assert _weakest([good, Undefined("failed")]) == Undefined("failed")


def test_the_report_says_on_how_many_models() -> None:
    run = tiny_run()
    several = replace(run, controls=tuple(replace(c, models=(3, 2)) for c in run.controls))
    text = "\n".join(section(several))
    assert "0.90 [0.86, 0.94] (400 records, the worst of 3 models)" in text
    assert "the worst of 2 models" in text
    assert "(400 records, 1 model)" in "\n".join(section(run))


def test_all_means_every_seed() -> None:
    assert ControlConfig(seeds="all").first((4, 5)) == (4, 5)
