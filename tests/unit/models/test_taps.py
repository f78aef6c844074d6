"""Taps: what is captured, and that the rest of the model is a function of the tapped tensor alone."""

from __future__ import annotations

import pytest
import torch

from dpeval.errors import ModelError
from dpeval.models.dependence import parameters_after, parameters_before, released_shape
from dpeval.models.layout import Layout
from dpeval.models.taps import capture, closed, edited_pass, forward_from, run_edited

NAMED = ["bert", "roberta", "distilbert", "electra", "mpnet"]
EVERY = [*NAMED, "albert", "deberta", "gpt2_no_pad"]
FULL = ["a warm day and again we is very cold old tea is", "the new blue road was never one two three four five sun"]


def full_batch(checkpoint, records_of):
    """Two texts that fill the length, so that no mask is at work."""
    batch = checkpoint.encode(records_of([text * 2 for text in FULL])).batch([0, 1])
    assert batch["attention_mask"].all()
    return batch


def bert_layer_by_hand(layer, x, edit, at):
    """A BERT layer written out, the tensor at ``at`` edited, and the residual past ``mha`` and ``ffn`` dropped."""
    attended = layer.attention.output.dense(layer.attention.self(x)[0])
    summed = edit(attended) if at == "mha" else attended + x
    one = layer.attention.output.LayerNorm(summed)
    one = edit(one) if at == "add_norm_1" else one
    fed = layer.output.dense(layer.intermediate(one))
    two = layer.output.LayerNorm(edit(fed) if at == "ffn" else fed + one)
    return edit(two) if at == "add_norm_2" else two


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("at", ["mha", "add_norm_1", "ffn", "add_norm_2"])
def test_an_edited_run_equals_the_layers_written_out(checkpoint_of, records_of, index, at):
    checkpoint = checkpoint_of("bert")
    model, batch = checkpoint.build(2, 0), full_batch(checkpoint, records_of)

    def edit(x):
        return 0.5 * x + 0.1 * x.roll(1, dims=1)

    with torch.no_grad():
        x = model.encoder.embeddings(batch["input_ids"])
        for i, layer in enumerate(model.encoder.encoder.layer):
            x = bert_layer_by_hand(layer, x, edit, at if i == index else None)
        expected = model.head(x.mean(dim=1))
        got = run_edited(model, batch, f"encoder.{index}.{at}", edit)
    assert (got - expected).abs().max() <= 1e-5


@pytest.mark.parametrize("name", EVERY)
def test_both_halves_give_the_one_pass_logits_at_every_position(checkpoint_of, records_of, name):
    """Zero noise: with an edit that only normalises, cutting the model changes nothing."""
    checkpoint = checkpoint_of(name)
    model, batch = checkpoint.build(2, 0), full_batch(checkpoint, records_of)

    def normalise(x):
        return 3 * x / x.flatten(1).norm(dim=1).view(-1, 1, 1)

    for tap in checkpoint.positions():
        with torch.no_grad():
            halves = run_edited(model, batch, tap, normalise)
            whole = edited_pass(model, batch, Layout.of(model.encoder).point(tap), normalise)
        assert (halves - whole).abs().max() <= 1e-5, tap


@pytest.mark.parametrize("name", EVERY)
def test_without_an_edit_positions_after_a_norm_leave_the_model_as_it_is(checkpoint_of, records_of, name):
    checkpoint = checkpoint_of(name)
    model, batch = checkpoint.build(2, 0), full_batch(checkpoint, records_of)
    with torch.no_grad():
        plain = model(**batch)
        for tap in checkpoint.positions():
            gap = (run_edited(model, batch, tap, lambda x: x) - plain).abs().max()
            assert (gap > 1e-4) if tap.endswith((".mha", ".ffn")) else (gap <= 1e-5), tap


@pytest.mark.parametrize("name", EVERY)
def test_the_rest_depends_on_the_tapped_tensor_and_each_example_alone(checkpoint_of, records_of, name):
    """The tensor has the shape (3, 7, 16) of the batch, and one example's noise changes only its own logits."""
    checkpoint = checkpoint_of(name)
    model = checkpoint.build(2, 0)
    batch = checkpoint.encode(records_of(["a warm day", "tea", "the new blue red car"])).batch([0, 1, 2], length=7)
    for tap in checkpoint.positions():
        with torch.no_grad():
            x = capture(model, batch, tap)
            width = 8 if name in ("electra", "albert") and tap == "embedding" else 16
            assert x.shape == ((3, 1, width) if tap == "output" else (3, 7, width)), tap
            changed = x.clone()
            changed[1] += torch.randn(x[1].shape, generator=torch.Generator().manual_seed(0))
            before, after = forward_from(model, tap, x), forward_from(model, tap, changed)
        assert torch.equal(before[[0, 2]], after[[0, 2]]), tap
        assert not torch.equal(before[1], after[1]), tap


def test_capture_gives_what_a_hook_sees(checkpoint_of, records_of):
    checkpoint = checkpoint_of("distilbert")
    model, batch = checkpoint.build(2, 0), full_batch(checkpoint, records_of)
    seen = []
    handle = model.encoder.transformer.layer[1].ffn.register_forward_hook(lambda _m, _a, out: seen.append(out))
    with torch.no_grad():
        model(**batch)
        handle.remove()
        assert torch.equal(capture(model, batch, "encoder.1.ffn"), seen[0])
        assert torch.equal(capture(model, batch, "transformer.layer.1.ffn"), seen[0])


def test_no_hook_and_no_missing_layer_remains_even_after_an_error(checkpoint_of, records_of):
    checkpoint = checkpoint_of("bert")
    model, batch = checkpoint.build(2, 0), full_batch(checkpoint, records_of)

    def fail(_):
        raise ZeroDivisionError

    with torch.no_grad():
        plain = model(**batch)
        for tap in checkpoint.positions():
            with pytest.raises(ZeroDivisionError):
                run_edited(model, batch, tap, fail)
            with pytest.raises(RuntimeError):
                forward_from(model, tap, torch.ones(2, 3, 5))
            assert torch.equal(model(**batch), plain), tap
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("name", NAMED)
def test_gradients_reach_exactly_the_parameters_after_the_tap(checkpoint_of, name):
    checkpoint = checkpoint_of(name)
    model = checkpoint.build(2, 0)
    everything = {n for n, _ in model.named_parameters()}
    for tap in checkpoint.positions():
        before, after = parameters_before(model, tap), parameters_after(model, tap)
        shared = {n for n in before & after if "relative_attention_bias" not in n}
        assert not shared, tap
        assert {"head.weight", "head.bias"} <= after
        assert everything == before | after, tap
    assert parameters_after(model, "output") == {"head.weight", "head.bias"}
    assert all(p.grad is None for p in model.parameters())


def test_closed_tensors_have_a_fixed_number_of_rows_and_no_padding_content():
    x, mask = torch.ones(2, 3, 4), torch.tensor([[1, 1, 1], [1, 0, 0]])
    out = closed(x, mask, 5)
    assert out.shape == (2, 5, 4)
    assert out.sum(dim=2).tolist() == [[4, 4, 4, 0, 0], [4, 0, 0, 0, 0]]
    assert torch.equal(closed(x[:, :1], mask, 5), x[:, :1]), "a pooled tensor has one row, whatever the length"


def test_released_shape(checkpoint_of):
    model = checkpoint_of("electra").build(2, 0)
    assert (released_shape(model, "embedding", 9).rows, released_shape(model, "embedding", 9).width) == (9, 8)
    assert (released_shape(model, "output", 9).rows, released_shape(model, "output", 9).width) == (1, 16)


def test_an_unknown_position_is_an_error_with_the_nearest_names(checkpoint_of):
    model = checkpoint_of("bert").build(2, 0)
    with pytest.raises(
        ModelError, match=r"unknown position 'encoder\.1\.fnn' in BertModel: did you mean 'encoder\.1\.ffn'"
    ):
        forward_from(model, "encoder.1.fnn", torch.ones(1, 2, 16))


def test_a_module_that_runs_more_than_once_is_no_release_point(checkpoint_of, records_of):
    """ALBERT runs one layer's modules for every layer."""
    checkpoint = checkpoint_of("albert")
    model, batch = checkpoint.build(2, 0), full_batch(checkpoint, records_of)
    with pytest.raises(ModelError, match="runs more than once"):
        run_edited(model, batch, "encoder.albert_layer_groups.0.albert_layers.0.attention", lambda x: x)
