"""The text behind ``dpeval plan``: every cell, what is cached, what is unfit and why, and what the rest may cost."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from tabulate import tabulate

from dpeval.config import Experiment, read_matrix
from dpeval.jobs import Job, as_defense
from dpeval.materials import Materials, load_materials
from dpeval.matrix import Plan, plan
from dpeval.models.checkpoint import Checkpoint
from dpeval.outlook import Stage, stages
from dpeval.run import STORE, output_folder
from dpeval.store import Store
from dpeval.types import Unfit

PROBE = 16
BACKWARD = 3.0
"""A training step costs about three forward passes."""
BYTES = 16
"""float32 weight, gradient and Adam's two moments, for each parameter."""


def render_plan(matrix: Path, out: Path | None, plugins: tuple[Path, ...] = (), limit: int | None = None) -> str:
    """Cells, cached work, misfits with reasons, and estimates. Trains nothing."""
    experiment = read_matrix(matrix, plugins, limit)
    materials = load_materials(experiment)
    planned = plan(experiment, materials)
    found = list(stages(planned, materials, Store(output_folder(experiment, out) / STORE)))
    return "\n\n".join([_cells(planned, materials, experiment, found), _work(found, materials), _seeds(experiment)])


def _cells(planned: Plan, materials: Materials, experiment: Experiment, found: list[Stage]) -> str:
    rows = []
    for cell in planned.cells:
        mine = [s for s in found if s.stage == "attack" and not s.job.control
                and (s.job.defense, s.job.data, s.job.model) == (cell.defense, cell.data, cell.model)
                and s.name == cell.attack.label + (f" at {cell.tap}" if cell.tap else "")]  # fmt: skip
        state = f"{sum(s.cached for s in mine)} of {len(experiment.seeds)} seeds cached"
        if cell.problem is not None:
            kind = "unfit" if isinstance(cell.problem, Unfit) else "failed"
            state = f"{kind}: {cell.problem.reason if isinstance(cell.problem, Unfit) else cell.problem.message}"
        where = [materials.data_names[cell.data], materials.model_names[cell.model]]
        rows.append([cell.defense.label, cell.attack.label, cell.tap or "predictions", *where, state])
    return f"{len(rows)} cells\n" + tabulate(
        rows, ["defense", "attack", "at", "data", "model", "state"], disable_numparse=True
    )


def _work(found: list[Stage], materials: Materials) -> str:
    todo = [s for s in found if not s.cached]
    trainings = [s.job for s in todo if s.stage == "release"]
    speed = {
        m: _seconds_per_text(c) for m, c in enumerate(materials.checkpoints) if isinstance(c, Checkpoint) and trainings
    }
    seconds = sum(_training_seconds(job, speed[job.model]) for job in trainings)
    memory = max((_bytes(materials.checkpoints[job.model]) for job in trainings), default=0)
    shadows = sum(job.shadow for job in trainings)
    text = f"{len(found) - len(todo)} stages cached, {len(todo)} to do, of them {len(trainings)} trainings"
    if any(stage.job.shadow for stage in found):
        text += f" ({shadows} of them shadow releases, shared by all attacks that use them)"
    if trainings:
        text += (
            f"\nabout {seconds / 60:.1f} processor minutes of training on this machine (full fine-tuning assumed; "
            f"attacks, frozen layers and cached features not counted), "
            f"about {memory / 2**30:.1f} GiB for each worker beside activations"
        )
    return text


def _training_seconds(job: Job, per_text: float) -> float:
    epochs = getattr(as_defense(job.defense), "epochs", 1)
    return float(epochs) * len(job.split.trained) * per_text * BACKWARD


def _seconds_per_text(checkpoint: Checkpoint) -> float:
    """Time one forward pass of the untrained model on texts of half the allowed length."""
    from dpeval.engine import limited_threads

    classifier = checkpoint.build(2, 0)
    length = max(4, checkpoint.max_length // 2)
    ids = torch.full((PROBE, length), min(checkpoint.vocab_size - 1, 100))
    with torch.inference_mode(), limited_threads(1):
        classifier(input_ids=ids, attention_mask=torch.ones_like(ids))
        start = time.perf_counter()
        classifier(input_ids=ids, attention_mask=torch.ones_like(ids))
    return (time.perf_counter() - start) / PROBE


def _bytes(checkpoint: object) -> int:
    if not isinstance(checkpoint, Checkpoint):
        return 0
    return BYTES * sum(p.numel() for p in checkpoint.build(2, 0).parameters())


def _seeds(experiment: Experiment) -> str:
    return f"seeds as understood: {', '.join(map(str, experiment.seeds))}"
