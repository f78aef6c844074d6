"""The relaxed search: nothing to gain at the truth, and a descent that gets there from elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dpeval_attacks.inversion.forward import LayersForward, Placed
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.own import asked_rows, release_own
from dpeval_attacks.inversion.prefix import fit_prefix
from dpeval_attacks.inversion.relaxation import Problem, Schedule, descend


def problem(n=12, k=8, e=6, seed=0, noise=0.0):
    """Rows that are one of their candidates each, of two texts."""
    draw = torch.Generator().manual_seed(seed)
    vectors = torch.randn(n, k, e, generator=draw)
    truth = torch.randint(0, k, (n,), generator=draw)
    text = torch.arange(n) % 2
    place = torch.arange(n) // 2

    def forward(mixed):
        return torch.zeros(2, n // 2, e).index_put((text, place), mixed)

    seen = forward(vectors[torch.arange(n), truth])
    log_prior = torch.full((n, k), -2.0)
    return Problem(seen, torch.ones(2, n // 2), vectors, log_prior, text, forward, noise), truth


def test_the_objective_is_zero_at_the_truth_and_only_there():
    asked, truth = problem()
    assert asked.value(truth).tolist() == [0.0, 0.0]
    other = truth.clone()
    other[0] = (truth[0] + 1) % 8
    assert asked.value(other)[0] > 1e-3
    assert asked.value(other)[1] == 0.0


def test_silence_costs_one():
    asked, _ = problem()
    nothing = asked.objective(torch.zeros(12, 6), torch.zeros(12))
    assert nothing.tolist() == pytest.approx([1.0, 1.0])


def test_the_objective_is_the_posterior_by_hand():
    asked, truth = problem(noise=0.3)
    left = (asked.seen - asked.forward(asked.vectors[torch.arange(12), (truth + 1) % 8])).square().sum(dim=(1, 2))
    by_hand = (left + 2 * 0.3**2 * 2.0 * 6) / asked.seen.square().sum(dim=(1, 2))
    assert torch.allclose(asked.value((truth + 1) % 8), by_hand)


@pytest.mark.parametrize("shared", [False, True])
def test_a_descent_finds_every_token_from_a_blind_start(shared):
    asked, truth = problem(seed=3)
    if shared:
        whole = asked.vectors[0]
        truth = torch.randint(0, 8, (12,), generator=torch.Generator().manual_seed(1))
        asked = replace(asked, vectors=whole, log_prior=torch.zeros(8), seen=asked.forward(whole[truth]))
    found = descend(asked, torch.zeros(12, 8), Schedule(steps=150))
    assert torch.equal(found.choice, truth)
    assert found.value.max() <= 1e-8


def test_it_stops_when_converged_and_a_release_that_tells_nothing_has_no_gradient():
    asked, _ = problem()
    assert descend(asked, torch.zeros(12, 8), Schedule(steps=2000, tolerance=1e-2)).steps < 2000
    flat = replace(asked, vectors=torch.ones(12, 8, 6))
    assert descend(flat, torch.zeros(12, 8), Schedule(steps=5)).signal.max() < 1e-6


def test_the_temperature_falls_to_the_last_one_and_stays():
    schedule = Schedule(steps=100, cold=0.05)
    falling = [schedule.temperature(step) for step in range(100)]
    assert falling[0] == 1.0
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] == pytest.approx(0.05)


@pytest.mark.parametrize(("tap", "sigma"), [
    ("embedding", None), ("encoder.0.add_norm_2", None), ("encoder.1.ffn", None), ("encoder.1.add_norm_2", 0.0),
])  # fmt: skip
@pytest.mark.parametrize("texts", [1, 4])
def test_the_public_layers_reproduce_a_release_without_noise_to_the_last_digit(world, tap, sigma, texts):
    """Alone and among others, clear or scaled to one norm: the objective at the true words is zero."""
    view = world.view(tap, sigma)
    own = release_own(view, world.knowledge, world.ctx, queries=1, most=40, who="test")
    prefix = fit_prefix(world.checkpoint.build(2, 0), tap, own, world.checkpoint.pad_id)
    forward = LayersForward.of(prefix, own, 0.0, world.checkpoint.pad_id)
    released, tokens = view.intercepted(), world.truth()
    rows = [released.rows(i) for i in range(texts)]
    asked, places = asked_rows(rows, own.study)
    truth = [t for ids in tokens[:texts] for t in ids[1:-1]]
    import numpy as np

    text = np.repeat(np.arange(texts), [count for _, count in places])
    placed = Placed(Sample(asked.rows, asked.tokens, asked.positions, asked.gains), text, places, torch.device("cpu"))
    search = forward.problem(placed, own.allowed)
    choice = torch.from_numpy(np.searchsorted(own.allowed, np.array(truth)))
    assert search.value(choice).max() < 1e-8
