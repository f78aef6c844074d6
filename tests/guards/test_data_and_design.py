"""Guards on how members were chosen and scores made: V1, V10 to V13, V15 to V19."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch

from dpeval.data.config import SplitConfig
from dpeval.data.duplicates import group
from dpeval.data.split import split
from dpeval.errors import ModelError
from dpeval.measure.audit import DesignError, audit_one_run
from dpeval.measure.blind import BlindRun, measure_blind
from dpeval.measure.distinguish import audit_releases
from dpeval.measure.epsilon import gaussian_epsilon
from dpeval.measure.membership import MembershipRun, measure_gain, measure_membership
from dpeval.measure.rates import audit_gaussian, audit_rates
from dpeval.models.fingerprint import fingerprint_of_weights
from dpeval.models.text_encoding import TextEncoding, check_same_encoding
from dpeval.types import Adjacency, Claim, Dataset, Estimate, Records, Trust, Unit
from dpeval.verdict import RELEASE_AUDIT, Consistent, Refuted, judge
from dpeval.views import positions

WORDS = [f"w{i}" for i in range(300)]


def sentences(rng: np.random.Generator, n: int) -> list[list[str]]:
    return [[WORDS[k % 300] for k in rng.zipf(1.4, 12)] for _ in range(n)]


def edited(rng: np.random.Generator, words: list[str]) -> str:
    """Easy data augmentation without synonyms: two words swapped, one deleted, one inserted."""
    out = list(words)
    i, j = rng.integers(len(out), size=2)
    out[i], out[j] = out[j], out[i]
    del out[int(rng.integers(len(out)))]
    out.insert(int(rng.integers(len(out))), "inserted")
    return " ".join(out)


def audit_set(seed: int, edit: bool) -> BlindRun:
    rng = np.random.default_rng(seed)
    texts = sentences(rng, 400)
    member = rng.random(400) < 0.5
    shown = [" ".join(t) if m or not edit else edited(rng, t) for t, m in zip(texts, member, strict=True)]
    return BlindRun(tuple(f"r{i}" for i in range(400)), tuple(shown), member)


def coins(seed: int, n: int, shift: float) -> MembershipRun:
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    return MembershipRun(tuple(f"r{i}" for i in range(n)), rng.normal(size=n) + shift * member, member)


def test_v01_edited_nonmembers_invalidate_the_audit_set_and_untouched_ones_do_not() -> None:
    """The recipe of a published attack: non-members made by editing are told apart without any model."""
    assert measure_blind([audit_set(0, edit=True)]).invalid
    assert not measure_blind([audit_set(0, edit=False)]).invalid


def test_v01_an_attack_that_only_reads_the_texts_gains_nothing_over_the_blind_one() -> None:
    """Its AUC minus the blind AUC, paired, includes 0 although the AUC itself is high."""
    blind = measure_blind([audit_set(1, edit=True)])
    run = blind.runs[0]
    echo = MembershipRun(run.ids, run.scores + 1e-6 * np.arange(len(run.ids)), run.is_member)
    found = measure_gain([echo], list(blind.runs))
    assert isinstance(blind.auc, Estimate)
    assert blind.auc.low > 0.6
    assert isinstance(found, Estimate)
    assert not found.excludes(0.0)


def claim(epsilon: float) -> Claim:
    return Claim(
        epsilon=epsilon, delta=1e-5, unit=Unit.SEQUENCE, trust=Trust.LOCAL, adjacency=Adjacency.ANY_TWO_INPUTS,
        mechanism="Gaussian", accountant="exact", scope="a toy",
    )  # fmt: skip


@pytest.mark.parametrize(("clip", "verdict"), [(1.0, Consistent), (10.0, Refuted)])
def test_v10_a_wrong_clip_factor_is_refuted(clip: float, verdict: type) -> None:
    """Noise for a norm of 1; a toy that clips at 10 instead is caught by what comes out, the honest one is not."""
    rng = np.random.default_rng(2)
    inputs = np.array([20.0, -20.0])
    first, second = (np.clip(x, -clip, clip) + 2.0 * rng.normal(size=(3000, 1)) for x in inputs)
    stated = claim(gaussian_epsilon(1.0, 1e-5))
    bound = audit_releases(first, second, delta=1e-5, direction=[1.0]).bound
    assert isinstance(judge(stated, bound, RELEASE_AUDIT), verdict)


def test_v12_bounds_exceed_zero_no_more_often_than_stated() -> None:
    """A hundred nulls with thresholds and guesses planned on data; peers exceed 0 in 14 to 96 %."""
    runs = [coins(100 + k, 300, 0.0) for k in range(100)]
    above = {
        "rates": sum(audit_rates([r], delta=0.0, salt=k).epsilon > 0 for k, r in enumerate(runs)),
        "gaussian": sum(audit_gaussian([r], delta=1e-5, salt=k).epsilon > 0 for k, r in enumerate(runs)),
        "one run": sum(
            audit_one_run([r], independent_coins=True, delta=1e-5, salt=k).epsilon > 0 for k, r in enumerate(runs)
        ),
    }
    # Twelve of a hundred is one chance in a thousand at 5 %.
    assert max(above.values()) <= 12, above


def test_v13_a_planted_duplicate_stays_on_one_side() -> None:
    """Equal but for case and punctuation, and one with a word added: never a member and a non-member of one text."""
    rng = np.random.default_rng(3)
    texts = [" ".join(t) for t in sentences(rng, 200)]
    texts += [texts[0].upper() + "!", texts[1] + " more"]
    groups = group(texts, threshold=0.8).near
    assert groups[200] == groups[0]
    assert groups[201] == groups[1]
    ids = tuple(f"r{i}" for i in range(202))
    pool = Dataset("d", Records(ids, tuple(texts), (0, 1) * 101, groups=groups), ("a", "b"))
    for seed in range(5):
        roles = split(pool, seed, SplitConfig())
        for part in (roles.members, roles.nonmembers, roles.auxiliary, roles.test):
            assert ("r0" in part.ids) == ("r200" in part.ids)
            assert ("r1" in part.ids) == ("r201" in part.ids)


def test_v15_another_design_than_independent_coins_is_refused() -> None:
    """A fixed-size split makes the coins depend on one another."""
    with pytest.raises(DesignError, match="its own fair coin"):
        audit_one_run([coins(4, 200, 1.0)], independent_coins=False, delta=1e-5)


def test_v16_rows_are_joined_by_id_and_never_by_position() -> None:
    """Scores that come back in another order give the same measures; a missing id is an error."""
    run = coins(5, 300, 1.0)
    order = np.random.default_rng(0).permutation(300)
    back = tuple(run.ids[i] for i in order)
    at = positions(back, run.ids)
    joined = MembershipRun(run.ids, run.scores[order][at], run.is_member)
    assert measure_membership([joined]).estimates == measure_membership([run]).estimates
    with pytest.raises((KeyError, ValueError)):
        positions(back[1:], run.ids)


def test_v16_changed_weights_have_another_fingerprint() -> None:
    """One bit in one weight; the order of the files does not matter."""
    weights = {"a": torch.zeros(3), "b": torch.ones(2)}
    changed = {"a": torch.tensor([0.0, 0.0, 1e-7]), "b": torch.ones(2)}
    assert fingerprint_of_weights(weights) == fingerprint_of_weights(dict(reversed(weights.items())))
    assert fingerprint_of_weights(weights) != fingerprint_of_weights(changed)


def test_v17_scores_of_the_wrong_sign_are_warned_of() -> None:
    """A peer's loss signal gave 0.183 for a signal worth 0.817: significantly below one half is said."""
    run = coins(6, 400, 1.3)
    wrong = MembershipRun(run.ids, -run.scores, run.is_member)
    right, turned = measure_membership([run]), measure_membership([wrong])
    assert turned.estimates["auc"].value == pytest.approx(1 - right.estimates["auc"].value)
    assert any("inverted?" in warning for warning in turned.warnings)
    assert right.warnings == ()


def test_v17_an_interval_always_holds_its_own_value() -> None:
    """A peer reported 0.736 with an interval of 0.219 to 0.315."""
    with pytest.raises(ValueError, match="does not contain its own value"):
        Estimate(0.736, 0.219, 0.315, n=100)
    found = measure_membership([coins(7, 300, 1.0)]).estimates
    assert all(e.low <= e.value <= e.high for e in found.values() if isinstance(e, Estimate))


def test_v18_dropout_left_on_is_caught(tmp_path, check_plugin: Callable[[str, str], object]) -> None:
    """A release that answers in training mode differs from itself alone and among others."""
    outcome = check_plugin("DROPOUT", "Sloppy")
    assert not outcome.passed
    assert "differs from the same among others" in outcome.text or "the same" in outcome.text


def test_v19_another_tokenizer_or_length_is_refused_with_both_values() -> None:
    """A mismatch would look like a defense."""
    ours = TextEncoding(tokenizer="a" * 64, max_length=64, special_ids=(0, 101, 102))
    for change, told in (
        ({"max_length": 32}, "max_length 64 in the release, 32 in the attack"),
        ({"special_ids": (0,)}, r"special_ids \[0, 101, 102\] in the release, \[0\] in the attack"),
        ({"tokenizer": "b" * 64}, "tokenizer aaaaaaaaaaaa in the release, bbbbbbbbbbbb in the attack"),
    ):
        with pytest.raises(ModelError, match=told):
            check_same_encoding(ours, dataclasses.replace(ours, **change))
    check_same_encoding(ours, dataclasses.replace(ours))
