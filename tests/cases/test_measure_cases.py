"""Reference values of audits and ceilings, and known bugs of attack metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dpeval.measure import ceilings
from dpeval.measure.epsilon import gaussian_bound, rate_bound
from dpeval.measure.logodds import log_odds
from dpeval.measure.membership import MembershipRun, measure_membership
from dpeval.measure.one_run import one_run_bound, one_run_p_value
from dpeval.measure.roc import OneClassError, auc, balanced_accuracy, best_threshold
from dpeval.types import Undefined


def of_kind(cases: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    found = [case for case in cases["cases"] if case["kind"] == kind]
    assert found
    return found


def test_two_rate_audits(accounting_cases) -> None:
    """Clopper-Pearson and Gaussian bounds, also of a published audit (ε > 2.79)."""
    for case in of_kind(accounting_cases, "audit_clopper_pearson"):
        given, expected, accept = case["inputs"], case["expected"], case["accept"]
        counts = {
            "tp": given["tp"],
            "members": given["n_members"],
            "fp": given["fp"],
            "nonmembers": given["n_nonmembers"],
        }
        plain = rate_bound(**counts, delta=given["delta"], alpha=given["alpha"])
        model = gaussian_bound(**counts, delta=given["delta"], alpha=given["alpha"])
        assert plain.epsilon == pytest.approx(expected["eps_lb"], abs=accept["eps_abs"])
        assert dict(plain.details) == pytest.approx({"fpr_upper": expected["fpr_ub"], "fnr_upper": expected["fnr_ub"]})
        assert dict(model.details)["mu"] == pytest.approx(expected["gdp_mu_lb"], abs=accept["mu_abs"])
        assert model.epsilon == pytest.approx(expected["gdp_eps_lb"], abs=accept["eps_abs"])


def test_one_run_audits(accounting_cases) -> None:
    """Bounds and p-values."""
    for case in of_kind(accounting_cases, "audit_one_run"):
        given, expected, accept = case["inputs"], case["expected"], case["accept"]
        coins = {name: given[name] for name in ("m", "r", "v", "delta")}
        assert one_run_bound(**coins, alpha=given["alpha"]).epsilon == pytest.approx(
            expected["eps_lb"], abs=accept["eps_abs"]
        )
        for epsilon in (0, 1):
            found = one_run_p_value(**coins, epsilon=float(epsilon))
            assert found == pytest.approx(expected[f"p_value_at_eps{epsilon}"], rel=accept["p_rel"])


def test_attack_ceilings(accounting_cases) -> None:
    """The best attack against (ε, δ)-DP and against μ-GDP."""
    for case in of_kind(accounting_cases, "attack_ceiling"):
        given = case["inputs"]
        promise = {"epsilon": given["epsilon"], "delta": given["delta"]}
        found = {
            "max_tpr_eps_delta": ceilings.max_tpr(fpr=given["fpr"], **promise),
            "max_advantage_eps_delta": ceilings.max_advantage(**promise),
            "max_tpr_mu_gdp": ceilings.max_tpr_gaussian(fpr=given["fpr"], mu=given["mu"]),
            "max_auc_mu_gdp": ceilings.max_auc_gaussian(mu=given["mu"]),
            "max_advantage_mu_gdp": ceilings.max_advantage_gaussian(mu=given["mu"]),
        }
        assert found == pytest.approx(case["expected"], rel=case["accept"]["rel"])


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_d01_one_class(case_file) -> None:
    """D01: undefined (one class); never 0, 0.5 or 1."""
    case = read(case_file("d01_single_class.json"))
    with pytest.raises(OneClassError, match=r"undefined \(one class\)"):
        auc(case["scores"], case["is_member"])
    run = MembershipRun(tuple("abcde"), np.array(case["scores"]), np.array(case["is_member"], dtype=bool))
    assert isinstance(measure_membership([run]).estimates["auc"], Undefined)


def test_d03_columns_of_a_classifier(case_file) -> None:
    """D03: the member column is found by its class; labels as words or as 1 and 2 give the same AUC."""
    lines = case_file("d03_attack_features.csv").read_text(encoding="utf-8").split()
    rows = [line.split(",") for line in lines[1:]]
    for member, other in (("member", "nonmember"), (1, 2)):
        x = {s: np.array([[float(r[1])] for r in rows if r[0] == s]) for s in ("train", "test")}
        y = {s: np.array([member if r[2] == "member" else other for r in rows if r[0] == s]) for s in ("train", "test")}
        model = LogisticRegression().fit(x["train"], y["train"])
        column = list(model.classes_).index(member)
        assert auc(model.predict_proba(x["test"])[:, column], y["test"] == member) == 1.0


def test_d05_tiny_ranges(case_file) -> None:
    """D05: the AUC does not depend on the scale of the scores."""
    case = read(case_file("d05_tiny_range.json"))
    for name in ("scores_wide", "scores_1e-7", "scores_0.5+1e-9k"):
        assert auc(case[name], case["is_member"]) == pytest.approx(5 / 6, abs=1e-12)


def test_d07_threshold_from_the_calibration_part(case_file) -> None:
    """D07: the threshold does not move with the evaluation labels; the oracle's is another number."""
    case = read(case_file("d07_random_scores.json"))
    calibration, evaluation = case["calibration"], case["evaluation"]
    threshold = best_threshold(calibration["scores"], calibration["is_member"])
    assert threshold == pytest.approx(0.2926)
    assert balanced_accuracy(evaluation["scores"], evaluation["is_member"], threshold) == pytest.approx(0.479, abs=5e-4)
    oracle = best_threshold(evaluation["scores"], evaluation["is_member"])
    assert balanced_accuracy(evaluation["scores"], evaluation["is_member"], oracle) == pytest.approx(0.5625, abs=5e-5)


def test_d09_log_odds_of_saturated_probabilities(case_file) -> None:
    """D09: finite and in order, from logits and from log-probabilities."""
    case = read(case_file("d09_logits.json"))
    expected = [20, 60, 120, -120, 30 - np.log(2)]
    for logits, label, value in zip(case["logits"], case["label"], expected, strict=True):
        row = np.array([logits], dtype=float)
        for values in (row, row - np.logaddexp.reduce(row, axis=1, keepdims=True)):
            assert log_odds(values, [label])[0] == pytest.approx(value, rel=1e-12)
