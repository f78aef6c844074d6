"""Two processes that train together end where one alone ends: one draw, each its part, one noise."""

from __future__ import annotations

import runpy
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from dpeval_defenses.dp_adam.parallel import World

_SCRIPT = """
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from safetensors.torch import save_file

from dpeval_defenses.dp_adam.noise import SecureNoise, SeededNoise
from dpeval_defenses.dp_adam.parallel import World
from dpeval_defenses.dp_adam.sampler import PoissonSampler
from dpeval_defenses.dp_adam.settings import TrainSettings
from dpeval_defenses.dp_adam.trainer import train_private


def main(folder, rank, size):
    world = World()
    if size > 1:
        meet = f"file://{folder}/meet"
        dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=size, timeout=timedelta(seconds=100))
        world = World.current()
    for kind, noise in (("seeded", SeededNoise(4)), ("secure", SecureNoise())):
        save_file(train(world, noise), f"{folder}/{kind}-{rank}-of-{size}.safetensors")
    if size > 1:
        dist.destroy_process_group()


def train(world, noise):
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 5, generator=g).double(), torch.randint(0, 3, (40,), generator=g)
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()
    for p in model.parameters():  # only the first process starts where the single run starts
        p.data.normal_(0.0, 0.5, generator=torch.Generator().manual_seed(7 + world.rank))
    loss = lambda at: torch.nn.functional.cross_entropy(model(x[at]), y[at], reduction="none")
    settings = TrainSettings(steps=6, max_norm=0.3, noise_multiplier=1.0, learning_rate=0.05, micro_batch=4)
    log = train_private(model, loss, PoissonSampler(40, 0.2, 3), noise, settings, world=world)
    tensors = {name: p.detach() for name, p in model.named_parameters()}
    tensors["drawn"] = torch.tensor([float(entry.drawn) for entry in log])
    tensors["norms"] = torch.tensor([entry.mean_norm for entry in log], dtype=torch.float64)
    return tensors


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, torch.Tensor]]]:
    """What the runs end with: ``alone``, and both processes with seeded and with secure noise."""
    folder = tmp_path_factory.mktemp("parallel")
    script = folder / "train.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    started = [subprocess.Popen([sys.executable, str(script), str(folder), str(rank), "2"]) for rank in range(2)]
    runpy.run_path(str(script))["main"](str(folder), 0, 1)
    assert [process.wait(timeout=200) for process in started] == [0, 0]

    def read(kind: str, size: int) -> list[dict[str, torch.Tensor]]:
        return [load_file(folder / f"{kind}-{rank}-of-{size}.safetensors") for rank in range(size)]

    return {"alone": read("seeded", 1), "seeded": read("seeded", 2), "secure": read("secure", 2)}


def test_two_processes_end_where_one_ends(ends) -> None:
    """Equal weights up to the order of addition, equal to the bit on both ranks, and the log counts every record."""
    first, second = ends["seeded"]
    for name, tensor in ends["alone"][0].items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], tensor, rtol=1e-10, atol=1e-12)


def test_noise_from_the_operating_system_is_shared_by_the_processes(ends) -> None:
    """Noise that cannot be repeated is drawn by one process and sent to the other, not drawn twice."""
    first, second = ends["secure"]
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["0.weight"], ends["seeded"][0]["0.weight"])


def test_the_shares_of_a_draw_are_disjoint_and_complete() -> None:
    draw = np.arange(11) * 3
    shares = [World(rank, 3).share(draw) for rank in range(3)]
    assert sorted(np.concatenate(shares).tolist()) == draw.tolist()


def test_a_missing_process_group_is_said() -> None:
    with pytest.raises(RuntimeError, match="call init_process_group"):
        World.current()
