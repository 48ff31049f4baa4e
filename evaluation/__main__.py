"""`python -m evaluation [--only PREFIX]`: measure quality into `build/eval.json`; the last line is the verdict."""

import sys
from pathlib import Path

from evaluation import handbook, scifact
from evaluation.running import Part, run

FIGURES = Path("build/eval.json")
PARTS = (
    Part(handbook.PREFIX, (handbook.TENANT,), handbook.measure, handbook.TARGETS),
    Part(scifact.PREFIX, (scifact.TENANT,), scifact.measure, scifact.TARGETS),
)

if __name__ == "__main__":
    sys.exit(run("evaluation", __doc__, PARTS, FIGURES))
