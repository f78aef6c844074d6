"""What can be told without any embedding: covariates raise the baseline, rare values keep the ceiling honest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpeval.collect.attributes import LABEL_AND_LENGTH, Columns, attribute_knowledge
from dpeval.config import Named
from dpeval.jobs import Job
from dpeval.types import Covariate, Records, Split
from dpeval_defenses.none import Undefended

NOBODY = Records((), (), ())


def balanced(guessed: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean([np.mean(guessed[truth == v] == v) for v in np.unique(truth)]))


def people(shares: tuple[float, ...], n: int = 500, told: float = 0.5, seed: int = 0) -> tuple[Records, Columns]:
    """Texts that name their value with probability ``told``, and an age and a city that go with it."""
    rng = np.random.default_rng(seed)
    values = rng.choice(len(shares), n, p=shares)
    word = np.where(rng.random(n) < told, values, rng.integers(0, len(shares), n))
    texts = tuple(f"some talk about topic{w} and {' '.join(rng.choice(list('abcdefgh'), 4))}" for w in word)
    ids = tuple(f"p{i}" for i in range(n))
    age = tuple(None if rng.random() < 0.1 else float(30 + 25 * v + rng.normal(0, 6)) for v in values)
    city = tuple(f"city{v}" if rng.random() < 0.3 else "elsewhere" for v in values)
    records = Records(ids, texts, tuple(i % 2 for i in range(n)), attributes=tuple(values.tolist()))
    return records, Columns(ids, (Covariate("age", age), Covariate("city", city)))


def job_of(records: Records, values: int) -> tuple[Job, Records]:
    half = len(records) // 2
    targets = records.take(range(half, len(records)))
    parts = Split(targets, NOBODY, records.take(range(half)), NOBODY)
    defense = Named("none", "none", Undefended())
    return Job(defense, 0, 0, 0, parts, 2, values, (), NOBODY, targets), targets


@pytest.mark.parametrize("shares", [(0.9, 0.1), (0.5, 0.3, 0.2)])
def test_covariates_are_a_baseline_beside_label_and_length(shares: tuple[float, ...]) -> None:
    records, columns = people(shares)
    job, targets = job_of(records, len(shares))
    truth = np.array(targets.attributes)
    bare, known = attribute_knowledge(job, targets), attribute_knowledge(job, targets, columns)
    assert list(bare.baselines) == [LABEL_AND_LENGTH]
    assert list(known.baselines) == [LABEL_AND_LENGTH, f"{LABEL_AND_LENGTH}, age, city"]
    assert np.array_equal(bare.baselines[LABEL_AND_LENGTH], known.baselines[LABEL_AND_LENGTH])
    weak, strong = (balanced(guessed, truth) for guessed in known.baselines.values())
    assert weak < 1 / len(shares) + 0.15
    assert strong > 0.85
    frequent = known.by_frequency[f"{LABEL_AND_LENGTH}, age, city"]
    assert np.mean(frequent == truth) > max(shares)


def test_covariates_are_joined_by_id() -> None:
    records, columns = people((0.5, 0.5))
    job, targets = job_of(records, 2)
    order = np.random.default_rng(1).permutation(len(columns.ids)).tolist()
    shuffled = Columns(
        tuple(columns.ids[i] for i in order),
        tuple(Covariate(one.name, tuple(one.values[i] for i in order)) for one in columns.covariates),
    )
    first, second = (attribute_knowledge(job, targets, c).baselines for c in (columns, shuffled))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_the_ceiling_reads_rare_values_too() -> None:
    """Nineteen of twenty have one value, and the text always tells: always answering it is half of a ceiling."""
    records, columns = people((0.95, 0.05), told=1.0)
    job, targets = job_of(records, 2)
    ceiling = attribute_knowledge(job, targets, columns).ceiling
    assert ceiling is not None
    assert balanced(ceiling, np.array(targets.attributes)) > 0.95


def test_values_that_only_one_side_has_leave_every_number_defined() -> None:
    records, columns = people((0.4, 0.3, 0.3))
    half = len(records) // 2
    early = tuple(None if i < half and v == 2 else v for i, v in enumerate(records.attributes))
    job, targets = job_of(replace(records, attributes=early), 4)
    known = attribute_knowledge(job, targets, columns)
    assert known.prior[2:].tolist() == [0, 0]
    assert all(set(guessed.tolist()) <= {0, 1} for guessed in known.baselines.values())
    one = replace(records, attributes=tuple(0 if i < half else v for i, v in enumerate(records.attributes)))
    assert attribute_knowledge(*job_of(one, 3), columns).baselines == {}
