"""The implementation against the model on random schedules: invariants a to h of the protocol model.

Each run takes another seed and prints it on failure; `PROTOCOL_SEED` repeats one, `PROTOCOL_SECONDS` sets how long.
"""

import os
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.protocol.harness import a_world
from tests.protocol.machine import Machine

SECONDS = float(os.environ.get("PROTOCOL_SECONDS", "25"))
FEWEST = 3  # schedules, however slow the machine is
STEPS = 80


async def test_random_schedules_keep_the_invariants(folder: Path, catalog_template: Path) -> None:
    given = os.environ.get("PROTOCOL_SEED")
    seed, until, count = int(given or time.time_ns()), time.monotonic() + SECONDS, 0
    while count < FEWEST or time.monotonic() < until:
        await _schedule(folder, catalog_template, seed + count)
        count += 1
        if given:
            break
    print(f"{count} schedules from seed {seed}")


async def _schedule(folder: Path, catalog_template: Path, seed: int) -> None:
    with TemporaryDirectory(dir=folder) as name:
        async with a_world(Path(name), catalog_template) as world:
            machine = Machine(world, random.Random(seed))
            try:
                await machine.run(STEPS)
            except Exception as exc:
                steps = "\n".join(f"{number:4}  {text}" for number, text in enumerate(machine.trace, 1))
                raise AssertionError(f"PROTOCOL_SEED={seed}: {exc!r}\n{steps}") from exc
