"""From an experiment to cells and jobs: every cell is planned, or unfit for a reason, before anything is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from dpeval import seeds
from dpeval.config import Experiment, Named
from dpeval.controls import OverfitControl, UntrainedControl
from dpeval.data.canaries import make_canaries, plant
from dpeval.data.split import split
from dpeval.errors import DpevalError
from dpeval.fitness import why_unfit
from dpeval.jobs import Job, Trial, as_attack, as_defense
from dpeval.materials import Materials
from dpeval.models.checkpoint import Checkpoint
from dpeval.shadows import CONTROL_SHADOWS, SMOKE_SHADOWS, Law, halves_of, pair_seed, shadow_seed, shadow_split
from dpeval.types import Access, Dataset, Failed, Records, Split, Unfit

CONTROL_MEMBERS = 160
NOBODY = Records((), (), ())
NO_CANARIES = "no canaries are planted; write a table [canaries] with count = 200 into the matrix file"
OVERFIT = Named("control", "positive control", OverfitControl())
UNTRAINED = Named("control", "negative control", UntrainedControl())


@dataclass(frozen=True)
class Cell:
    """One attack on one defense at one tap, on one data set and model, over all seeds."""

    defense: Named
    attack: Named
    tap: str | None
    data: int
    model: int
    problem: Unfit | Failed | None = None

    @property
    def trial(self) -> Trial:
        """The trial that fills the cell."""
        return Trial(self.attack, self.tap)


@dataclass(frozen=True)
class Plan:
    """All cells, in the order of the matrix file, and the jobs that fill them."""

    cells: tuple[Cell, ...]
    jobs: tuple[Job, ...]
    problems: tuple[tuple[Named, int, int, Unfit | Failed], ...] = ()
    """(defense, data, model, why) for releases that cannot be trained."""
    shadows: tuple[Job, ...] = ()
    """The shadow releases that attacks ask for; they are trained before the jobs that use them."""


def plan(experiment: Experiment, materials: Materials) -> Plan:
    """Lay out every cell and every job."""
    cells: list[Cell] = []
    jobs: list[Job] = []
    problems: list[tuple[Named, int, int, Unfit | Failed]] = []
    for data, model in materials.pairs():
        checkpoint = materials.checkpoints[model]
        dataset, splits = _divided(experiment, materials.datasets[data])
        law = _law(experiment, dataset)
        members = min((len(s.trained) for s in splits.values()), default=0)
        for defense in experiment.defenses:
            problem = _problem(defense, dataset, checkpoint, members)
            if problem is not None:
                problems.append((defense, data, model, problem))
            mine = list(_cells(experiment, defense, data, model, dataset, checkpoint, problem))
            cells.extend(mine)
            if problem is None and isinstance(dataset, Dataset):
                trials = tuple(c.trial for c in mine if c.problem is None)
                trained = [
                    _job(experiment, defense, data, model, seed, parts, dataset, trials, audit=i == 0)
                    for i, (seed, parts) in enumerate(splits.items())
                ]
                most = SMOKE_SHADOWS if experiment.limit is not None else None
                jobs.extend(with_shadows(trained, law, most))
        if isinstance(dataset, Dataset) and isinstance(checkpoint, Checkpoint):
            here = [c for c in cells if (c.data, c.model) == (data, model) and c.problem is None]
            jobs.extend(_controls(experiment, data, model, splits, dataset, here))
    shadows = dict.fromkeys(shadow for job in jobs for shadow in job.shadows)
    return Plan(tuple(cells), tuple(jobs), tuple(problems), tuple(shadows))


def with_shadows(jobs: Sequence[Job], law: Law, most: int | None = None) -> list[Job]:
    """``jobs``, which differ by their seeds, with the shadow releases that their attacks declare, ``most`` at most."""
    declared = max((as_attack(t.attack).shadows for job in jobs for t in job.trials), default=0)
    count = declared if most is None else min(declared, most)
    shadows = tuple(
        dataclasses.replace(
            jobs[0],
            seed=shadow_seed(i),
            split=shadow_split(law, i),
            trials=(),
            inversion_targets=NOBODY,
            attribute_targets=NOBODY,
            audit=False,
            shadow=True,
        )
        for i in range(count)
    )
    return [dataclasses.replace(job, shadows=shadows) for job in jobs]


def _law(experiment: Experiment, dataset: Dataset | Failed) -> Law:
    """The law of the shadows: what a matrix with another seed would have drawn; each pair is drawn once."""

    @cache
    def draw(pair: int) -> Split:
        if isinstance(dataset, Failed):
            raise TypeError(f"{dataset.where}: no shadow is drawn from data that could not be loaded")
        return _split(experiment, dataset, pair_seed(pair))

    return draw


def _split(experiment: Experiment, dataset: Dataset, seed: int) -> Split:
    """The roles of one seed, canaries among what is trained on."""
    parts = split(dataset, seed, experiment.split)
    return parts if experiment.canaries is None else plant(parts, make_canaries(dataset, experiment.canaries), seed)


def _divided(experiment: Experiment, dataset: Dataset | Failed) -> tuple[Dataset | Failed, dict[int, Split]]:
    """The split of each seed; a data set that cannot be divided into its roles fails like one that cannot be read."""
    if isinstance(dataset, Failed):
        return dataset, {}
    try:
        return dataset, {seed: _split(experiment, dataset, seed) for seed in experiment.seeds}
    except DpevalError as error:
        return Failed(str(error), dataset.name), {}


def _problem(
    defense: Named, dataset: Dataset | Failed, checkpoint: Checkpoint | Failed, members: int
) -> Unfit | Failed | None:
    for material in (dataset, checkpoint):
        if isinstance(material, Failed):
            return material
    assert isinstance(checkpoint, Checkpoint)  # noqa: S101 - told to the type checker; the loop above returned otherwise
    assert isinstance(dataset, Dataset)  # noqa: S101
    why = as_defense(defense).unfit(checkpoint, members) or as_defense(defense).unfit_data(dataset, checkpoint)
    return Unfit(why) if why else None


def _cells(
    experiment: Experiment,
    defense: Named,
    data: int,
    model: int,
    dataset: Dataset | Failed,
    checkpoint: Checkpoint | Failed,
    problem: Unfit | Failed | None,
) -> Iterator[Cell]:
    for attack in experiment.attacks:
        for tap in taps_for(experiment, defense, attack):
            planted = experiment.canaries is not None
            why = problem or _misfit(attack, tap, dataset, checkpoint, planted=planted)
            yield Cell(defense, attack, tap, data, model, why)


def taps_for(experiment: Experiment, defense: Named, attack: Named) -> tuple[str | None, ...]:
    """Where ``attack`` meets ``defense``: nowhere in particular, at the defense's own tap, or at the matrix's taps."""
    if as_attack(attack).access is not Access.EMBEDDINGS:
        return (None,)
    own = as_defense(defense).releases_at()
    if own is not None:
        return (own,)
    if experiment.release.taps:
        return experiment.release.taps
    others = [as_defense(d).releases_at() for d in experiment.defenses]
    return tuple(dict.fromkeys([*(tap for tap in others if tap), "output"]))


def _misfit(
    attack: Named, tap: str | None, dataset: Dataset | Failed, checkpoint: Checkpoint | Failed, *, planted: bool
) -> Unfit | None:
    if isinstance(dataset, Failed) or isinstance(checkpoint, Failed):
        return None
    if as_attack(attack).goal == "extraction" and not planted:
        return Unfit(NO_CANARIES)
    if as_attack(attack).goal == "attribute" and dataset.attribute_name is None:
        return Unfit("no sensitive attribute: [data] names no `attribute` column")
    if as_attack(attack).access is Access.WEIGHTS:
        return Unfit("no defense of this matrix releases its weights")
    why = (checkpoint.lacks(tap) if tap else None) or why_unfit(as_attack(attack), checkpoint, tap)
    return Unfit(why) if why else None


def _job(
    experiment: Experiment,
    defense: Named,
    data: int,
    model: int,
    seed: int,
    parts: Split,
    dataset: Dataset,
    trials: tuple[Trial, ...],
    *,
    control: bool = False,
    audit: bool = False,
) -> Job:
    return Job(
        defense=defense,
        data=data,
        model=model,
        seed=seed,
        split=parts,
        num_labels=len(dataset.label_names),
        num_attribute_values=len(dataset.attribute_values),
        trials=trials,
        inversion_targets=_some(parts.members, experiment.release.targets, seed)
        + _some(parts.nonmembers, experiment.release.targets, seed),
        attribute_targets=_with_attribute(parts.members) + _with_attribute(parts.nonmembers),
        control=control,
        audit=audit,
    )


def _some(records: Records, count: int, seed: int) -> Records:
    chosen = seeds.rng(seed, "targets").permutation(len(records))[:count]
    return records.take(sorted(int(i) for i in chosen))


def _with_attribute(records: Records) -> Records:
    return records.take(i for i, value in enumerate(records.attributes) if value is not None)


def _controls(
    experiment: Experiment, data: int, model: int, splits: dict[int, Split], dataset: Dataset, cells: list[Cell]
) -> Iterator[Job]:
    """The control jobs of one data set and model, on as many seeds as the matrix says."""
    on_predictions = tuple(dict.fromkeys(c.attack for c in cells if c.tap is None))
    at_taps = dict.fromkeys((c.attack, c.tap) for c in cells if c.tap is not None)
    positive = tuple(Trial(a, None, "positive") for a in on_predictions)
    negative = tuple(Trial(a, None, "negative") for a in on_predictions)
    clear = tuple(Trial(a, tap, role) for a, tap in at_taps for role in ("positive", "negative"))
    for seed in experiment.controls.first(experiment.seeds):
        parts = splits[seed]
        for control, held, trials in ((OVERFIT, few_of(parts, seed), positive), (UNTRAINED, parts, negative + clear)):
            if trials:
                job = _job(experiment, control, data, model, seed, held, dataset, trials, control=True)
                yield from with_shadows([job], halves_of(held), CONTROL_SHADOWS)


def few_of(parts: Split, seed: int) -> Split:
    """What the over-fitted model is trained and attacked on: few enough to memorise in little time."""
    return dataclasses.replace(
        parts,
        members=_some(parts.members, CONTROL_MEMBERS, seed),
        nonmembers=_some(parts.nonmembers, CONTROL_MEMBERS, seed),
    )
