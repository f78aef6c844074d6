"""Runs jobs in this process or in worker processes. Results do not depend on which, on how many, or on the order.

Workers are spawned, never forked: a fork would copy threads that tokenizers and OpenMP hold.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.managers import SyncManager
from typing import Any, Protocol

from dpeval.jobs import Bench, Job, JobReport
from dpeval.types import Failed

Done = Callable[[JobReport], None]
Event = tuple[str, str, int, int | None]
"""(job, what, done, total)."""
Listener = Callable[[Event], None]


class Engine(Protocol):
    """Does jobs and calls ``done`` with each report as it comes."""

    def run(self, jobs: Sequence[Job], bench: Bench, done: Done, listen: Listener) -> None:
        """Do all jobs."""
        ...


@dataclass(frozen=True)
class InProcess:
    """One job after the other, here."""

    def run(self, jobs: Sequence[Job], bench: Bench, done: Done, listen: Listener) -> None:
        """Do all jobs."""
        from dpeval.work import run_job

        with limited_threads(bench.threads):
            for job in jobs:
                done(run_job(job, bench, lambda what, i, n, name=job.name: listen((name, what, i, n))))  # type: ignore[misc]


@dataclass(frozen=True)
class Processes:
    """``workers`` processes of ``bench.threads`` threads each."""

    workers: int

    def run(self, jobs: Sequence[Job], bench: Bench, done: Done, listen: Listener) -> None:
        """Do all jobs; a worker that dies fails its job, and the others go on in a new pool."""
        waiting = list(jobs)
        alone = False
        while waiting:
            lost = self._pool(waiting, bench, done, listen, 1 if alone else self.workers)
            if lost and alone:
                done(JobReport(lost[0], failures={"release": Failed("the worker process died (out of memory?)")}))
                lost = lost[1:]
            waiting, alone = lost, bool(lost)

    def _pool(self, jobs: Sequence[Job], bench: Bench, done: Done, listen: Listener, workers: int) -> list[Job]:
        """Run ``jobs``; returns those that were not finished when a worker died."""
        left = {id(job): job for job in jobs}
        context = multiprocessing.get_context("spawn")
        manager = SyncManager(ctx=context)
        manager.start(_end_with_parent)
        with manager:
            events = manager.Queue()
            pool = ProcessPoolExecutor(min(workers, len(jobs)), context, _start_worker, (bench, _environment(bench)))
            try:
                futures: dict[Future[JobReport], Job] = {pool.submit(_work, job, bench, events): job for job in jobs}
                for future in _as_they_come(futures, events, listen):
                    try:
                        report = future.result()
                    except BrokenProcessPool:
                        return list(left.values())
                    del left[id(futures[future])]
                    done(report)
            except BrokenProcessPool:
                return list(left.values())
            finally:
                workers_left = list((getattr(pool, "_processes", None) or {}).values())  # shutdown forgets them
                pool.shutdown(wait=False, cancel_futures=True)
                for process in workers_left if left else []:
                    process.terminate()
        return []


def _as_they_come(futures: dict[Future[JobReport], Job], events: Any, listen: Listener) -> Iterator[Future[JobReport]]:
    pending: set[Future[JobReport]] = set(futures)
    while pending:
        finished, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
        while not events.empty():
            listen(events.get())
        yield from finished


def _environment(bench: Bench) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(bench.threads), "MKL_NUM_THREADS": str(bench.threads)}


def _end_with_parent() -> None:
    """Leave when the parent is gone, however it ended: a killed run leaves no process behind, and none that works."""

    def wait_for_it() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait_for_it, daemon=True).start()


def _start_worker(bench: Bench, environment: dict[str, str]) -> None:
    _end_with_parent()
    os.environ.update(environment)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    from dpeval.registry import load_file

    torch.set_num_threads(bench.threads)
    for path in bench.plugin_files:
        load_file(path)


def _work(job: Job, bench: Bench, events: Any) -> JobReport:
    from dpeval.work import run_job

    return run_job(job, bench, lambda what, i, n: events.put((job.name, what, i, n)))


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Use ``threads`` torch threads within the block: sums are made in the same order whatever the machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
