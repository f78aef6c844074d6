"""The reference values of privacy accounting, each with the rule by which it accepts an answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from dpeval.privacy.gaussian import (
    analytic_gaussian_sigma,
    classic_gaussian_sigma,
    delta_of_gaussian,
    epsilon_of_gaussian,
    gaussian_mu,
)
from dpeval.privacy.labels import keep_probability, sequence_and_label
from dpeval.privacy.matrix_gaussian import amgm_condition, mvg_budget
from dpeval.privacy.sampled import (
    ACCOUNTANTS,
    FixedSizeGaussian,
    SampledGaussian,
    UnattainableError,
    calibrate,
    central_limit_mu,
    epsilon,
    rdp_at,
)
from dpeval.privacy.shuffle import amplified_closed_form, amplify, approximate_extra_delta
from dpeval.privacy.steps import steps_for
from dpeval.types import Adjacency

Case = dict[str, Any]
Cases = Callable[[str], list[Case]]

# These two kinds belong to the measures, not to accounting.
ELSEWHERE = {"audit_clopper_pearson", "audit_one_run", "attack_ceiling"}
HERE = {
    "sgm_epsilon", "sgm_epsilon_replace_one", "fixed_size_without_replacement", "sgm_sigma", "unattainable",
    "invalid_inputs", "steps", "analytic_gaussian_sigma", "gaussian_epsilon", "classic_gaussian_sigma", "amgm",
    "mvg_iid_sigma", "krr", "sequence_plus_label_ldp", "token_level_ldp", "shuffle_amplification_pure",
    "shuffle_amplification_approx",
}  # fmt: skip


@pytest.fixture
def of_kind(accounting_cases: Case) -> Cases:
    def choose(kind: str) -> list[Case]:
        assert kind in HERE
        found = [case for case in accounting_cases["cases"] if case["kind"] == kind]
        assert found, kind
        return found

    return choose


def run_of(inputs: Case) -> SampledGaussian:
    return SampledGaussian(inputs["sigma"], inputs["q"], inputs["steps"])


def close(got: float, expected: float, rel: float) -> bool:
    return math.isclose(got, expected, rel_tol=rel, abs_tol=0)


def test_every_kind_of_case_is_tested(accounting_cases: Case) -> None:
    """No case is left out unnoticed."""
    assert {case["kind"] for case in accounting_cases["cases"]} == HERE | ELSEWHERE


def test_renyi_totals_at_given_orders(of_kind: Cases) -> None:
    """The Rényi divergence of a whole run, at whole and fractional orders."""
    for case in of_kind("sgm_epsilon"):
        expected = case["expected"]["rdp_total_at_orders"]
        got = rdp_at(run_of(case["inputs"]), [float(order) for order in expected])
        for value, reference in zip(got, expected.values(), strict=True):
            assert close(value, reference, case["accept"]["rdp_total_at_orders_rel"]), case["id"]


def test_rdp_epsilon(of_kind: Cases) -> None:
    """RDP is within its band above the infimum over real orders, and never below the exact ε."""
    for case in of_kind("sgm_epsilon"):
        report = epsilon(run_of(case["inputs"]), case["inputs"]["delta"], accountant="rdp")
        low, high = case["accept"]["eps_rdp"]
        assert low <= report.value <= high, case["id"]
        assert report.value >= case["expected"]["eps_exact"], case["id"]
        assert report.is_bound


def test_pld_epsilon(of_kind: Cases) -> None:
    """PLD hugs the exact ε from above; where it cannot reach δ it says so and gives RDP's bound."""
    for case in of_kind("sgm_epsilon"):
        delta = case["inputs"]["delta"]
        report = epsilon(run_of(case["inputs"]), delta, accountant="pld")
        low, high = case["accept"]["pld_or_prv_upper" if report.accountant == "pld" else "eps_rdp"]
        assert low <= report.value <= high, case["id"]
        assert report.is_bound
        assert (report.accountant == "rdp") == (delta < 1e-9 and case["inputs"]["q"] < 1), case["id"]
        assert report.accountant == "pld" or "does not reach" in report.note, case["id"]


def test_central_limit_is_labelled_an_approximation(of_kind: Cases) -> None:
    """GDP-CLT follows its formula and is never called a bound."""
    for case in of_kind("sgm_epsilon"):
        run, accept, expected = run_of(case["inputs"]), case["accept"], case["expected"]
        report = epsilon(run, case["inputs"]["delta"], accountant="gdp-clt")
        assert close(central_limit_mu(run), expected["gdp_clt_mu"], accept["gdp_clt_mu_rel"]), case["id"]
        assert close(report.value, expected["eps_gdp_clt"], accept["eps_gdp_clt_rel"]), case["id"]
        assert not report.is_bound
        assert "approximation" in report.note


def test_replace_one_is_not_add_or_remove(of_kind: Cases) -> None:
    """Replacing a record moves the sum by 2C: PLD within its band, RDP a valid bound."""
    for case in of_kind("sgm_epsilon_replace_one"):
        delta, expected = case["inputs"]["delta"], case["expected"]
        tight, loose = (
            epsilon(run_of(case["inputs"]), delta, accountant=a, adjacency=Adjacency.REPLACE_ONE).value
            for a in ("pld", "rdp")
        )
        low, high = case["accept"]["upper"]
        assert low <= tight <= high, case["id"]
        assert tight > expected["eps_add_remove_for_comparison"], case["id"]
        assert loose >= expected["eps_exact"], case["id"]


def test_fixed_size_batches_do_not_get_poisson_numbers(of_kind: Cases) -> None:
    """Sampling without replacement: at least what a concrete pair attains, or refused."""
    for case in of_kind("fixed_size_without_replacement"):
        inputs = case["inputs"]
        run = FixedSizeGaussian(inputs["sigma_over_clip"], inputs["batch"], inputs["N"], inputs["steps"])
        report = epsilon(run, inputs["delta"], accountant="rdp", adjacency=Adjacency.REPLACE_ONE)
        assert case["accept"]["eps_min"] <= report.value <= case["accept"]["eps_max"]
        with pytest.raises(ValueError, match="fixed-size"):
            epsilon(run, inputs["delta"], accountant="pld", adjacency=Adjacency.REPLACE_ONE)
        with pytest.raises(ValueError, match="fixed-size"):
            epsilon(run, inputs["delta"], accountant="rdp")


@pytest.mark.parametrize(
    ("accountant", "band", "first"),
    [
        ("rdp", "sigma_rdp", None),
        ("pld", "sigma_pld_or_prv", 2),
        pytest.param("pld", "sigma_pld_or_prv", None, marks=pytest.mark.slow),
    ],
)
def test_calibrated_noise(of_kind: Cases, accountant: Any, band: str, first: int | None) -> None:
    """σ is the smallest up to its band, and ε recomputed from it never exceeds the target."""
    for case in of_kind("sgm_sigma")[:first]:
        inputs, target = case["inputs"], case["inputs"]["target_epsilon"]
        sigma = calibrate(target, inputs["delta"], inputs["q"], inputs["steps"], accountant=accountant)
        again = epsilon(SampledGaussian(sigma, inputs["q"], inputs["steps"]), inputs["delta"], accountant=accountant)
        low, high = case["accept"][band]
        assert low <= sigma <= high, case["id"]
        assert 0.9875 * target < again.value <= target, case["id"]


def test_calibrated_noise_of_the_approximation(of_kind: Cases) -> None:
    """GDP-CLT's σ follows its formula; it is not private enough, which is why it is no bound."""
    for case in of_kind("sgm_sigma"):
        inputs, expected = case["inputs"], case["expected"]
        sigma = calibrate(inputs["target_epsilon"], inputs["delta"], inputs["q"], inputs["steps"], accountant="gdp-clt")
        assert close(sigma, expected["sigma_gdp_clt"], case["accept"]["sigma_gdp_clt_rel"]), case["id"]
        assert sigma < expected["sigma_exact"]


def test_unattainable_targets_end_with_the_floor(of_kind: Cases) -> None:
    """A grid of orders has a floor: reported with the grid; the extended grid reaches the target."""
    (case,) = of_kind("unattainable")
    inputs = case["inputs"]
    orders = [1 + x / 10 for x in range(1, 100)] + [float(x) for x in range(12, 64)]
    arguments = (inputs["target_epsilon"], inputs["delta"], inputs["q"], inputs["steps"])
    with pytest.raises(UnattainableError, match=r"orders 1\.1 to 63") as error:
        calibrate(*arguments, accountant="rdp", orders=orders)
    assert close(error.value.floor, case["expected"]["eps_floor_sigma_to_inf"], 1e-6)
    assert calibrate(*arguments, accountant="rdp") > 0


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_degenerate_inputs(of_kind: Cases, accountant: Any) -> None:
    """No noise and δ = 0 are infinite, nothing done is 0, nonsense is a ValueError: for each accountant."""
    (case,) = of_kind("invalid_inputs")
    for inputs, result in zip(case["inputs"]["cases"], case["expected"]["results"], strict=True):
        if result == "ValueError":
            with pytest.raises(ValueError, match="expected"):
                epsilon(run_of(inputs), inputs["delta"], accountant=accountant)
        else:
            assert epsilon(run_of(inputs), inputs["delta"], accountant=accountant).value == float(result)


def test_steps_are_whole_numbers(of_kind: Cases) -> None:
    """735, not the 734 of int(epochs / rate) on floats."""
    (case,) = of_kind("steps")
    inputs, expected = case["inputs"], case["expected"]
    got = steps_for(inputs["epochs"], inputs["N"], inputs["batch"])
    assert got == expected["steps_if_full_pass_ceil"] != expected["opacus_int_epochs_over_rate"]


def test_analytic_gaussian_sigma(of_kind: Cases) -> None:
    """The smallest σ, and a δ that does not exceed the budget."""
    for case in of_kind("analytic_gaussian_sigma"):
        inputs = case["inputs"]
        sigma = analytic_gaussian_sigma(inputs["epsilon"], inputs["delta"], inputs["l2_sensitivity"])
        assert close(sigma, case["expected"]["sigma"], 1e-9), case["id"]
        mu = gaussian_mu(sigma, inputs["l2_sensitivity"])
        assert delta_of_gaussian(inputs["epsilon"], mu) <= inputs["delta"] * (1 + 1e-6), case["id"]


def test_gaussian_epsilon(of_kind: Cases) -> None:
    """ε of a given σ; half the sensitivity turns a nominal 8 into 19.1."""
    for case in of_kind("gaussian_epsilon"):
        inputs = case["inputs"]
        got = epsilon_of_gaussian(gaussian_mu(inputs["sigma"], inputs["l2_sensitivity"]), inputs["delta"])
        assert close(got, case["expected"]["epsilon"], case["accept"]["epsilon_rel"]), case["id"]


def test_classic_gaussian_sigma(of_kind: Cases) -> None:
    """The formula; refused where its theorem does not hold, unless asked for."""
    for case in of_kind("classic_gaussian_sigma"):
        inputs, expected = case["inputs"], case["expected"]
        arguments = (inputs["epsilon"], inputs["delta"], inputs["l2_sensitivity"])
        if not expected["valid_theorem"]:
            with pytest.raises(ValueError, match="epsilon < 1"):
                classic_gaussian_sigma(*arguments)
        sigma = classic_gaussian_sigma(*arguments, beyond_theorem=not expected["valid_theorem"])
        assert close(sigma, expected["sigma"], case["accept"]["sigma_rel"]), case["id"]
        true = epsilon_of_gaussian(gaussian_mu(sigma, inputs["l2_sensitivity"]), inputs["delta"])
        assert close(true, expected["true_eps_at_sigma"], 1e-7), case["id"]


def test_matrix_gaussian_condition(of_kind: Cases) -> None:
    """The two smallest singular values decide."""
    for case in of_kind("amgm"):
        inputs, expected, rel = case["inputs"], case["expected"], case["accept"]["rel"]
        report = amgm_condition(
            inputs["singular_values_B1"],
            inputs["singular_values_B2"],
            inputs["epsilon"],
            inputs["delta"],
            inputs["frobenius_sensitivity"],
        )
        assert report.holds is expected["is_private"]
        assert close(report.product, expected["product"], rel)
        assert close(report.needed, expected["min_product_of_smallest_singular_values"], rel)
        assert close(report.needed, expected["iid_sigma"], rel)
        assert close(report.epsilon, expected["true_epsilon"], rel)


def test_mvg_budget(of_kind: Cases) -> None:
    """Every intermediate number of the MVG mechanism, without the cancellation of the textbook form."""
    for case in of_kind("mvg_iid_sigma"):
        inputs, expected = case["inputs"], case["expected"]
        got = mvg_budget(
            inputs["rows"],
            inputs["cols"],
            gamma=inputs["gamma"],
            sensitivity=inputs["s2"],
            epsilon=inputs["epsilon"],
            delta=inputs["delta"],
        )
        for value, name in ((got.alpha, "alpha"), (got.beta, "beta"), (got.zeta, "zeta"), (got.iid_sigma, "sigma_std"),
                            (got.budget, "precision_budget"), (got.iid_sigma**2, "variance")):  # fmt: skip
            assert close(value, expected[name], case["accept"]["sigma_rel"]), (case["id"], name)


def test_randomised_response(of_kind: Cases) -> None:
    """The chance to keep a label, and each other's."""
    for case in of_kind("krr"):
        k, rel = case["inputs"]["k"], case["accept"]["rel"]
        keep = keep_probability(case["inputs"]["epsilon"], k)
        assert close(keep, case["expected"]["p_keep"], rel), case["id"]
        assert close((1 - keep) / (k - 1), case["expected"]["p_each_other"], rel), case["id"]


def test_sequence_with_label(of_kind: Cases) -> None:
    """Sum and exact composition of the sequence's noise with the label's."""
    for case in of_kind("sequence_plus_label_ldp"):
        inputs, expected, accept = case["inputs"], case["expected"], case["accept"]
        mu = gaussian_mu(inputs["sigma"], inputs["l2_sensitivity"], inputs["fresh_noise_releases"])
        got = sequence_and_label(mu, inputs["delta"], inputs["label_eps"], inputs["k"])
        assert close(mu, expected["mu_total"], 1e-9), case["id"]
        assert close(got.sequence, expected["eps_sequence"], 1e-9), case["id"]
        assert close(got.basic, expected["eps_basic_composition"], accept["eps_basic_rel"]), case["id"]
        assert accept["eps_tight"][0] <= got.tight <= accept["eps_tight"][1], case["id"]
        assert close(got.tight, expected["eps_tight"], 1e-7), case["id"]


def test_token_level_is_not_sequence_level(of_kind: Cases) -> None:
    """n tokens together move the matrix √n times as far as one."""
    for case in of_kind("token_level_ldp"):
        inputs, rel = case["inputs"], case["accept"]["rel"]
        for tokens, name in ((1, "eps_token_replace"), (inputs["tokens"], "eps_sequence_replace")):
            mu = gaussian_mu(inputs["sigma"], 2 * inputs["per_token_clip"] * math.sqrt(tokens))
            assert close(epsilon_of_gaussian(mu, inputs["delta"]), case["expected"][name], rel), name


def test_shuffle_of_pure_reports(of_kind: Cases) -> None:
    """Closed form, numerical clones, and the better constant for binary randomised response alone."""
    for case in of_kind("shuffle_amplification_pure"):
        n, local, delta = (case["inputs"][name] for name in ("n", "eps0", "delta"))
        accept, expected = case["accept"], case["expected"]
        closed = amplified_closed_form(n, local, delta=delta)
        assert (closed is not None) == expected["closed_form_valid"], case["id"]
        assert closed is None or close(closed, expected["eps_closed_FMT21_thm31"], accept["closed_rel"]), case["id"]
        general, binary = (amplify(n, local, delta=delta, binary_response=b).epsilon for b in (False, True))
        assert accept["numeric"][0] <= general <= accept["numeric"][1], case["id"]
        assert accept["binary_rr"][0] <= binary <= accept["binary_rr"][1], case["id"]


def test_shuffle_of_approximate_reports_can_be_vacuous(of_kind: Cases) -> None:
    """Where the local failures add up to more than 1, nothing is claimed."""
    for case in of_kind("shuffle_amplification_approx"):
        inputs = case["inputs"]
        report = amplify(inputs["n"], inputs["eps0"], delta=inputs["delta"], local_delta=inputs["delta0"])
        assert report.vacuous is case["expected"]["vacuous"]
        assert "no guarantee" in report.note
        central = amplify(inputs["n"], inputs["eps0"], delta=inputs["delta"]).epsilon
        extra = approximate_extra_delta(inputs["n"], central, inputs["eps0"], inputs["delta0"])
        assert close(extra, case["expected"]["extra_delta"], 1e-6)
