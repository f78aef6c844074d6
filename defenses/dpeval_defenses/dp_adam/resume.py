"""Checkpoints of a private run: an interrupted run that is resumed ends with the weights of an unbroken one.

Draws, noise and dropout are named by the step's number, so the number of steps taken continues all three, and the
accountant with them. The rest is trained weights and optimizer moments. Written beside and renamed: a checkpoint that
exists is whole. The seeds are not in it; only a digest is, to refuse a resume with other ones. The weights are those
that training has already noised, so a checkpoint tells nothing beyond the steps it counts, but its log does (it is the
same diagnostics as :mod:`steplog`): keep it where the data is kept.

>>> import tempfile, pathlib
>>> from dpeval_defenses.dp_adam.noise import SeededNoise
>>> from dpeval_defenses.dp_adam.sampler import PoissonSampler
>>> from dpeval_defenses.dp_adam.settings import TrainSettings
>>> from dpeval_defenses.dp_adam.trainer import PrivateTrainer
>>> def trainer():
...     model = torch.nn.Linear(3, 1); torch.nn.init.zeros_(model.weight); torch.nn.init.zeros_(model.bias)
...     loss = lambda at: model(torch.ones(len(at), 3)).square().sum(1) + model(torch.ones(len(at), 3)).sum(1)
...     settings = TrainSettings(steps=4, max_norm=0.1, noise_multiplier=1.0, learning_rate=0.1)
...     return PrivateTrainer(model, loss, PoissonSampler(50, 0.2, entropy=1), SeededNoise(2), settings)
>>> unbroken = trainer(); _ = [unbroken.step() for _ in range(4)]
>>> first = trainer(); _ = [first.step() for _ in range(2)]
>>> folder = pathlib.Path(tempfile.mkdtemp()) / "checkpoint"
>>> save(first, folder); second = trainer(); restore(second, folder); _ = [second.step() for _ in range(2)]
>>> second.steps_taken, torch.equal(second.model.weight, unbroken.model.weight)
(4, True)

:func:`run_to_end` does all this for a run of one's own: start it again with the same arguments after any stop.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from dpeval.files import sync_folder, write_json
from dpeval_defenses.dp_adam.noise import SeededNoise
from dpeval_defenses.dp_adam.steplog import StepLog
from dpeval_defenses.dp_adam.trainer import PrivateTrainer

log = logging.getLogger(__name__)
_FORMAT = 1


def run_to_end(
    trainer: PrivateTrainer,
    folder: Path,
    *,
    every: int | None = None,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> None:
    """Continue from the checkpoint in ``folder`` if there is one (unless ``trainer`` has taken steps already), save now
    and then, and finish the run.

    ``every`` counts the steps between checkpoints; by default they come so far apart that saving takes a few percent of
    the time. With several processes only the first saves; all of them must see ``folder``. ``progress`` is given the
    numbers of the steps left.
    """
    if trainer.steps_taken == 0 and found(folder):
        restore(trainer, folder)
    pace = _Pace()
    try:
        for _ in progress(range(trainer.steps_taken, trainer.settings.steps)):
            trainer.step()
            due = pace.due() if every is None else trainer.steps_taken % every == 0
            if trainer.world.rank == 0 and due:
                with pace.saving():
                    save(trainer, folder)
    finally:
        trainer.close()


def finish_in(folder: Path, trainer: PrivateTrainer, progress: Callable[[Iterable[int]], Iterable[int]] = iter) -> None:
    """As :func:`run_to_end`, but a checkpoint that is damaged or of another version is dropped, and said."""
    if found(folder):
        try:
            restore(trainer, folder)
        except (ValueError, KeyError, OSError, SafetensorError) as error:
            log.warning("the checkpoint %s cannot be used: %s; the training starts anew", folder, error)
            drop(folder)
    run_to_end(trainer, folder, progress=progress)


class _Pace:
    """Says when a checkpoint is worth its time: not in the first second, and never for more than a twentieth of it."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 1.0

    def due(self) -> bool:
        return time.monotonic() >= self._next

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        start = time.monotonic()
        yield
        end = time.monotonic()
        self._next = end + max(1.0, 20 * (end - start))


def save(trainer: PrivateTrainer, folder: Path) -> None:
    """Write the state after the last finished step to ``folder``; an older one there goes only when it is done."""
    part, old = folder.with_name(f".{folder.name}.part"), _old(folder)
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    save_file(_tensors(trainer), part / "state.safetensors")
    write_json(part / "state.json", _facts(trainer) | {"log": [entry.plain() for entry in trainer.log]})
    sync_folder(part)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def restore(trainer: PrivateTrainer, folder: Path) -> None:
    """Put a new ``trainer``, made with the same arguments, into the state that :func:`save` wrote to ``folder``.

    ValueError names the setting that differs; FileNotFoundError if there is no checkpoint.
    """
    source = _place(folder)
    if source is None:
        raise FileNotFoundError(f"no checkpoint at {folder}: start the run from its beginning")
    state = json.loads((source / "state.json").read_text(encoding="utf-8"))
    _check_same(state, _facts(trainer), folder)
    tensors = load_file(source / "state.safetensors")
    with torch.no_grad():
        for name, p in trainer.moved.items():
            p.copy_(tensors[f"trained/{name}"])
    trainer.optimizer.load_state_dict(_optimizer_state(trainer, tensors))
    trainer.log[:] = [StepLog.from_plain(values) for values in state["log"]]


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def drop(folder: Path) -> None:
    """Remove the checkpoint in ``folder``, if there is one."""
    for path in (folder, _old(folder)):
        shutil.rmtree(path, ignore_errors=True)


def found(folder: Path) -> bool:
    """Whether ``folder`` holds a checkpoint."""
    return _place(folder) is not None


def _place(folder: Path) -> Path | None:
    return next((path for path in (folder, _old(folder)) if path.exists()), None)


def _tensors(trainer: PrivateTrainer) -> dict[str, torch.Tensor]:
    state = {f"trained/{name}": p for name, p in trainer.moved.items()}
    for number, moments in trainer.optimizer.state_dict()["state"].items():
        state |= {f"optimizer/{number}/{key}": value for key, value in moments.items()}
    return {name: value.detach().contiguous().cpu() for name, value in state.items()}


def _optimizer_state(trainer: PrivateTrainer, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in tensors.items():
        kind, *rest = name.split("/")
        if kind == "optimizer":
            moments.setdefault(int(rest[0]), {})[rest[1]] = value
    return {"state": moments, "param_groups": trainer.optimizer.state_dict()["param_groups"]}


def _facts(trainer: PrivateTrainer) -> dict[str, Any]:
    """Everything that has to be the same before and after, as plain values."""
    repeatable = isinstance(trainer.noise, SeededNoise)
    secret = repr((trainer.sampler, trainer.noise, trainer.settings.dropout_entropy))
    settings = {k: v for k, v in dataclasses.asdict(trainer.settings).items() if k != "dropout_entropy"}
    return {
        "format": _FORMAT,
        "num_records": trainer.sampler.num_records,
        "rate": trainer.sampler.rate,
        "settings": settings,
        "trained": {name: list(p.shape) for name, p in trainer.trained.items()},
        "streams": hashlib.sha256(secret.encode()).hexdigest() if repeatable else "not repeatable",
    }


def _check_same(saved: dict[str, Any], now: dict[str, Any], folder: Path) -> None:
    for key, value in now.items():
        if saved.get(key) != value:
            raise ValueError(
                f"cannot resume from {folder}: its {key} is {saved.get(key)!r}, this run's is {value!r}. "
                "Resume with the settings of the first part, or start anew elsewhere"
            )
