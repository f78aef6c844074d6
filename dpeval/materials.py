"""Loads what an experiment works on, and checks it, before anything is trained.

A data set or model that cannot be loaded fails its own cells; if none can be loaded the run stops here.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from dpeval.config import Experiment
from dpeval.data.config import DataConfig
from dpeval.data.load import load_dataset
from dpeval.errors import ConfigError, DpevalError
from dpeval.models.checkpoint import Checkpoint
from dpeval.models.config import ModelConfig
from dpeval.types import Dataset, Failed
from dpeval.work import checkpoint_for

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Materials:
    """Data sets and checkpoints by their number in the matrix file; a failure in the place of what could not be had."""

    datasets: tuple[Dataset | Failed, ...]
    checkpoints: tuple[Checkpoint | Failed, ...]
    data_names: tuple[str, ...]
    model_names: tuple[str, ...]

    def pairs(self) -> Iterator[tuple[int, int]]:
        """(data, model) numbers, in the order of the file."""
        return itertools.product(range(len(self.datasets)), range(len(self.checkpoints)))


def load_materials(experiment: Experiment) -> Materials:
    """Load every data set and model; ConfigError when nothing is left to work on."""
    sources = [_limited(config, experiment.limit) for config in experiment.data]
    datasets = tuple(_try(lambda c=c: load_dataset(c, experiment.base), c.source) for c in sources)  # type: ignore[misc]
    checkpoints = tuple(_try(lambda c=c: checkpoint_for(c, experiment.base), c.source) for c in experiment.models)  # type: ignore[misc]
    for kind, found in (("data", datasets), ("model", checkpoints)):
        if all(isinstance(one, Failed) for one in found):
            first = found[0]
            raise ConfigError(first.message if isinstance(first, Failed) else "", file=experiment.file, key=kind)
    return Materials(
        datasets,
        checkpoints,
        _distinct([data_name(config) for config in sources]),
        _distinct([model_name(config) for config in experiment.models]),
    )


def data_name(config: DataConfig) -> str:
    """What a data set is called in reports: the file's name without its folder and endings, or the whole source.

    >>> data_name(DataConfig(source="../data/reviews.csv.bz2", text="text", label="label"))
    'reviews'
    """
    source = config.source
    if source.startswith(("hub:", "synthetic:")):
        return source.removeprefix("hub:")
    return source.rstrip("/").rpartition("/")[2].partition(".")[0] or source


def model_name(config: ModelConfig) -> str:
    """What a model is called in reports: the last two parts of its source.

    >>> model_name(ModelConfig(source="hub:bert-base-uncased")), model_name(ModelConfig(source="/data/minilm/model"))
    ('bert-base-uncased', 'minilm/model')
    """
    return "/".join(config.source.removeprefix("hub:").strip("/").split("/")[-2:]) or config.source


def _limited(config: DataConfig, limit: int | None) -> DataConfig:
    if limit is None:
        return config
    return dataclasses.replace(config, sample=min(limit, config.sample or limit))


def _try(load: Callable[[], T], source: str) -> T | Failed:
    try:
        return load()
    except DpevalError as error:
        log.warning("%s: %s", source, error)
        return Failed(str(error), source)


def _distinct(names: list[str]) -> tuple[str, ...]:
    return tuple(name if names.count(name) == 1 else f"{name} #{i + 1}" for i, name in enumerate(names))
