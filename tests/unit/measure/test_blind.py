"""The blind attacker flags audit sets whose members are another kind of text, and no others."""

from __future__ import annotations

import time

import numpy as np
import pytest

from dpeval.measure.blind import BlindRun, measure_blind
from dpeval.measure.membership import measure_gain
from dpeval.measure.textfeatures import count_texts, fit_reader
from dpeval.types import Estimate, Undefined


def sentences(n: int, seed: int) -> list[str]:
    """Texts of a small language: each word depends on the one before it, as in real text."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list("abcdefghijklmnop"), rng.integers(2, 8))) for _ in range(600)]
    follows = np.random.default_rng(1).integers(0, 600, (600, 4))
    out = []
    for _ in range(n):
        at, said = int(rng.zipf(1.5)) % 600, []
        for _ in range(int(rng.integers(8, 26))):
            said.append(words[at])
            at = int(follows[at, rng.integers(4)]) if rng.random() < 0.8 else int(rng.zipf(1.5)) % 600
        out.append(" ".join(said) + ".")
    return out


def edited(text: str, rng: np.random.Generator) -> str:
    """Easy data augmentation without synonyms: words dropped and swapped, as in a published attack protocol."""
    words = [w for w in text.split() if rng.random() > 0.3] or text.split()
    for _ in range(len(words) // 3):
        i, j = rng.integers(0, len(words), 2)
        words[i], words[j] = words[j], words[i]
    return " ".join(words)


def run_of(texts: list[str], member: np.ndarray, groups: tuple[int, ...] | None = None) -> BlindRun:
    return BlindRun(tuple(f"r{i}" for i in range(len(texts))), tuple(texts), member, (0, 1) * (len(texts) // 2), groups)


@pytest.fixture(scope="module")
def pool() -> list[str]:
    return sentences(1200, seed=0)


def test_an_edited_half_is_flagged_within_seconds(pool: list[str]) -> None:
    """Validity 4.7: perturbed non-members make any attack look good."""
    rng = np.random.default_rng(2)
    member = rng.random(1200) < 0.5
    start = time.perf_counter()
    found = measure_blind([run_of([t if m else edited(t, rng) for t, m in zip(pool, member, strict=True)], member)])
    assert time.perf_counter() - start < 15  # about one second on a free core
    assert found.invalid
    assert "INVALID" in found.reason
    assert found.auc.value > 0.6


def test_an_untouched_split_is_not_flagged(pool: list[str]) -> None:
    """Members and non-members by independent coins from one pool, three seeds."""
    rng = np.random.default_rng(3)
    found = measure_blind([run_of(pool, rng.random(1200) < 0.5) for _ in range(3)])
    assert not found.invalid
    assert isinstance(found.auc, Estimate)
    assert found.auc.low <= 0.5 <= found.auc.high
    assert found.auc.models == 3


def test_near_duplicates_are_judged_by_a_model_that_saw_neither() -> None:
    """Copies of one text on one side, by group: cross-fitting by group finds nothing; ignoring groups finds them."""
    rng = np.random.default_rng(4)
    base, coin = sentences(100, seed=5), rng.random(100) < 0.5
    texts, member = [t for t in base for _ in range(4)], np.repeat(coin, 4)
    groups = tuple(int(g) for g in np.repeat(np.arange(100), 4))
    assert measure_blind([run_of(texts, member)]).invalid
    assert not measure_blind([run_of(texts, member, groups)]).invalid


def test_blind_scores_can_be_paired_with_an_attacks(pool: list[str]) -> None:
    """V1: attack AUC minus blind AUC with a paired interval."""
    rng = np.random.default_rng(6)
    found = measure_blind([run_of(pool[:400], rng.random(400) < 0.5)])
    gain = measure_gain(found.runs, found.runs)
    assert isinstance(gain, Estimate)
    assert gain.value == 0


def test_one_class_is_undefined_not_invalid(pool: list[str]) -> None:
    """D01 for the blind attacker."""
    found = measure_blind([run_of(pool[:40], np.ones(40, dtype=bool))])
    assert isinstance(found.auc, Undefined)
    assert not found.invalid


def test_the_same_seed_gives_the_same_scores(pool: list[str]) -> None:
    """And no other state."""
    run = run_of(pool[:200], np.arange(200) % 2 == 0)
    one, other = (measure_blind([run], seed=3).runs[0].scores for _ in range(2))
    assert np.array_equal(one, other)


def test_a_reader_is_fitted_on_its_training_rows_only() -> None:
    """D23: a test row a thousand times as long changes no score of the other rows."""
    texts = sentences(60, seed=7)
    labels = np.arange(40) % 2
    longer = [*texts[:59], " ".join([texts[59]] * 1000)]
    rows = np.arange(40)
    found = []
    for version in (texts, longer):
        counts = count_texts(version)
        found.append(fit_reader(counts.take(rows), labels).scores(counts.take(np.arange(40, 59))))
    assert np.allclose(found[0], found[1], atol=1e-9)


def test_columns_follow_the_classes() -> None:
    """D03: scores of class numbers, whatever the order of the classifier's own columns; unseen classes lose."""
    texts = ["bad bad film", "good good film"] * 10
    counts = count_texts(texts)
    found = fit_reader(counts, np.array([3, 1] * 10), classes=5).scores(counts)
    assert found.argmax(axis=1).tolist() == [3, 1] * 10
    assert found.shape == (20, 5)


@pytest.mark.parametrize("text", [lambda i: chr(0x4E00 + i), lambda i: "", lambda i: "same", lambda i: ("a", f"b{i}")])
def test_texts_that_share_nothing_or_everything_are_no_error(text) -> None:
    """Single characters of their own, empty texts, equal texts, pairs; labels may be unknown (-1)."""
    n = 60
    run = BlindRun(tuple(map(str, range(n))), tuple(map(text, range(n))), np.arange(n) % 2 == 0, (-1,) * n)
    found = measure_blind([run])
    assert isinstance(found.auc, Estimate)
    assert not found.invalid
