"""Labels, answers, shuffling: what each adds to the claim, recomputed by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from dpeval.context import RunContext
from dpeval.plugin import Task
from dpeval.privacy.claims import epsilon_of_answers
from dpeval.privacy.gaussian import analytic_gaussian_sigma, delta_of_gaussian, epsilon_of_gaussian
from dpeval.privacy.shuffle import amplify, approximate_extra_delta
from dpeval.types import Claim, Dataset, NoClaim
from dpeval_defenses.dp_forward import DPForward
from dpeval_defenses.dp_forward.accounting import plan_noise
from dpeval_defenses.dp_forward.labelling import LabelResponse
from dpeval_defenses.dp_forward.statement import Shuffling, Statement

TEXTS = ["a good day", "a bad day", "good tea again", "bad tea", "the good sun is", "the bad rain"] * 3


def train(checkpoint, records, **options):
    defense = DPForward(**({"epochs": 1, "batch_size": 4, "delta": 1e-5} | options))
    return defense.train(Task(records, 2, checkpoint), RunContext(0))


def claim_of(checkpoint, records, **options):
    return train(checkpoint, records, **options).claim


def test_a_randomised_label_is_composed_with_the_sequence(checkpoint_of, records_of):
    """δ of the pair at the claimed ε, written out: the Gaussian's δ shifted by the label's privacy loss."""
    claim = claim_of(checkpoint_of("bert"), records_of(TEXTS), epsilon=2.0, label_epsilon=1.5)
    keep = 1 / (1 + math.exp(-1.5))
    mu = 2.0 / dict(claim.details)["sigma"]
    delta = keep * delta_of_gaussian(claim.epsilon - 1.5, mu) + (1 - keep) * delta_of_gaussian(claim.epsilon + 1.5, mu)
    assert delta == pytest.approx(1e-5, rel=1e-6)
    assert 2.0 < claim.epsilon <= 3.5
    assert dict(claim.details)["epsilon by sum"] == pytest.approx(3.5, rel=1e-6)
    assert not any(part.startswith("the label") for part in claim.excludes)
    assert "label under randomised response" in claim.scope


def test_labels_are_answered_once_and_kept_as_often_as_stated():
    """Frequencies against 1/(1 + (k−1)e^{−ε}); the same seed gives the same answers."""
    truth, rng = [0, 1, 2] * 6000, np.random.default_rng(0)
    answers = np.array(LabelResponse(epsilon=1.0).randomised(truth, 3, rng))
    keep = 1 / (1 + 2 * math.exp(-1.0))
    assert (answers == truth).mean() == pytest.approx(keep, abs=4 * math.sqrt(keep * (1 - keep) / len(truth)))
    again = LabelResponse(epsilon=1.0).randomised(truth, 3, np.random.default_rng(0))
    assert tuple(answers.tolist()) == again


def test_training_sees_only_the_randomised_labels(checkpoint_of, records_of, monkeypatch):
    from dpeval_defenses.dp_forward import defense

    seen, true = [], defense.fit_rows
    monkeypatch.setattr(
        defense, "fit_rows", lambda forward, labels, *rest: seen.append(labels) or true(forward, labels, *rest)
    )
    records = records_of(TEXTS)
    train(checkpoint_of("bert"), records, label_epsilon=0.0)
    train(checkpoint_of("bert"), records, label_epsilon=30.0)
    train(checkpoint_of("bert"), records)
    assert seen[0] != records.labels
    assert seen[1] == seen[2] == records.labels


def test_a_prior_answers_among_the_likely_labels_and_comes_from_elsewhere(checkpoint_of, records_of):
    response = LabelResponse(epsilon=0.5, mechanism="prior", prior=(0.5, 0.48, 0.02))
    answers = response.randomised([0, 1, 2] * 200, 3, np.random.default_rng(0))
    assert set(answers) == {0, 1}
    assert response.noise(3).num_labels == 2
    with pytest.raises(ValueError, match="known from elsewhere"):
        DPForward(label_epsilon=1.0, label_mechanism="prior")
    with pytest.raises(ValueError, match="expected 2 probabilities"):
        train(checkpoint_of("bert"), records_of(TEXTS), label_epsilon=1.0, label_mechanism="prior", label_prior=(1.0,))


def test_labels_of_a_trained_first_half_stand_beside_the_claim(checkpoint_of, records_of):
    claim = claim_of(checkpoint_of("bert"), records_of(TEXTS), training="trained", label_epsilon=1.0, epsilon=2.0)
    assert claim.epsilon == pytest.approx(2.0, rel=1e-6)
    assert dict(claim.details)["label epsilon"] == 1.0
    assert any("randomised response of ε = 1" in part for part in claim.excludes)


def test_answers_of_another_epsilon(checkpoint_of, records_of):
    """The claim covers training texts and answers, so it states the weaker of the two."""
    for inference, expected in ((1.0, 4.0), (6.0, 6.0)):
        release = train(checkpoint_of("bert"), records_of(TEXTS), epsilon=4.0, inference=inference)
        assert release.claim.epsilon == pytest.approx(expected, rel=1e-6)
        assert release.noise.sigma == pytest.approx(analytic_gaussian_sigma(inference, 1e-5, 2.0))
        assert dict(release.claim.details)["epsilon of one answer"] == pytest.approx(inference, rel=1e-5)
    late = claim_of(checkpoint_of("bert"), records_of(TEXTS), epsilon=4.0, inference=1.0, training="trained")
    assert late.epsilon == pytest.approx(1.0, rel=1e-6)


def test_clear_answers_leave_the_training_texts_covered_or_nothing(checkpoint_of, records_of):
    records = records_of(TEXTS)
    release = train(checkpoint_of("bert"), records, inference="none", position="encoder.1.add_norm_2")
    assert isinstance(release.claim, Claim)
    assert any("without noise" in part for part in release.claim.excludes)
    assert "for an answer" not in release.claim.scope
    one, two = (release.embed(records, release.tap, draw=k).values for k in (0, 1))
    assert np.array_equal(one, two)
    nothing = claim_of(checkpoint_of("bert"), records, inference="none", training="trained")
    assert isinstance(nothing, NoClaim)


def test_answers_compose(checkpoint_of, records_of):
    """K answers about one text are one with μ√K."""
    claim = claim_of(checkpoint_of("bert"), records_of(TEXTS), epsilon=1.0, training="frozen-fresh", epochs=4)
    sigma = dict(claim.details)["sigma"]
    for count in (1, 10, 100):
        by_hand = epsilon_of_gaussian(2.0 * math.sqrt(count) / sigma, 1e-5)
        assert epsilon_of_answers(claim, count) == pytest.approx(by_hand)
    assert dict(claim.details)["epsilon of 10 answers"] == pytest.approx(epsilon_of_answers(claim, 10), rel=1e-5)
    assert epsilon_of_answers(claim, 4) == pytest.approx(claim.epsilon)
    assert any("K answers compose" in part for part in claim.excludes)
    both = epsilon_of_gaussian(2.0 * math.sqrt(4 + 1) / sigma, 1e-5)
    assert dict(claim.details)["epsilon of a training text that is sent once more"] == pytest.approx(both, rel=1e-5)


def shuffled(epsilon, users, training="frozen"):
    plan = plan_noise(epsilon=epsilon, delta=1e-5, clip=1.0, releases=1)
    shuffling = Shuffling(users=users, clip=1.0)
    return Statement(plan, plan.sigma, training, "output", 1, shuffling=shuffling).claim()


def test_shuffling_states_a_central_epsilon_where_one_is_proven():
    claim = shuffled(0.5, 6000)
    details = dict(claim.details)
    central = details["central epsilon, shuffled"]
    assert 0 < central < 0.5 / 2
    assert central < details["central epsilon, shuffled, closed form"] < 0.5
    assert details["users of the shuffler"] == 6000
    # One of the choices that the bound may take, by hand: not much better than what is stated.
    local_delta = 1e-10
    start = epsilon_of_gaussian(2.0 / details["sigma"], local_delta)
    report = amplify(6000, start, delta=1e-5 / 2, local_delta=local_delta)
    assert approximate_extra_delta(6000, report.epsilon, start, local_delta) < 1e-5 / 2
    assert central <= report.epsilon * 1.25
    assert claim.epsilon == pytest.approx(0.5, rel=1e-6)
    assert details["paper_translation epsilon (no guarantee)"] < central


def test_shuffling_says_where_nothing_is_proven():
    assert dict(shuffled(8.0, 6000).details)["central epsilon, shuffled"].startswith("none: ")
    trained = dict(shuffled(0.5, 6000, "trained").details)
    assert trained["central epsilon, shuffled"] == "none: training used the clear texts"


@pytest.mark.parametrize("outside", [{"level": "token"}, {"lengths": "public"}, {"lengths": "padded"}])
def test_users_hide_each_other_only_where_each_release_could_be_of_any_text(outside):
    """Two texts that share no token are told apart at token level, and two lengths where lengths are public."""
    plan = plan_noise(epsilon=0.5, delta=1e-5, clip=1.0, releases=1)
    statement = Statement(plan, plan.sigma, "frozen", "embedding", 16, shuffling=Shuffling(users=6000, clip=1.0))
    assert dict(statement.claim().details)["central epsilon, shuffled"] < 0.5
    claim = dataclasses.replace(statement, **outside).claim()
    assert dict(claim.details)["central epsilon, shuffled"].startswith("none: ")


def test_where_labels_are_clear_only_users_of_one_label_hide_each_other():
    plan = plan_noise(epsilon=0.5, delta=1e-5, clip=1.0, releases=1)
    rare, alone = (
        dict(Statement(plan, plan.sigma, "frozen", "output", 1, shuffling=each).claim().details)
        for each in (Shuffling(users=6000, clip=1.0, alike=2000), Shuffling(users=2000, clip=1.0))
    )
    assert rare["central epsilon, shuffled"] == alone["central epsilon, shuffled"]
    assert rare["users of the shuffler"] == 6000


@pytest.mark.parametrize(("options", "alike"), [({}, 2), ({"label_epsilon": 1.0}, None)])
def test_a_defense_counts_the_users_of_the_rarest_label(checkpoint_of, records_of, options, alike):
    records = dataclasses.replace(records_of(TEXTS), labels=(0,) * (len(TEXTS) - 2) + (1, 1))
    claim = claim_of(checkpoint_of("bert"), records, epsilon=2.0, shuffled=True, **options)
    assert dict(claim.details).get("users with the rarest label, counted for its clear labels") == alike


@pytest.mark.parametrize("given", [(0.5, 0.5), (0.25, 0.25, 0.25, 0.25)])
def test_a_prior_over_other_labels_is_found_before_training(checkpoint_of, records_of, given):
    checkpoint = checkpoint_of("bert")
    defense = DPForward(label_epsilon=1.0, label_mechanism="prior", label_prior=given)
    dataset = Dataset("d", records_of(TEXTS), ("a", "b", "c"))
    assert f"expected 3 probabilities, one a label, got {len(given)}" in defense.unfit_data(dataset, checkpoint)
    right = dataclasses.replace(defense, label_prior=(0.2, 0.3, 0.5))
    assert right.unfit_data(dataset, checkpoint) is None
    assert DPForward().unfit_data(dataset, checkpoint) is None


def test_a_defense_hands_its_users_to_the_shuffler(checkpoint_of, records_of):
    claim = claim_of(checkpoint_of("bert"), records_of(TEXTS), epsilon=2.0, shuffled=True)
    assert dict(claim.details)["users of the shuffler"] == len(TEXTS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": "word"},
        {"training": "thawed"},
        {"mechanism": "laplace"},
        {"basis": "spin"},
        {"label_mechanism": "lottery"},
        {"inference": "often"},
        {"inference": 0.0},
        {"inference": -1},
        {"inference": math.inf},
        {"epsilon": math.inf},
        {"label_epsilon": -1.0},
        {"label_prior": (1.0,)},
        {"label_epsilon": 1.0, "label_mechanism": "prior", "label_prior": (0.5, 0.6)},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        DPForward(**wrong)
