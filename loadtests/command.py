"""How long `muniment --help` takes, beside an interpreter that does nothing."""

import subprocess
import sys
import time
from collections.abc import Sequence

from evaluation.figures import Figure, Target
from evaluation.metrics import median
from evaluation.system import COMMAND, System

PREFIX = "cli."
RUNS = 15

TARGETS: tuple[Target, ...] = ()


async def measure(_system: System) -> list[Figure]:
    """In turns, so that both meet the same load; the first run of each only warms the disk's cache."""
    helps, bares = [], []
    for _ in range(RUNS + 1):
        helps.append(_milliseconds([str(COMMAND), "--help"]))
        bares.append(_milliseconds([sys.executable, "-c", "pass"]))
    help_ms, bare_ms = median(helps[1:]), median(bares[1:])
    return [
        Figure("cli.help_ms", help_ms, "ms", RUNS, "p50 of `muniment --help`"),
        Figure("cli.help_over_python", help_ms / bare_ms, "", RUNS, f"`python -c pass`: {bare_ms:.0f} ms"),
    ]


def _milliseconds(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return (time.perf_counter() - began) * 1000
