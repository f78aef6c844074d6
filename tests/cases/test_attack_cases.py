"""Real faults of comparable tools in attacks (cases A13, B16, D09, D12, D14, D16, D19, D23), and what dpeval does."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

from dpeval.context import RunContext
from dpeval.data.config import DataConfig
from dpeval.data.load import load_dataset
from dpeval.models.checkpoint import Checkpoint, load_checkpoint
from dpeval.models.config import ModelConfig
from dpeval.models.release import TextRelease
from dpeval.plugin import Knowledge
from dpeval.types import Embeddings, NoClaim, Predictions, Records
from dpeval.views import GrantedEmbeddings, GrantedPredictions
from dpeval_attacks.attribute.probe import AttributeProbe
from dpeval_attacks.inversion.nearest import NearestInversion
from dpeval_attacks.inversion.search import NO_ANSWER, nearest
from dpeval_attacks.membership.threshold import ThresholdAttack
from dpeval_defenses.none import Undefended

CaseFile = Callable[[str], Path]
CTX = RunContext(seed=1)
VOCABULARY = "a the good bad warm cold soup tea room day night light dark old new red blue car bus road rain sun"


@pytest.fixture(scope="session")
def models(case_file: CaseFile, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Checkpoint]:
    """The case files' own tiny checkpoints by name."""
    folder = tmp_path_factory.mktemp("case_models")
    runpy.run_path(str(case_file("make_tiny_models.py")))["main"](str(folder))
    return lambda name: load_checkpoint(ModelConfig(source=str(folder / name), max_length=16), folder)


def texts(n: int, prefix: str, seed: int) -> Records:
    """Random sentences whose attribute shows in their words."""
    rng = np.random.default_rng(seed)
    values = tuple(int(v) for v in rng.integers(0, 2, n))
    drawn = [" ".join([*rng.choice(VOCABULARY.split(), 6), ("red", "blue")[v]]) for v in values]
    return Records(tuple(f"{prefix}{i}" for i in range(n)), tuple(drawn), values, attributes=values)


def knowing(checkpoint: Checkpoint, auxiliary: Records, values: int = 2) -> Knowledge:
    return Knowledge(checkpoint, Undefended(), auxiliary, num_labels=2, num_attribute_values=values)


def released(checkpoint: Checkpoint) -> TextRelease:
    return TextRelease.of(checkpoint.build(2, 0), checkpoint, claim=NoClaim())


def view(release: TextRelease, targets: Records, tap: str = "embedding") -> GrantedEmbeddings:
    return GrantedEmbeddings(
        tap,
        lambda draw: release.embed(targets, tap, draw=draw),
        lambda records, draw: release.embed(records, tap, draw=draw),
    )


def read(case_file: CaseFile, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(case_file(name).read_text(encoding="utf-8"))
    return found


def test_d09_log_odds_of_saturated_probabilities_are_exact_and_do_not_tie(case_file: CaseFile) -> None:
    """20, 60, 120, -120 and 30 - ln 2 from the logits, where single-precision softmax gives infinities."""
    case = read(case_file, "d09_logits.json")
    records = Records(tuple(f"r{i}" for i in range(5)), ("t",) * 5, tuple(case["label"]))
    rows = [log_softmax(np.array(logits, dtype=np.float64)) for logits in case["logits"]]
    got = [
        ThresholdAttack()
        .score(
            GrantedPredictions(lambda asked, draw, row=row: Predictions(asked.ids, row[None])),
            records.take([i]),
            None,  # type: ignore[arg-type]
            CTX,
        )
        .values[0]
        for i, row in enumerate(rows)
    ]
    assert got == pytest.approx([20, 60, 120, -120, 30 - np.log(2)], rel=1e-12)


def test_d12_an_index_that_finds_nothing_never_answers_the_last_token(case_file: CaseFile) -> None:
    """Five neighbours among three vectors: red, green, blue and two absent; a NaN query finds none."""
    case = read(case_file, "d12_three_vectors.json")
    table = np.array(case["vocab"], dtype=np.float32)
    queries = np.array([*case["query"], [np.nan, 0.5]], dtype=np.float32)
    found = nearest(queries, table, allowed=np.arange(3), k=case["k"])
    names = [[case["tokens"][i] for i in row if i != NO_ANSWER] for row in found]
    assert names == [["red", "green", "blue"], []]


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_d14_a_zero_query_has_no_answer_and_padding_is_never_one(case_file: CaseFile, metric: Any) -> None:
    case = read(case_file, "d14_zero_vectors.json")
    table, queries = (np.array(case[name], dtype=np.float32) for name in ("vocab", "queries"))
    allowed = np.array([i for i, token in enumerate(case["tokens"]) if token not in case["special"]])
    found = nearest(queries, table, allowed=allowed, metric=metric)[:, 0]
    assert [case["tokens"][i] if i != NO_ANSWER else None for i in found] == ["a", None]


@pytest.mark.parametrize("name", ["bert_plain", "gpt2_no_pad"])
def test_a13_empty_and_blank_texts_keep_scores_and_vectors_with_their_ids(
    case_file: CaseFile, models: Callable[[str], Checkpoint], name: str
) -> None:
    path = case_file("a13_empty_texts.jsonl")
    records = load_dataset(DataConfig(source=path.name, text="text", label="label", id="id"), path.parent).records
    release = released(models(name))
    asked = GrantedPredictions(lambda some, draw: release.predict(some, draw=draw))
    scores = ThresholdAttack(signal="loss").score(asked, records, knowing(release.checkpoint, records), CTX)
    assert scores.ids == records.ids
    for i, key in enumerate(records.ids):
        alone = ThresholdAttack(signal="loss").score(
            asked, records.take([i]), knowing(release.checkpoint, records), CTX
        )
        assert (alone.ids, alone.values[0]) == ((key,), scores.values[i])
    assert "10" in records.ids
    assert records.labels[records.ids.index("10")] == 1


def test_b16_a_bfloat16_checkpoint_is_inverted_and_probed_in_float32(models: Callable[[str], Checkpoint]) -> None:
    checkpoint, targets = models("bert_bf16"), texts(20, "t", 0)
    release, knowledge = released(checkpoint), knowing(checkpoint, texts(80, "a", 1))
    assert release.embed(targets, "embedding").values.dtype == np.float32
    found = NearestInversion().recover(view(release, targets), targets.ids, knowledge, CTX)
    right = [
        given == true
        for given_row, true_row in zip(found.tokens, checkpoint.tokens(targets), strict=True)
        for given, true in zip(given_row, true_row, strict=True)
        if true not in checkpoint.special_ids
    ]
    assert np.mean(right) > 0.99
    inferred = AttributeProbe().infer(view(release, targets), targets.ids, knowledge, CTX)
    assert np.mean(inferred.scores.argmax(axis=1) == np.array(targets.attributes)) > 0.8


def test_d16_an_uncased_text_is_recovered_token_by_token_and_as_the_tokenizers_own_decoding(
    models: Callable[[str], Checkpoint],
) -> None:
    """Every token right, though the raw text's capitals and accents are gone."""
    checkpoint = models("bert_plain")
    target = Records(("t",), ("THE Góod Süp, tea DON’T wait rain",), (0,))
    found = NearestInversion().recover(
        view(released(checkpoint), target), target.ids, knowing(checkpoint, texts(80, "a", 1)), CTX
    )
    true, special = checkpoint.tokens(target)[0], checkpoint.special_ids
    kept = [(g, t) for g, t in zip(found.tokens[0], true, strict=True) if t not in special]
    assert kept
    assert [g for g, _ in kept] == [t for _, t in kept]
    decode = checkpoint.tokenizer.decode
    assert decode([g for g, _ in kept]) == decode(true, skip_special_tokens=True)


def test_d19_one_value_in_the_attacks_texts_gives_constant_finite_scores(models: Callable[[str], Checkpoint]) -> None:
    checkpoint, targets = models("bert_plain"), texts(10, "t", 0)
    one = replace(texts(30, "a", 1), attributes=(0,) * 30)
    scores = (
        AttributeProbe().infer(view(released(checkpoint), targets), targets.ids, knowing(checkpoint, one), CTX).scores
    )
    assert np.isfinite(scores).all()
    assert np.array_equal(scores, np.tile(scores[0], (10, 1)))
    assert scores[0].argmax() == 0


@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_d23_a_test_row_a_thousand_times_larger_changes_no_other_prediction(
    models: Callable[[str], Checkpoint], model: Any
) -> None:
    checkpoint, targets = models("bert_plain"), texts(12, "t", 0)
    release, knowledge = released(checkpoint), knowing(checkpoint, texts(60, "a", 1))

    def scores(factor: float) -> Any:
        clear = release.embed(targets, "embedding")
        values = clear.values.copy()
        values[clear.offsets[5] : clear.offsets[6]] *= factor
        spoilt = Embeddings(clear.ids, values, clear.offsets)
        asked = GrantedEmbeddings("embedding", lambda draw: spoilt, view(release, targets)._embed)
        return AttributeProbe(model=model).infer(asked, targets.ids, knowledge, CTX).scores

    plain, spoilt = scores(1.0), scores(1000.0)
    others = np.arange(12) != 5
    assert np.array_equal(plain[others], spoilt[others])
