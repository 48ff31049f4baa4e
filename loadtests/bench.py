"""`python -m loadtests.bench [--only PREFIX]`: ratios into `build/bench.json`; the last line is the verdict."""

import sys
from pathlib import Path

from evaluation.running import Part, run
from loadtests import command, search, timing

FIGURES = Path("build/bench.json")
PARTS = (
    Part(command.PREFIX, (), command.measure, command.TARGETS),
    Part(timing.PREFIX, timing.TENANTS, timing.measure, timing.TARGETS),
    Part(search.PREFIX, (search.TENANT,), search.measure, search.TARGETS),
)

if __name__ == "__main__":
    sys.exit(run("loadtests.bench", __doc__, PARTS, FIGURES))
