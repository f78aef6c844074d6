"""A defense that cannot run on these records says so before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpeval import matrix
from dpeval.config import Named
from dpeval.plugin import Context, Defense, Release, Task
from dpeval.tiny import tiny_checkpoint, tiny_dataset
from dpeval.types import Unfit
from dpeval_attacks.inversion.nearest import NearestInversion


@dataclass(frozen=True, kw_only=True)
class PairsOnly(Defense):
    """Trains on pairs of texts only."""

    source: ClassVar[str] = "made for this test"

    def train(self, task: Task, ctx: Context) -> Release:
        raise NotImplementedError

    def unfit_data(self, dataset, checkpoint) -> str | None:
        return None if isinstance(dataset.records.texts[0], tuple) else f"{dataset.name}: expected pairs"


def test_the_reason_becomes_that_of_its_cells(tmp_path) -> None:
    dataset, checkpoint = tiny_dataset(), tiny_checkpoint(tmp_path)
    found = matrix._problem(Named("pairs", "pairs", PairsOnly()), dataset, checkpoint, 20)
    assert found == Unfit(f"{dataset.name}: expected pairs")


def test_a_position_that_the_model_lacks_is_no_failure_of_the_attack_on_another_defense(tmp_path) -> None:
    dataset, checkpoint = tiny_dataset(), tiny_checkpoint(tmp_path)
    attack = Named("invert-nearest", "nearest", NearestInversion())
    found = matrix._misfit(attack, "encoder.99.mha", dataset, checkpoint, planted=False)
    assert isinstance(found, Unfit)
    assert "unknown position 'encoder.99.mha'" in found.reason
    assert matrix._misfit(attack, "encoder.0.add_norm_2", dataset, checkpoint, planted=False) is None
