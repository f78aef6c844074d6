"""Measures what a piece of work takes: wall time, processor time and peak memory above the start.

>>> with measured() as meter:
...     _ = bytearray(1000)
>>> meter.cost().seconds >= 0
True
"""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from dpeval.types import Cost

INTERVAL = 0.02


class Meter:
    """Filled in when the measured block ends."""

    def __init__(self) -> None:
        _give_back()
        self._process = psutil.Process()
        self._start = self._peak = self._process.memory_info().rss
        self._wall, self._process_cpu = time.perf_counter(), time.process_time()
        self._seconds = self._cpu_seconds = 0.0
        self._done = threading.Event()

    def watch(self) -> None:
        """Sample resident memory until told to stop."""
        while not self._done.wait(INTERVAL):
            self._peak = max(self._peak, self._process.memory_info().rss)

    def stop(self) -> None:
        """Freeze the readings."""
        self._done.set()
        self._peak = max(self._peak, self._process.memory_info().rss)
        self._seconds = time.perf_counter() - self._wall
        self._cpu_seconds = time.process_time() - self._process_cpu

    def cost(self, trained_parameters: int = 0) -> Cost:
        """The readings as a record."""
        return Cost(self._seconds, self._cpu_seconds, self._peak - self._start, trained_parameters)


def _give_back() -> None:
    """Return freed memory to the system, so that what earlier work left behind does not hide what this work takes."""
    gc.collect()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL("libc.so.6").malloc_trim(0)


@contextmanager
def measured() -> Iterator[Meter]:
    """Measure the block; a thread samples memory every 20 ms."""
    meter = Meter()
    watcher = threading.Thread(target=meter.watch, daemon=True)
    watcher.start()
    try:
        yield meter
    finally:
        meter.stop()
        watcher.join()
