"""Shows how far a run is: nested bars with the time left on a terminal, plain lines elsewhere.

>>> import io
>>> out = io.StringIO()
>>> with progress(2, out) as show:
...     show.step("none · seed 0", "trained in 3.0 s")
>>> out.getvalue()
'[1/2] none · seed 0: trained in 3.0 s\\n'
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from dpeval.engine import Event

QUIET = 0.25


class Show(Protocol):
    """Where progress goes."""

    def step(self, name: str, note: str) -> None:
        """One job is finished."""
        ...

    def inner(self, event: Event) -> None:
        """A job got further."""
        ...


class _Lines:
    def __init__(self, total: int, out: TextIO) -> None:
        self.total, self.out, self.done = total, out, 0

    def step(self, name: str, note: str) -> None:
        self.done += 1
        text = f"[{self.done}/{self.total}] {name}: {note}\n"
        encoding = getattr(self.out, "encoding", None) or "utf-8"
        self.out.write(text.encode(encoding, "replace").decode(encoding))
        self.out.flush()

    def inner(self, event: Event) -> None:
        del event


class _Bars:
    def __init__(self, bars: Progress, total: int) -> None:
        self.bars = bars
        self.outer = bars.add_task("jobs", total=total)
        self.tasks: dict[str, TaskID] = {}
        self.last: dict[str, float] = {}

    def step(self, name: str, note: str) -> None:
        self.bars.advance(self.outer)
        if name in self.tasks:
            self.bars.remove_task(self.tasks.pop(name))
        self.bars.console.print(f"{name}: {note}", markup=False, highlight=False)

    def inner(self, event: Event) -> None:
        name, what, done, total = event
        now = time.monotonic()
        if done != total and now - self.last.get(name, 0.0) < QUIET:
            return
        self.last[name] = now
        if name not in self.tasks:
            self.tasks[name] = self.bars.add_task(name, total=total)
        self.bars.update(self.tasks[name], description=f"  {name}: {what}", completed=done, total=total)


@contextmanager
def progress(total: int, out: TextIO | None = None) -> Iterator[Show]:
    """Progress over ``total`` jobs, written to ``out`` (standard error by default)."""
    stream = out or sys.stderr
    if not stream.isatty():
        yield _Lines(total, stream)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bars:
        yield _Bars(bars, total)
