"""One method on one model in a process of its own: a step for each line of standard input, its cost on the output."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from pathlib import Path

import torch
import transformers

from .methods import step_of
from .shapes import SHAPES, Task, counted_floor


def work(shape: str, method: str, steps: int, threads: int) -> None:
    """Answers ``{"rows": …, "at_once": …}`` with wall and processor seconds and the peak of memory in bytes.

    Memory is resident memory over what the process had when the model was built: gradients, optimizer states, what is
    kept for the backward pass. The first answer says that the model stands, or why the method refuses it.
    """
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    task = Task(SHAPES[shape].build().train(), steps, positions=method.startswith("opacus"))
    own = _status("VmRSS")
    try:
        step = step_of(method, task)
        _answer(floor=counted_floor(task.model, steps, method))
        for line in sys.stdin:
            order = json.loads(line)
            _trim()
            wall, cpu = time.perf_counter(), time.process_time()
            step(order["rows"], order["at_once"])
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            _answer(wall=wall, cpu=cpu, peak=_status("VmHWM") - own)
    except Exception as error:  # noqa: BLE001 - whatever a method refuses a model with is its row of the table
        _answer(error=f"{type(error).__name__}: {error}".splitlines()[0][:200])


def _answer(**values: object) -> None:
    print(json.dumps(values), flush=True)


def _trim() -> None:
    """Gives memory that was freed back to the system, and starts a new peak."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}")


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
