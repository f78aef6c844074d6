"""Two processes that train together end where one alone ends: one draw, each its part, one noise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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

from dpeval_defenses.dp_adam import PoissonSampler, SecureNoise, SeededNoise, TrainSettings, World, train_private

folder, rank, size, kind = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
world = World()
if size > 1:
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet-{kind}", rank=rank, world_size=size, timeout=timedelta(seconds=60)
    )
    world = World.current()
g = torch.Generator().manual_seed(0)
x, y = torch.randn(40, 5, generator=g).double(), torch.randint(0, 3, (40,), generator=g)
torch.manual_seed(rank)
model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()
if rank == 0:
    start = torch.Generator().manual_seed(7)
    for p in model.parameters():
        p.data.normal_(0.0, 0.5, generator=start)
loss = lambda at: torch.nn.functional.cross_entropy(model(x[at]), y[at], reduction="none")
settings = TrainSettings(steps=6, max_norm=0.3, noise_multiplier=1.0, learning_rate=0.05, micro_batch=4)
noise = SecureNoise() if kind == "secure" else SeededNoise(4)
log = train_private(model, loss, PoissonSampler(40, 0.2, 3), noise, settings, world=world)
tensors = {name: p.detach() for name, p in model.named_parameters()}
tensors["drawn"] = torch.tensor([float(entry.drawn) for entry in log])
tensors["norms"] = torch.tensor([entry.mean_norm for entry in log], dtype=torch.float64)
save_file(tensors, f"{folder}/{kind}-{rank}-of-{size}.safetensors")
if size > 1:
    dist.destroy_process_group()
"""


def run(folder: Path, size: int, kind: str) -> list[dict[str, torch.Tensor]]:
    """Train in ``size`` processes; what each of them ends with."""
    script = folder / "train.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    started = [
        subprocess.Popen([sys.executable, str(script), str(folder), str(rank), str(size), kind]) for rank in range(size)
    ]
    assert [process.wait(timeout=120) for process in started] == [0] * size
    return [load_file(folder / f"{kind}-{rank}-of-{size}.safetensors") for rank in range(size)]


def test_two_processes_end_where_one_ends(tmp_path: Path) -> None:
    """Equal weights up to the order of addition, equal to the bit on both ranks, and the log counts every record."""
    alone = run(tmp_path, 1, "seeded")[0]
    first, second = run(tmp_path, 2, "seeded")
    for name, tensor in alone.items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], tensor, rtol=1e-10, atol=1e-12)


def test_noise_from_the_operating_system_is_shared_by_the_processes(tmp_path: Path) -> None:
    """Noise that cannot be repeated is drawn by one process and sent to the other, not drawn twice."""
    first, second = run(tmp_path, 2, "secure")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_shares_of_a_draw_are_disjoint_and_complete() -> None:
    draw = np.arange(11) * 3
    shares = [World(rank, 3).share(draw) for rank in range(3)]
    assert sorted(np.concatenate(shares).tolist()) == draw.tolist()


def test_a_missing_process_group_is_said() -> None:
    with pytest.raises(RuntimeError, match="call init_process_group"):
        World.current()
