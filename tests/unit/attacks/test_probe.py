"""The attribute probe on real releases of a tiny model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpeval.types import Embeddings
from dpeval_attacks.attribute.probe import AttributeProbe


def infer(world, view, *, auxiliary=None, **options):
    knowledge = world.knowing(world.auxiliary if auxiliary is None else auxiliary)
    return AttributeProbe(**options).infer(view, world.targets.ids, knowledge, world.ctx)


def accuracy(world, found):
    return float(np.mean(found.scores.argmax(axis=1) == np.array(world.targets.attributes)))


@pytest.mark.parametrize("model", ["logistic", "mlp"])
@pytest.mark.parametrize("tap", ["embedding", "output"])
def test_the_attribute_shows_in_clear_embeddings(world, model, tap):
    """Four values; a guess is right for about a quarter."""
    found = infer(world, world.view(tap), model=model)
    assert found.ids == world.targets.ids
    assert found.scores.shape == (30, world.values)
    assert accuracy(world, found) >= 0.9


def test_more_queries_and_views_read_more_through_noise(world):
    view = world.view("embedding", 0.1)
    weak, strong = (accuracy(world, infer(world, view, views=k, queries=k)) for k in (1, 6))
    assert strong > weak + 0.15


def test_each_view_of_its_own_texts_is_a_fresh_average_over_the_queries(world):
    view = world.view("embedding", 0.05)
    infer(world, view, queries=2, views=3)
    assert view.asked == [("own", d) for d in range(6)] + [("targets", 0), ("targets", 1)]


def test_a_clear_release_gives_one_view(world):
    view = world.view("embedding")
    infer(world, view, views=50)
    assert view.asked == [("own", 0), ("own", 1), ("targets", 0)]


def test_targets_take_no_part_in_fitting(world):
    """One target a thousand times larger: all other scores stay the same to the bit."""

    def spoil(clear):
        values = clear.values.copy()
        values[clear.offsets[3] : clear.offsets[4]] *= 1000
        return Embeddings(clear.ids, values, clear.offsets)

    plain, spoilt = (infer(world, world.view("embedding", spoil=s)).scores for s in (lambda e: e, spoil))
    others = np.arange(30) != 3
    assert np.array_equal(plain[others], spoilt[others])
    assert not np.array_equal(plain[3], spoilt[3])


def test_records_without_the_attribute_are_left_out(world):
    half = replace(
        world.auxiliary, attributes=tuple(a if i % 2 else None for i, a in enumerate(world.auxiliary.attributes))
    )
    only = world.auxiliary.take(range(1, 100, 2))
    assert np.array_equal(*(infer(world, world.view("embedding"), auxiliary=a).scores for a in (half, only)))


def test_nothing_to_learn_from_is_an_error_that_says_so(world):
    nothing = replace(world.auxiliary, attributes=(None,) * 100)
    with pytest.raises(ValueError, match="none of 100 auxiliary records has the attribute"):
        infer(world, world.view("embedding"), auxiliary=nothing)
    outside = replace(world.auxiliary, attributes=(99,) * 100)
    with pytest.raises(ValueError, match=rf"expected attribute values 0\.\.{world.values - 1}, got \['99'\]"):
        infer(world, world.view("embedding"), auxiliary=outside)


def test_broken_auxiliary_rows_are_left_out_and_broken_targets_get_the_shares(world):
    def spoil(clear):
        values = clear.values.copy()
        values[clear.offsets[0]] = np.nan
        return Embeddings(clear.ids, values, clear.offsets)

    scores = infer(world, world.view("embedding", spoil=spoil)).scores
    counts = np.bincount(world.auxiliary.attributes, minlength=world.values)
    np.testing.assert_allclose(np.exp(scores[0]), counts / counts.sum())


@pytest.mark.parametrize("options", [{"model": "svm"}, {"pooling": "max"}, {"queries": 0}, {"views": 0}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=rf"{next(iter(options))}.*got"):
        AttributeProbe(**options)


def test_single_rows_vote_where_one_word_gives_the_attribute_away(world):
    found = infer(world, world.view("embedding"), pooling="tokens")
    assert accuracy(world, found) >= 0.9
    assert np.isfinite(found.scores).all()


def test_neighbours_read_the_attribute_too(world):
    assert accuracy(world, infer(world, world.view("output"), model="knn")) >= 0.8


def test_the_published_protocol_takes_one_copy_and_says_what_is_wrong_with_it(world):
    view = world.view("embedding", 0.05)
    infer(world, view, protocol="published", views=9)
    assert view.asked == [("own", 0), ("targets", 0)]
    published = AttributeProbe(protocol="published")
    assert published.sound == AttributeProbe()
    assert "commonest value" in published.caveat
    assert AttributeProbe().caveat == ""
