"""A planted attribute is found by every classifier, pooled or by token, rare or common; an absent one is not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from dpeval.context import RunContext
from dpeval.measure.attribute import AttributeRun, measure_attribute
from dpeval.plugin import Knowledge
from dpeval.types import Embeddings, Estimate, Records
from dpeval_attacks.attribute.probe import AttributeProbe
from dpeval_defenses.none import Undefended

WIDTH = 8


@dataclass(frozen=True, eq=False)
class Planted:
    """Rows of standard normal noise; one row of each text (or all) is moved by ``shift`` towards its value."""

    shift: float
    everywhere: bool
    values: dict[str, int]
    targets: Records
    tap: str = "output"
    encoding: None = None

    def intercepted(self, *, draw: int = 0) -> Embeddings:
        return self.embed(self.targets, draw=draw)

    def embed(self, records: Records, *, draw: int = 0) -> Embeddings:
        rows = [self._rows(key) for key in records.ids]
        offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        return Embeddings(records.ids, np.concatenate(rows).astype(np.float32), offsets)

    def _rows(self, key: str) -> np.ndarray:
        rng = np.random.default_rng(int(key[1:]))
        found = rng.standard_normal((int(rng.integers(3, 7)), WIDTH))
        found[slice(None) if self.everywhere else int(rng.integers(len(found)))] += (
            self.shift * np.eye(WIDTH)[self.values[key]]
        )
        return found


@dataclass(frozen=True, eq=False)
class Case:
    view: Planted
    knowledge: Knowledge
    targets: Records

    @property
    def truth(self) -> np.ndarray:
        return np.array(self.targets.attributes)


def case(checkpoint, shares, *, shift=4.0, everywhere=True, own=240, asked=240, values=None, seed=0) -> Case:
    rng = np.random.default_rng(seed)
    drawn = tuple(int(v) for v in rng.choice(len(shares), own + asked, p=shares))
    start = 10_000 * (seed + 1)
    ids = tuple(f"r{start + i}" for i in range(own + asked))
    both = Records(ids, ids, (0,) * len(ids), attributes=drawn)
    auxiliary, targets = both.take(range(own)), both.take(range(own, own + asked))
    known = Knowledge(checkpoint, Undefended(), auxiliary, num_labels=2, num_attribute_values=values or len(shares))
    return Case(Planted(shift, everywhere, dict(zip(ids, drawn, strict=True)), targets), known, targets)


def answers(one: Case, **options) -> np.ndarray:
    found = AttributeProbe(**options).infer(one.view, one.targets.ids, one.knowledge, RunContext(seed=3))
    return found.scores.argmax(axis=1)


def gain(one: Case, guessed: np.ndarray) -> Estimate:
    run = AttributeRun(one.targets.ids, guessed, one.truth, one.knowledge.num_attribute_values)
    found = measure_attribute([run]).estimates["gain_balanced_accuracy"]
    assert isinstance(found, Estimate)
    return found


@pytest.mark.parametrize("pooling", ["mean", "tokens"])
@pytest.mark.parametrize("model", ["logistic", "mlp", "knn"])
@pytest.mark.parametrize("shares", [(0.95, 0.05), (0.5, 0.3, 0.15, 0.05)])
def test_a_planted_attribute_is_found(world, model, pooling, shares):
    """95/5, and four values of which the rarest has one text in twenty."""
    one = case(world.checkpoint, shares)
    found = gain(one, answers(one, model=model, pooling=pooling))
    assert found.low > 0.15
    assert found.value > 0.3


@pytest.mark.parametrize("model", ["logistic", "mlp", "knn"])
def test_an_attribute_in_one_token_of_each_text_is_found(world, model):
    one = case(world.checkpoint, (0.5, 0.5), shift=8.0, everywhere=False)
    assert gain(one, answers(one, model=model, pooling="tokens")).low > 0.2


@pytest.mark.parametrize("model", ["logistic", "mlp", "knn"])
@pytest.mark.parametrize("pooling", ["mean", "tokens"])
def test_a_value_that_is_only_among_the_targets_is_never_answered(world, model, pooling):
    """The others are found all the same, and every number stays defined."""
    one = case(world.checkpoint, (0.4, 0.3, 0.3), values=5)
    own = one.knowledge.auxiliary
    lacking = own.take(i for i, v in enumerate(own.attributes) if v != 2)
    partial = Case(one.view, Knowledge(world.checkpoint, Undefended(), lacking, 2, 5), one.targets)
    guessed = answers(partial, model=model, pooling=pooling)
    assert set(guessed.tolist()) <= {0, 1}
    assert np.mean(guessed[one.truth == 0] == 0) > 0.8
    run = AttributeRun(one.targets.ids, guessed, one.truth, 5)
    found = measure_attribute([run]).estimates
    assert all(isinstance(e, Estimate) for e in found.values())
    assert found["worst_class_recall"].value == 0


def test_a_value_that_no_target_has_takes_no_part_in_the_measure(world):
    one = case(world.checkpoint, (0.4, 0.3, 0.3))
    few = one.targets.take(i for i, v in enumerate(one.targets.attributes) if v != 2)
    some = Case(Planted(4.0, True, one.view.values, few), one.knowledge, few)
    found = gain(some, answers(some))
    assert found.value == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("model", ["logistic", "mlp", "knn"])
def test_every_tap_of_the_model_gives_the_attribute_away(world, model):
    truth = np.array(world.targets.attributes)
    for tap in world.checkpoint.positions():
        found = AttributeProbe(model=model).infer(world.view(tap), world.targets.ids, world.knowledge, world.ctx)
        assert np.mean(found.scores.argmax(axis=1) == truth) >= 0.7, tap


@pytest.mark.parametrize("constant", [0, 1])
def test_a_constant_predictor_gains_exactly_nothing(world, constant):
    one = case(world.checkpoint, (0.95, 0.05))
    assert gain(one, np.full(len(one.targets), constant)).value == 0.0


def coverage(checkpoint, runs: int, models: int = 1, **options) -> float:
    """Share of experiments without any planted attribute whose interval of the gain covers 0."""
    hits = 0
    for seed in range(runs):
        some = [
            case(checkpoint, (0.6, 0.4), shift=0.0, own=60, asked=120, seed=1000 + seed * models + m)
            for m in range(models)
        ]
        guess = np.random.default_rng(seed).integers(0, 2, (models, 120))
        measured = [
            AttributeRun(c.targets.ids, answers(c, views=1, **options), c.truth, 2, baselines={"guess": g})
            for c, g in zip(some, guess, strict=True)
        ]
        found = measure_attribute(measured).estimates["gain_balanced_accuracy"]
        hits += not found.excludes(0.0)
    return hits / runs


def test_nothing_is_gained_where_nothing_is_planted(world):
    """The best baseline is chosen among several, one of them a coin; 40 runs (binomial: 34 or more of 40 at 93 %)."""
    assert coverage(world.checkpoint, 40) >= 34 / 40


@pytest.mark.slow
@pytest.mark.parametrize(("model", "models"), [("logistic", 1), ("logistic", 3), ("mlp", 1), ("knn", 1)])
def test_nothing_is_gained_where_nothing_is_planted_in_number(world, model, models):
    assert coverage(world.checkpoint, 300, models, model=model) >= 0.93
