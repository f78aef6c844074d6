"""Descents and candidates where rows depend on their own token alone: the same problem as through the layers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from dpeval_attacks.inversion.forward import LayersForward, Placed, in_their_span
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.own import asked_rows, release_own
from dpeval_attacks.inversion.prefix import fit_prefix
from dpeval_attacks.inversion.relaxation import Schedule, descend
from dpeval_attacks.inversion.rowwise import RowwiseForward, RowwiseReader


def fitted(world, tap, sigma=None, *, normalised=True):
    view = world.view(tap, sigma, normalised=normalised)
    own = release_own(view, world.knowledge, world.ctx, queries=1, most=100, who="test")
    prefix = fit_prefix(world.checkpoint.build(2, 0), tap, own, world.checkpoint.pad_id)
    found = view.intercepted()
    asked, places = asked_rows([found.rows(i) for i in range(4)], own.study)
    options = {"noise": sigma or 0.0, "pad_id": world.checkpoint.pad_id, "positions": world.checkpoint.max_length}
    return own, prefix, asked, places, RowwiseReader.of(prefix, own, **options)


@pytest.mark.parametrize("twice", [False, True])
def test_the_span_of_candidates_keeps_all_distances(twice):
    """Where two candidates are the same one, too."""
    draw = torch.Generator().manual_seed(0)
    vectors, seen = torch.randn(5, 4, 30, generator=draw), 3 * torch.randn(5, 30, generator=draw)
    if twice:
        vectors[:, 3] = vectors[:, 0]
    rows, within = in_their_span(seen, vectors)
    assert rows.shape == (5, 5)
    for _ in range(10):
        shares = torch.softmax(torch.randn(5, 4, generator=draw), dim=1)
        mixed, inside = (torch.einsum("nk,nke->ne", shares, v) for v in (vectors, within))
        torch.testing.assert_close((rows - inside).norm(dim=1), (seen - mixed).norm(dim=1), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(inside.norm(dim=1), mixed.norm(dim=1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("sigma", "normalised"), [(None, True), (1e-3, True), (0.1, False)])
def test_whole_tokens_are_worth_what_the_layers_say(world, sigma, normalised):
    own, prefix, asked, places, reader = fitted(world, "embedding", sigma, normalised=normalised)
    text = np.repeat(np.arange(len(places)), [count for _, count in places])
    placed = Placed(asked, text, places, torch.device("cpu"))
    layers = LayersForward.of(prefix, own, sigma or 0.0, world.checkpoint.pad_id)
    candidates = reader.best(asked, 6)
    one, other = (way.problem(placed, candidates) for way in (RowwiseForward(layers), layers))
    draw = torch.Generator().manual_seed(1)
    for _ in range(5):
        choice = torch.randint(6, (len(asked),), generator=draw)
        torch.testing.assert_close(one.value(choice), other.value(choice), atol=1e-5, rtol=1e-4)
    start = torch.zeros(len(asked), 6)
    ends = [descend(problem, start, Schedule(steps=60)) for problem in (one, other)]
    same = float((ends[0].choice == ends[1].choice).float().mean())
    assert same > 0.95
    assert bool((one.value(ends[0].choice) <= one.value(ends[1].choice) * 1.02 + 1e-6).all())


def test_candidates_hold_the_truth(world):
    """By hand: the nearest clear rows of all tokens at the row's place."""
    own, _, asked, places, reader = fitted(world, "embedding")
    truth = [t for tokens, (first, n) in zip(world.truth(), places, strict=False) for t in tokens[first : first + n]]
    assert reader.read(asked).tolist() == truth
    assert reader.accuracy(Sample(asked.rows, np.array(truth), asked.positions, asked.gains)) == 1.0
    broken = Sample(asked.rows * [[0.0]], asked.tokens, asked.positions, asked.gains)
    assert set(reader.read(broken).tolist()) == {-1}
    assert all(len(set(row)) == 4 for row in reader.best(asked, 4).tolist())
    assert all(a <= b for a, b in pairwise(sorted(own.allowed)))


def test_rows_that_depend_on_other_words_are_no_rows_of_single_words(world):
    assert fitted(world, "encoder.0.add_norm_2")[4] is None
