"""Guards on what is measured: V2 to V4, V6, V7, V14, V21 and V22."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpeval.collect.excess import attribute_excess, inversion_excess
from dpeval.config import read_matrix
from dpeval.measure.attribute import AttributeRun, measure_attribute
from dpeval.measure.influence import auc_part
from dpeval.measure.intervals import clopper_pearson, estimate
from dpeval.measure.inversion import InversionRun, measure_inversion
from dpeval.measure.membership import MembershipRun, measure_membership
from dpeval.measure.predictive import ppv
from dpeval.report.frame import COLUMNS
from dpeval.types import Estimate, Undefined


def names(n: int) -> tuple[str, ...]:
    return tuple(f"r{i}" for i in range(n))


def test_v02_the_accuracy_of_noise_is_one_half() -> None:
    """100 + 100 records: 0.543 with the threshold chosen on the measured records, 0.50 here."""
    rng, found = np.random.default_rng(0), []
    member = np.arange(200) < 100
    for k in range(200):
        run = MembershipRun(names(200), rng.normal(size=200), member)
        found.append(measure_membership([run], salt=k, exposed=0).estimates["balanced_accuracy"].value)
    assert abs(np.mean(found) - 0.5) < 0.01


@pytest.mark.parametrize(("nonmembers", "given"), [(298, False), (299, True)])
def test_v03_a_low_false_positive_rate_is_gated_by_three_over_alpha(nonmembers: int, given: bool) -> None:
    """299 non-members carry 1 %; with one fewer the number needed is printed and nothing else."""
    rng = np.random.default_rng(1)
    n = 300 + nonmembers
    member = np.arange(n) < 300
    found = measure_membership([MembershipRun(names(n), rng.normal(size=n) + member, member)], resamples=20)
    value = found.estimates["tpr@1%fpr"]
    assert isinstance(value, Estimate if given else Undefined)
    if isinstance(value, Undefined):
        assert "299 needed" in value.reason
    reached = found.details["reached"]["tpr@1%fpr"][0]
    assert reached["fpr"] <= 0.01
    assert clopper_pearson(round(reached["fpr"] * nonmembers), nonmembers).high < 0.03


def test_v04_planted_outliers_are_found_by_id_and_the_low_rates_come_first_after_the_auc() -> None:
    """Ten records of a thousand leak: the AUC hardly moves, they are named all the same."""
    rng = np.random.default_rng(2)
    member = rng.random(1000) < 0.5
    scores = rng.normal(size=1000)
    scores[:20] += 7.0 * member[:20]
    found = measure_membership([MembershipRun(names(1000), scores, member)], resamples=50)
    planted = {f"r{i}" for i in range(20) if member[i]}
    listed = [one["id"] for one in found.details["exposed"][: len(planted)]]
    assert abs(found.estimates["auc"].value - 0.5) < 0.05
    assert len(planted & set(listed)) >= min(len(listed), len(planted)) - 1
    assert list(found.estimates)[1:3] == ["tpr@1%fpr", "tpr@0.1%fpr"]


def test_v06_a_constant_answer_gains_exactly_nothing() -> None:
    """Nine of ten have the commonest value: 90 % accuracy is no inference."""
    truth = np.array([0] * 180 + [1] * 20)
    prior = np.array([0.9, 0.1])
    run = AttributeRun(names(200), np.zeros(200, dtype=int), truth, values=2, prior=prior)
    found = measure_attribute([run]).estimates
    assert found["accuracy"].value == 0.9
    assert found["gain_accuracy"].value == 0.0
    assert found["gain_balanced_accuracy"].value == 0.0
    oracle = measure_attribute([AttributeRun(names(200), truth, truth, values=2, prior=prior)]).estimates
    assert oracle["gain_accuracy"].value == pytest.approx(0.1)
    assert oracle["gain_balanced_accuracy"].low > 0.2


def test_v07_special_tokens_are_worth_nothing() -> None:
    """An attacker that answers [CLS] and [SEP] everywhere scores 0, though two rows of each text hold them."""
    truth = tuple((-1, 7, 8, 9, -1) for _ in range(30))
    run = InversionRun(names(30), ((1, 1, 1, 1, 2),) * 30, truth, content=frozenset({8, 9}), never=frozenset({0, 1, 2}))
    found = measure_inversion([run], auxiliary=[(-1, 7, 5, 5, -1)]).estimates
    for name in ("recall", "precision", "f1", "content_f1", "position_recall"):
        assert found[name].value == 0.0
        assert found[f"baseline_{name}"].value >= 0.0
    perfect = InversionRun(names(30), truth, truth, content=frozenset({8, 9}), never=frozenset({0, 1, 2}))
    assert measure_inversion([perfect], auxiliary=[(-1, 7, 5, 5, -1)]).estimates["f1"].value == 1.0


def coverage(models: int, between: float, repeats: int, seed: int) -> float:
    """Share of two-level experiments whose interval holds the true AUC."""
    rng, hits, n, shift = np.random.default_rng(seed), 0, 200, 0.9
    truth = stats.norm.cdf(shift / np.sqrt(2 + between**2))
    for _ in range(repeats):
        pool, parts = rng.normal(size=n), []
        for _ in range(models):
            member = rng.random(n) < 0.5
            scores = 0.6 * pool + 0.8 * rng.normal(size=n) + (shift + between * rng.normal()) * member
            parts.append(auc_part(scores, member, names(n)))
        found = estimate(parts)
        hits += found.low <= truth <= found.high
    return hits / repeats


@pytest.mark.parametrize("between", [0.0, 0.3])
def test_v14_intervals_cover_models_and_records(between: float) -> None:
    """Nominal 95 %; the marked calibration test measures it in number."""
    assert 0.90 <= coverage(3, between, 150, seed=3) <= 0.995


def test_v14_three_seeds_unless_said_otherwise_and_sizes_in_every_row(tmp_path) -> None:
    file = tmp_path / "m.toml"
    file.write_text(
        '[data]\nsource = "synthetic:reviews"\ntext = "text"\nlabel = "label"\n[model]\nsource = "x"\n'
        '[[defense]]\nuse = "none"\n',
        encoding="utf-8",
    )
    assert len(read_matrix(file).seeds) == 3
    assert {"n", "models"} <= set(COLUMNS)


def test_v21_equal_groups_have_no_memorisation_excess() -> None:
    """Members and others recovered alike: the leak is what embeddings tell of any text."""
    rng = np.random.default_rng(4)
    member = np.arange(200) < 100
    truth = np.ones(200, dtype=int)
    alike = AttributeRun(names(200), (rng.random(200) < 0.7).astype(int), truth, values=2)
    better = AttributeRun(names(200), (rng.random(200) < np.where(member, 0.9, 0.5)).astype(int), truth, values=2)
    assert not attribute_excess([alike], [member], 0.95).excludes(0.0)
    assert attribute_excess([better], [member], 0.95).low > 0.0
    right = rng.random(200) < np.where(member, 0.9, 0.4)
    tokens = tuple((5,) if r else (6,) for r in right)
    run = InversionRun(names(200), tokens, ((5,),) * 200, frozenset({5, 6}), frozenset())
    assert inversion_excess([run], [member], 0.95).low > 0.2


@pytest.mark.parametrize("prevalence", [0.5, 0.1, 0.01])
def test_v22_ppv_is_that_of_the_stated_prevalence(prevalence: float) -> None:
    """The closed form, and the name of the measure holds the prevalence."""
    assert ppv(0.4, 0.02, prevalence) == pytest.approx(prevalence * 0.4 / (prevalence * 0.4 + (1 - prevalence) * 0.02))
    rng = np.random.default_rng(5)
    member = rng.random(400) < 0.5
    run = MembershipRun(names(400), rng.normal(size=400) + 1.5 * member, member)
    assert f"ppv@{100 * prevalence:g}%" in measure_membership([run], prevalence=prevalence).estimates
