"""Release points that can be gone round are refused by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dpeval.errors import LeakError
from dpeval.models.bypass import check_release_point
from dpeval.models.classifier import TextClassifier

EVERY = ["bert", "roberta", "distilbert", "electra", "mpnet", "albert", "deberta", "gpt2_no_pad"]


@pytest.mark.parametrize("attention", [None, "eager"])
@pytest.mark.parametrize("name", EVERY)
def test_every_named_position_passes(checkpoint_of, name, attention):
    checkpoint = checkpoint_of(name, attention=attention)
    model = checkpoint.build(2, 0)
    for tap in checkpoint.positions():
        check_release_point(model, tap, checkpoint)


@pytest.mark.parametrize(
    ("path", "culprit"),
    [
        ("encoder.layer.0.attention.self", "layer.0.attention.output.LayerNorm"),
        ("encoder.layer.0.attention.output.dense", "layer.0.attention.output.LayerNorm"),
        ("encoder.layer.1.output.dense", "layer.1.output.LayerNorm"),
        ("encoder.layer.0.intermediate", "layer.0.output.LayerNorm"),
        ("embeddings.word_embeddings", "embeddings.token_type_embeddings"),
        ("encoder.layer.0.attention.self.value", "layer.0.attention.self"),
    ],
)
def test_a_module_path_that_the_residual_goes_round_is_refused_naming_what_it_reaches(checkpoint_of, path, culprit):
    checkpoint = checkpoint_of("bert")
    with pytest.raises(LeakError, match=culprit.replace(".", r"\.")):
        check_release_point(checkpoint.build(2, 0), path, checkpoint)


def test_module_paths_that_nothing_goes_round_pass(checkpoint_of):
    for name, path in [("bert", "encoder.layer.0"), ("gpt2_no_pad", "h.1"), ("deberta", "encoder.layer.0")]:
        checkpoint = checkpoint_of(name)
        check_release_point(checkpoint.build(2, 0), path, checkpoint)


def test_the_attention_output_of_a_pre_norm_decoder_is_refused_by_path_and_cut_off_by_name(checkpoint_of):
    checkpoint = checkpoint_of("gpt2_no_pad")
    check_release_point(checkpoint.build(2, 0), "encoder.1.mha", checkpoint)
    with pytest.raises(LeakError, match=r"h\.1\.ln_2"):
        check_release_point(checkpoint.build(2, 0), "h.1.attn", checkpoint)


class AlsoCountsTokens(TextClassifier):
    """A classifier that looks at the text again after pooling."""

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        logits = super().forward(input_ids, attention_mask, token_type_ids)
        return logits + 1e-6 * input_ids.float().mean(dim=1, keepdim=True)


def test_a_classifier_that_reads_the_text_again_is_refused(checkpoint_of):
    checkpoint = checkpoint_of("bert")
    model = checkpoint.build(2, 0)
    model.__class__ = AlsoCountsTokens
    with pytest.raises(LeakError, match="can be gone round"):
        check_release_point(model, "output", checkpoint)


class Around(nn.Module):
    """Adds the clear input of a whole layer to its output."""

    def __init__(self, layer):
        super().__init__()
        self.inner = layer

    def forward(self, hidden_states, *args, **kwargs):
        return self.inner(hidden_states, *args, **kwargs) + 1e-4 * hidden_states


def test_a_residual_path_around_a_whole_layer_is_refused(checkpoint_of):
    checkpoint = checkpoint_of("bert")
    model = checkpoint.build(2, 0)
    model.encoder.encoder.layer[1] = Around(model.encoder.encoder.layer[1])
    with pytest.raises(LeakError):
        check_release_point(model, "encoder.layer.1.inner", checkpoint)


class Remembers(nn.Module):
    """Keeps what the embeddings say and adds a little of it to the last layer's answer, also in the second half."""

    def __init__(self, classifier):
        super().__init__()
        self.inner = classifier.encoder.encoder.layer[-1]
        classifier.encoder.embeddings.word_embeddings.register_forward_hook(self.keep)
        self.kept = None

    def keep(self, _module, args, output):
        if int(args[0].sum()):
            self.kept = output.mean(dim=1, keepdim=True)

    def forward(self, hidden_states, *args, **kwargs):
        out = self.inner(hidden_states, *args, **kwargs)
        return out + 1e-3 * self.kept[:1] if self.kept is not None else out


@pytest.mark.parametrize("tap", ["embedding", "encoder.0.add_norm_2", "encoder.layer.0"])
def test_a_module_that_remembers_the_text_is_refused(checkpoint_of, tap):
    checkpoint = checkpoint_of("bert")
    model = checkpoint.build(2, 0)
    model.encoder.encoder.layer[-1] = Remembers(model)
    with pytest.raises(LeakError):
        check_release_point(model, tap, checkpoint)


class Centred(nn.Module):
    """Takes the mean of the batch away."""

    def __init__(self, layer):
        super().__init__()
        self.inner = layer

    def forward(self, hidden_states, *args, **kwargs):
        out = self.inner(hidden_states, *args, **kwargs)
        return out - 0.1 * out.mean(dim=0, keepdim=True)


@pytest.mark.parametrize("tap", ["encoder.0.add_norm_2", "encoder.1.add_norm_2", "output"])
def test_a_model_that_mixes_the_texts_of_a_batch_is_refused(checkpoint_of, tap):
    checkpoint = checkpoint_of("distilbert")
    model = checkpoint.build(2, 0)
    model.encoder.transformer.layer[1] = Centred(model.encoder.transformer.layer[1])
    with pytest.raises(LeakError, match="other texts of its batch"):
        check_release_point(model, tap, checkpoint)


def test_training_mode_is_put_back(checkpoint_of):
    checkpoint = checkpoint_of("bert")
    model = checkpoint.build(2, 0).train()
    model.pool.eval()
    check_release_point(model, "output", checkpoint)
    assert model.training
    assert not model.pool.training
    assert torch.is_grad_enabled()
