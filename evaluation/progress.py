"""What is going on, on standard error: a bar on a terminal, now and then a line elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

EVERY_S = 20.0  # between lines where there is no terminal

Tell = Callable[[int], None]  # how many are done


def say(what: str) -> None:
    """A line."""
    sys.stderr.write(f"{what}\n")
    sys.stderr.flush()


@contextmanager
def bar(what: str, total: int) -> Iterator[Tell]:
    """Tells how many of `total` are done."""
    if not sys.stderr.isatty():
        yield _Lines(what, total)
        return
    columns = (
        TextColumn("{task.description:28}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


class _Lines:
    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._next_at = 0.0

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if now >= self._next_at or done == self._total:
            self._next_at = now + EVERY_S
            say(f"{self._what}: {done} of {self._total}")
