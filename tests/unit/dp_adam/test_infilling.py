"""The objective ``infilling``: a masked word, predicted by the checkpoint's own head, stands for the class."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from dpeval.context import RunContext
from dpeval.errors import ModelError
from dpeval.plugin import Task
from dpeval.types import Dataset, Records
from dpeval_defenses.dp_adam import DPAdam
from dpeval_defenses.dp_adam.adapt import adapt_classifier, parse_adapt
from dpeval_defenses.dp_adam.clipping import ClippedGradients
from dpeval_defenses.dp_adam.infilling import infilling
from dpeval_defenses.dp_adam.noise import SeededNoise
from dpeval_defenses.dp_adam.problem import head_problem, text_loss
from dpeval_defenses.dp_adam.prompted import PromptedRelease
from dpeval_defenses.dp_adam.sampler import PoissonSampler
from dpeval_defenses.dp_adam.settings import TrainSettings
from dpeval_defenses.dp_adam.template import default_words, parse_template
from dpeval_defenses.dp_adam.trainer import train_private

SST = "{text} It was [MASK]."
MNLI = "{first}? [MASK], {second}"
TEXTS = ("a good warm day", "the cold old bus was bad [MASK] and very very very very very very very bad", "rain", "")
CPU = torch.device("cpu")
FEW = {"objective": "infilling", "epochs": 2, "batch_size": 8, "noise_multiplier": 1.0, "learning_rate": 0.05}


@pytest.fixture(scope="module")
def checkpoint(masked):
    return masked("bert")


def records(n: int = 16, pairs: bool = False) -> Records:
    texts = [(TEXTS[i % 4], TEXTS[(i + 1) % 4]) if pairs else TEXTS[i % 4] for i in range(n)]
    return Records(tuple(f"r{i}" for i in range(n)), tuple(texts), tuple(int(i % 4 in (0, 3)) for i in range(n)))


def words_of(checkpoint, ids: list[int]) -> list[str]:
    found: list[str] = checkpoint.tokenizer.convert_ids_to_tokens(ids)
    return found


def test_a_text_becomes_a_prompt_whose_mask_is_never_cut_off(checkpoint) -> None:
    """Long texts are cut as they would be without a template; a mask spelt out in a text is none."""
    prompt = infilling(checkpoint, SST, ("terrible", "great"))
    rows = [words_of(checkpoint, list(row)) for row in prompt.encode(records(4)).ids]
    assert rows[0] == ["[CLS]", "a", "good", "warm", "day", "it", "was", "[MASK]", ".", "[SEP]"]
    assert len(checkpoint.tokens(records(4))[1]) == 16
    assert rows[1][-5:] == ["it", "was", "[MASK]", ".", "[SEP]"]
    assert rows[1].count("[MASK]") == 1
    assert len(rows[1]) == prompt.max_length == 20
    assert rows[3] == ["[CLS]", "it", "was", "[MASK]", ".", "[SEP]"]


def test_a_pair_is_joined_as_the_paper_joins_it(checkpoint) -> None:
    """The first text loses its final punctuation."""
    prompt = infilling(checkpoint, MNLI, ("yes", "maybe", "no"))
    pair = Records(("p",), (("a warm day .", "The sun"),), (0,))
    got = words_of(checkpoint, list(prompt.encode(pair).ids[0]))
    assert got == ["[CLS]", "a", "warm", "day", "?", "[MASK]", ",", "the", "sun", "[SEP]"]
    long = Records(("p",), ((" ".join(["rain"] * 40), " ".join(["sun"] * 40)),), (0,))
    ids = words_of(checkpoint, list(prompt.encode(long).ids[0]))
    assert ids.count("[MASK]") == 1
    assert 5 <= ids.count("rain") <= 8
    assert 5 <= ids.count("sun") <= 8


@pytest.mark.parametrize("name", ["bert", "untied", "electra", "distilbert"])
def test_the_classifier_is_the_masked_language_model_at_the_mask(masked, name: str) -> None:
    """Oracle: transformers' own masked-LM forward pass over all positions and the whole vocabulary."""
    from transformers import AutoModelForMaskedLM

    checkpoint = masked(name)
    prompt = infilling(checkpoint, SST, ("terrible", "great"))
    whole = AutoModelForMaskedLM.from_pretrained(checkpoint.config.source).eval()
    batch = prompt.encode(records(4)).batch([0, 1, 2, 3])
    inputs = batch if checkpoint.takes_types else {k: v for k, v in batch.items() if k != "token_type_ids"}
    at = batch["input_ids"].eq(checkpoint.tokenizer.mask_token_id).int().argmax(1)
    ids = checkpoint.tokenizer.convert_tokens_to_ids(["terrible", "great"])
    with torch.no_grad():
        expected = whole(**inputs).logits[torch.arange(4), at][:, ids]
        torch.testing.assert_close(prompt.build(2, 0)(**batch), expected)
    assert float(expected.std()) > 0.01


@pytest.mark.parametrize("way", ["full", "lora", "prefix", "bitfit", "last-1", "head", "rgp"])
def test_training_is_exact_for_every_way(checkpoint, loop_engine, way: str) -> None:
    """The clipping engine and the loop of single-example backward passes end at the same weights, tied table too."""
    task, prompt = Task(records(), 2, checkpoint), infilling(checkpoint, SST, ("terrible", "great"))
    ends = []
    for engine in (loop_engine, ClippedGradients):
        classifier = prompt.build(2, 0)
        adapted = adapt_classifier(
            classifier, parse_adapt(way), rank=2, prefix_length=2, generator=torch.Generator().manual_seed(0)
        )
        settings = TrainSettings(steps=2, max_norm=0.3, noise_multiplier=0.3, learning_rate=0.1, optimizer="sgd")
        train_private(
            classifier, text_loss(classifier, task, CPU, prompt), PoissonSampler(16, 0.5, 3), SeededNoise(4), settings,
            engine=engine, carrier=adapted.carrier,
        )  # fmt: skip
        adapted.finish()
        ends.append(classifier.state_dict())
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], rtol=1e-4, atol=1e-6)


def test_the_tied_table_stays_tied_and_moves_in_full_training_only(checkpoint) -> None:
    for way in ("full", "head", "lora"):
        release = DPAdam(adapt=way, lora_rank=2, **FEW).train(Task(records(), 2, checkpoint), RunContext(0))
        state = release.classifier.state_dict()
        table, output = (state[n] for n in state if n.endswith(("word_embeddings.weight", "decoder.weight")))
        assert torch.equal(table, output)
        public = torch.from_numpy(checkpoint.input_embeddings())
        assert torch.equal(table, public) == (way != "full")


def test_the_head_trained_on_kept_features_equals_the_slow_way(checkpoint) -> None:
    task, prompt = Task(records(), 2, checkpoint), infilling(checkpoint, SST, ("terrible", "great"))
    ends = []
    for fast in (True, False):
        classifier = prompt.build(2, 0)
        adapt_classifier(classifier, parse_adapt("head"), rank=1, prefix_length=1, generator=torch.Generator())
        make = head_problem if fast else text_loss
        made = make(classifier, task, CPU, prompt)
        model, loss = made if isinstance(made, tuple) else (classifier, made)
        settings = TrainSettings(steps=3, max_norm=0.3, noise_multiplier=0.5, learning_rate=0.1, optimizer="sgd")
        train_private(model, loss, PoissonSampler(16, 0.5, 3), SeededNoise(4), settings)
        ends.append({k: v.clone() for k, v in classifier.state_dict().items()})
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("way", ["full", "lora", "prefix", "head"])
def test_a_release_answers_the_same_to_the_bit_after_save_and_load(checkpoint, way: str, tmp_path) -> None:
    settings = FEW | {"adapt": way, "lora_rank": 2, "prefix_length": 2}
    release = DPAdam(**settings).train(Task(records(), 2, checkpoint), RunContext(1))
    release.save(tmp_path)
    again = PromptedRelease.load(tmp_path, CPU)
    predicted = release.predict(records()).log_probs
    assert np.array_equal(predicted, again.predict(records()).log_probs)
    assert np.allclose(np.exp(predicted).sum(1), 1)
    assert again.claim == release.claim
    assert dict(again.claim.details)["label words"] == "terrible, great"
    for tap in ("embedding", "encoder.1.add_norm_2", "output"):
        assert np.array_equal(release.embed(records(), tap).values, again.embed(records(), tap).values)


def test_rows_at_a_tap_are_those_of_the_text_s_own_tokens(checkpoint) -> None:
    """As many rows as tokens, and at the input the rows that the public table and positions give."""
    release = DPAdam(adapt="head", **FEW).train(Task(records(), 2, checkpoint), RunContext(1))
    rows, tokens = release.embed(records(4), "embedding"), checkpoint.tokens(records(4))
    assert [len(rows.rows(i)) for i in range(4)] == [len(t) for t in tokens]
    plain = DPAdam(adapt="head", epochs=1, noise_multiplier=1.0).train(Task(records(), 2, checkpoint), RunContext(1))
    bare = plain.embed(records(4), "embedding")
    assert np.allclose(rows.rows(0)[:5], bare.rows(0)[:5], atol=1e-6), "[CLS] a good warm day stand where they stood"
    assert len(release.embed(records(4), "output")) == 4


def test_pairs_train_predict_and_release_one_pooled_row(checkpoint) -> None:
    pairs = records(pairs=True)
    release = DPAdam(adapt="last-1", **FEW).train(Task(pairs, 2, checkpoint), RunContext(0))
    assert dict(release.claim.details)["label words"] == "no, yes"
    assert release.predict(pairs).log_probs.shape == (16, 2)
    assert len(release.embed(pairs, "output").rows(0)) == 1
    with pytest.raises(ModelError, match="only 'output' can be asked"):
        release.embed(pairs, "embedding")


def test_what_does_not_fit_is_said_before_training(masked, checkpoint, checkpoint_of) -> None:
    def words(*named: str) -> DPAdam:
        return DPAdam(objective="infilling", label_words=named)

    prompt = DPAdam(objective="infilling", adapt="head")
    long = DPAdam(objective="infilling", adapt="prefix", prefix_length=20)
    assert prompt.unfit(checkpoint, 16) is None
    cases = [
        (prompt, masked("no head"), "its files have no head"),
        (prompt, masked("head that asks the encoder"), "is no function of one position's vector"),
        (prompt, checkpoint_of("gpt2_no_pad"), "the tokenizer has no mask token"),
        (words("very good", "bad"), checkpoint, r"'very good' is \['very', 'good'\]"),
        (words("galaxy", "bad"), checkpoint, r"'galaxy' is \['\[UNK\]'\]"),
        (words("Bad", "bad"), checkpoint, "are the same token"),
        (prompt, masked("bert", max_length=30), "set max_length to at most 28"),
        (long, checkpoint, "lower max_length or prefix_length"),
    ]  # fmt: skip
    for defense, model, message in cases:
        why = defense.unfit(model, 16)
        assert why is not None
        assert re.search(message, why), why


def test_templates_and_words_that_do_not_fit_the_records_are_said_before_training(checkpoint) -> None:
    def why(defense: DPAdam, *, pairs: bool, classes: int) -> str | None:
        names = tuple(map(str, range(classes)))
        return defense.unfit_data(Dataset("d", records(pairs=pairs), names), checkpoint)

    prompt = DPAdam(objective="infilling")
    assert why(prompt, pairs=False, classes=2) is None
    assert "give one word for each class" in str(why(prompt, pairs=False, classes=3))
    assert why(prompt, pairs=True, classes=3) is None
    assert "single texts" not in str(why(DPAdam(objective="infilling", template=MNLI), pairs=True, classes=2))
    assert "are single texts" in str(why(DPAdam(objective="infilling", template=MNLI), pairs=False, classes=2))
    wrong = DPAdam(objective="infilling", label_words=("good", "bad", "new"))
    assert "one word for each of 2 classes, got 3" in str(why(wrong, pairs=False, classes=2))
    assert DPAdam().unfit_data(Dataset("d", records(), ("a", "b")), checkpoint) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"template": "{text} It was [MASK]."}, "belong to objective"),
        ({"label_words": ("a", "b")}, "belong to objective"),
        ({"objective": "infilling", "template": "{text} was [MASK] or [MASK]"}, r"one \[MASK\], got 2"),
        ({"objective": "infilling", "template": "It was [MASK]."}, "once"),
        ({"objective": "infilling", "template": "{first} [MASK]"}, "once each"),
        ({"objective": "infilling", "template": "{text} {label} [MASK]"}, "once"),
        ({"objective": "infilling", "label_words": ("a", "a")}, "a word of its own"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused_at_once(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DPAdam(**settings)


def test_the_papers_words_are_in_the_order_of_glue() -> None:
    assert default_words(pair=False, num_labels=2) == ("terrible", "great")
    assert default_words(pair=True, num_labels=3) == ("yes", "maybe", "no")
    assert parse_template("  It was [MASK] : {text} ").pieces == ("It was", " [MASK]", " :", " {text}")


def test_byte_level_words_are_those_that_follow_a_space() -> None:
    """'great' after a space and 'great' at a start are different tokens of a byte-level tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from dpeval_defenses.dp_adam.wording import inner_ids, word_ids

    pieces = ["<unk>", "<mask>", *"abegrtwsIi.", "Ġ", "Ġgreat", "Ġwas", "ĠIt", "great"]
    merges = [("g", "r"), ("gr", "e"), ("gre", "a"), ("grea", "t"), ("Ġ", "great")]
    vocabulary = {p: i for i, p in enumerate([*pieces, "gr", "gre", "grea"])}
    special = {"unk_token": "<unk>"}
    raw = Tokenizer(models.BPE(vocabulary, merges, **special))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, **special)
    assert word_ids(tokenizer, ["great"], spaced=True) == [vocabulary["Ġgreat"]]
    assert word_ids(tokenizer, ["great"], spaced=False) == [vocabulary["great"]]
    assert inner_ids(tokenizer, " great", follows=True) == [vocabulary["Ġgreat"]]
